"""The subscription engine, and the runner that writes configured subscriptions to Kafka."""
