"""The configuration of a deployment: topics, settings, credentials."""
