"""Messages on their way to a client: bounded, ordered, in groups and frames."""
