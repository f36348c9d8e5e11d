"""Queries: which records match at one instant, in which order and number."""
