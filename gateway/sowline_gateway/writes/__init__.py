"""Writes through the gateway: it writes to Kafka itself, and the nodes report the outcomes."""
