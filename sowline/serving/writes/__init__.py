"""Writes through a service: commands for the log, and their outcomes."""
