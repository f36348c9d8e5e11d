"""Errors for stored state that can't be trusted."""


class StoreDamaged(Exception):
    """The content of the store can't be trusted: close it and recover the partition from another source."""
