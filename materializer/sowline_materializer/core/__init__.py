"""The pure core of a partition: (state, log records) to (new state, what to emit)."""
