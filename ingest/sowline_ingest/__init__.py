"""Put commands on the log: the PySpark pipeline, its sources and its sink."""
