"""Run Sowline: a local Kafka broker, container images, a compose file."""
