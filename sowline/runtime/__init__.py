"""The shared parts of all processes: start and stop, HTTP server, health, metrics, traces, Java."""
