"""A worker: takes partitions as the consumer group assigns them, and applies their logs batch by batch."""
