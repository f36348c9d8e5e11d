"""The sessions of clients: their commands, over WebSocket and as event streams."""
