"""Message formats: commands on the log, changes, and the messages of the WebSocket API. Pure."""
