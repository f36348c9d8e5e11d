"""The gateway: gives clients one API over query services that hold parts of the topics."""
