"""What is known of a record beside its document: what the message functions give."""

from typing import NamedTuple


class About(NamedTuple):
    """Facts of one record; `None` is not known, and NULL in a filter."""

    sow_key: str | None = None
    topic: str | None = None
    bookmark: str | None = None
    size: int | None = None
    """Bytes of the body."""
    updated: float | None = None
    """Seconds since 1970 of the last change."""
    correlation: str | None = None
    last_read: float | None = None
    """Seconds since 1970 when the record was last read."""
    instance: str | None = None
    group: str | None = None


UNKNOWN = About()
"""Nothing is known."""
