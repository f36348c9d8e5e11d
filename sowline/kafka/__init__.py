"""Access to Kafka: clients, topic administration, health."""
