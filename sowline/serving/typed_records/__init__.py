"""Records that are sent in the message type of their topic, instead of as JSON."""
