"""What a deployment configures: topics, settings, credentials."""
