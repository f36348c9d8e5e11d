"""Measurements: each a ratio to something in the same run."""
