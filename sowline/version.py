"""The version of Sowline: in logs, health answers, stored state, and the package's metadata."""

__version__ = "0.1.0"
