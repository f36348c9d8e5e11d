"""Turn the log into the State of the World: one RocksDB partition for each Kafka partition."""
