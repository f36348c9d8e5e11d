"""What travels: commands on the log, changes, and the messages of the WebSocket API. Pure."""
