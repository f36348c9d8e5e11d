"""The HTTP API and the WebSocket API."""
