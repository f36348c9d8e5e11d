"""A replica that has loaded events, and what they are made of."""

from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from sowline.changes.change import Change
from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.model.position import Position
from sowline_query_service.index.rows import Rows
from sowline_query_service.replica.partition_replica import (
    PartitionReplica,
)
from sowline_query_service.replica.plain_run import EventAtOffset


def change(offset: int, key: int = 1, body: bytes | None = b"{}", nth: int = 0, **given: Any) -> Change:
    """Return a change that follows the one before it."""
    fields = {
        "after": Position(0, offset, nth - 1) if nth else Position(0, offset - 1),
        "op": "publish",
    } | given
    return Change(b"%d" % key, body, None, Position(0, offset, nth), time=1000 + offset, **fields)


def progress(offset: int, after: int | None = None) -> Progress:
    """Return a progress event."""
    position = Position(0, offset if after is None else after)
    return Progress(Position(0, offset), position, 0, {}, "", "", 1000 + offset, {})


def placed(events: Iterable[Event], start: int = 0) -> list[EventAtOffset]:
    """Return the events at offsets of the changes topic that follow each other."""
    return [EventAtOffset(offset, event) for offset, event in enumerate(events, start)]


ROWS: WeakKeyDictionary[PartitionReplica, Rows] = WeakKeyDictionary()
"""The rows of each replica."""


def replica_of(*events: Event, ring: int = 100, ring_bytes: int = 10**6) -> PartitionReplica:
    """Return a replica that has loaded these events."""
    rows = Rows()
    replica = PartitionReplica(3, rows, ring, ring_bytes)
    ROWS[replica] = rows
    replica.load(placed(events))
    replica.loaded()
    return replica


def held(replica: PartitionReplica) -> dict[bytes, int]:
    """Return the offset of each record's last change."""
    rows = ROWS[replica]
    return {key: position.offset for key in rows.numbers if (position := rows.position(key))}
