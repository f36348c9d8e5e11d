"""The metadata of a record, which the message functions return (`TOPIC_NAME()`, `LAST_UPDATED()`, …)."""

from typing import NamedTuple

from sowline.language.emodb import Intrinsics
from sowline.language.emodb.writes import Writes, intrinsics_of


class Metadata(NamedTuple):
    """Facts about one record. None means unknown, and is NULL in a filter."""

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
    """Only documents have intrinsics. For other records, conditions use the facts above."""
    tags: tuple[str, ...] = ()
    """The tags of a document's last write."""


def document_about(topic: Metadata, id: str, writes: Writes) -> Metadata:
    """Return the metadata of a topic's records, extended with that of one document that has content."""
    return topic._replace(intrinsics=intrinsics_of(topic.topic or "", id, writes), tags=writes.tags)


UNKNOWN = Metadata()
"""The metadata of a record about which nothing is known."""
