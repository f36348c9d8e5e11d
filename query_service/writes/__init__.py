"""Writes through the service: commands for the log, and their outcomes."""
