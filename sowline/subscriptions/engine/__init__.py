"""The subscription engine: what a change means to each subscription. Pure."""
