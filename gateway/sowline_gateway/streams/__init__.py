"""Shared streams: the changes that several clients ask for, followed once at the nodes."""
