"""The common parts of services with clients: access, sessions, outboxes, and the HTTP and WebSocket servers."""
