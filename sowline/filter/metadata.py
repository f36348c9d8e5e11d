"""What is known of a record beside its document: what the message functions give."""

from typing import NamedTuple

from sowline.emodb import Intrinsics
from sowline.emodb.writes import Writes, intrinsics_of


class Metadata(NamedTuple):
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
    intrinsics: Intrinsics | None = None
    """Only documents have it. For other records, conditions use the facts above."""
    tags: tuple[str, ...] = ()
    """Of a document's last write."""


def document_about(topic: Metadata, id: str, writes: Writes) -> Metadata:
    """What is known of a document with content, beside what is known of every record of its topic."""
    return topic._replace(intrinsics=intrinsics_of(topic.topic or "", id, writes), tags=writes.tags)


UNKNOWN = Metadata()
"""Nothing is known."""
