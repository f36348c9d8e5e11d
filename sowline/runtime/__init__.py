"""What every process needs: start and stop, HTTP server, health, metrics, traces, Java."""
