"""A partition of a changes topic that is loaded, and then followed. Pure."""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from sowline.changes.change import Change, Event
from sowline.changes.changes_loader import LoadProgress, Phase, Verdict, is_of, verdict
from sowline.changes.newest_changes import NewestChanges
from sowline.model.position import position_of
from sowline_views.core.spilling import SpillCodec, SpillMap, SpillSpace

CHANGE_BYTES: Final = 600
"""Approximate bytes in memory of a change, in addition to its bodies."""

_CHANGE: Final = Struct(">4q?")


class ChangesMissing(Exception):
    """Changes between the position and an event are gone: the partition must be loaded again."""


def _encoded(change: Change) -> bytes:
    """Return what a load needs of a change as bytes."""
    fields = _CHANGE.pack(change.time, *change.position, change.body is not None)
    return fields + (change.body or b"")


def _decoded(key: bytes, data: bytes) -> Change:
    time, era, offset, nth, has_body = _CHANGE.unpack_from(data)
    position = position_of((era, offset, nth))
    body = data[_CHANGE.size :] if has_body else None
    return Change(sow_key=key, body=body, previous=None, position=position, after=position, op="", time=time)


def _size(change: Change) -> int:
    return CHANGE_BYTES + len(change.body or b"") + len(change.previous or b"")


CHANGES: Final = SpillCodec[Change](_encoded, _decoded, _size)
"""The codec of changes that are being loaded."""


class FollowedPartition:
    """The position in a partition, and its newest changes while they are being loaded."""

    def __init__(
        self, name: str, topic_id: str, progress: LoadProgress, space: SpillSpace | None = None
    ) -> None:
        """Begin to load; errors call the partition `name`, and `topic_id` is that of its changes topic.

        The newest changes are in `space`; without one, all of them are in memory.
        """
        self.topic_id = topic_id
        self.next_offset = 0
        self.phase = Phase.READING
        self._newest = SpillMap(SpillSpace() if space is None else space, CHANGES)
        self.load: NewestChanges | None = NewestChanges(topic_id, progress, newest=self._newest)
        self._name = name
        self._followed = self.load.position
        """The position up to which changes were taken."""

    def taken(self, event: Event, offset: int) -> Event | None:
        """Take the next event; return it if it is to be applied now. Raise `ChangesMissing`."""
        self.next_offset = max(offset + 1, self.next_offset)
        if self.load is not None:
            self.load.take(event, offset)
            return None
        if not is_of(event, self.topic_id):
            return None
        judged = verdict(event, self._followed)
        if judged is Verdict.GAP:
            raise ChangesMissing(f"{self._name}: changes after {self._followed} are gone")
        if judged is Verdict.DROP:
            return None
        self._followed = event.position
        return event

    def at_end(self, offset: int) -> None:
        """Note that all events before an offset, the end, were taken."""
        self.next_offset = max(offset, self.next_offset)
        if self.load is not None:
            self.load.progress.at_end(offset)

    def loaded(self) -> Iterator[Change]:
        """End the load, and follow from its position; return the newest change of each live record."""
        assert self.load is not None, "it is loading"
        load, self.load = self.load, None
        self._followed = load.position
        return self._given(load)

    def _given(self, load: NewestChanges) -> Iterator[Change]:
        yield from load.live()
        self._newest.close()

    def close(self) -> None:
        """Remove what it holds. Call nothing else after that."""
        if self.load is not None:
            self._newest.close()
