"""What every service that clients connect to has: access, sessions, outboxes, and the HTTP and WebSocket servers."""
