"""Subscriptions: the lifecycle of one for its subscriber, and what subscribers get of changes."""
