"""Partial states of views, computed change by change. Pure."""
