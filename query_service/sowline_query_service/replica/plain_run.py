"""Runs of plain changes, which the native core has read in bulk. Pure.

A plain change is a publish or a delta publish without rare fields. The native core (`sowline_native`) reads runs of
them while a partition is loaded. It does what Python does with their events one by one
(tests/property/test_native_replica.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from sowline.changes.event import Event, read_event
from sowline.model.position import Position


class EventAtOffset(NamedTuple):
    """An event and its offset in the changes topic."""

    offset: int
    event: Event


class MessageColumns(NamedTuple):
    """Messages of changes topics as columns."""

    topics: list[Any]
    partitions: list[Any]
    offsets: list[Any]
    keys: list[Any]
    values: list[Any]
    headers: list[Any]

    def partition(self, at: int) -> tuple[str, int]:
        """Return the topic and the partition of a message."""
        return self.topics[at] or "", self.partitions[at] or 0

    def event(self, at: int) -> EventAtOffset:
        """Return the event in a message; raise an error if there is none."""
        event = read_event(self.keys[at] or b"", self.values[at], self.headers[at])
        return EventAtOffset(self.offsets[at] or 0, event)


class PlainRun:
    """Plain changes of one partition that follow each other in its changes topic; at least one."""

    def __init__(self, messages: MessageColumns, start: int, changes: Any) -> None:
        """Name messages from `start` on, which the native core has read: `changes` are its `PlainChanges`."""
        assert len(changes), "a run has at least one change"
        self.changes = changes
        self.highest: Position = Position(*changes.highest)
        """The highest position of a change."""
        self._messages = messages
        self._start = start

    def __len__(self) -> int:
        return len(self.changes)

    def __iter__(self) -> Iterator[EventAtOffset]:
        """Yield the changes, read by Python."""
        return map(self._messages.event, range(self._start, self._start + len(self)))

    @property
    def last_offset(self) -> int:
        """The offset of its last change."""
        return int(self._messages.offsets[self._start + len(self) - 1])


Portion: TypeAlias = EventAtOffset | PlainRun
"""One event, or a run of plain changes."""


def events_of(portions: Sequence[Portion]) -> Iterable[EventAtOffset]:
    """Return all events one by one."""
    if PlainRun not in set(map(type, portions)):
        return portions  # type: ignore[return-value]
    return chain.from_iterable([one] if isinstance(one, EventAtOffset) else one for one in portions)
