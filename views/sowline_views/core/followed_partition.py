"""A partition of a changes topic that is loaded, and then followed. Pure."""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from sowline.changes.change import Change
from sowline.changes.changes_reader import ChangesMissing, ChangesReader, Verdict
from sowline.changes.event import Event
from sowline.changes.newest_changes import NewestChanges
from sowline.model.position import position_of
from sowline_views.core.spilling import SpillCodec, SpillMap, SpillSpace

CHANGE_BYTES: Final = 600
"""Approximate bytes in memory of a change, in addition to its bodies."""

_CHANGE: Final = Struct(">4q?")


def _encoded(change: Change) -> bytes:
    """Return the fields of a change that a load needs, as bytes."""
    fields = _CHANGE.pack(change.time, *change.position, change.body is not None)
    return fields + (change.body or b"")


def _decoded(key: bytes, data: bytes) -> Change:
    time, era, offset, nth, has_body = _CHANGE.unpack_from(data)
    assert has_body or len(data) == _CHANGE.size, "a change without a body ends with its fields"
    position = position_of((era, offset, nth))
    body = data[_CHANGE.size :] if has_body else None
    # A load reads only the key, the body, the position and the time.
    return Change(sow_key=key, body=body, previous=None, position=position, after=position, op="", time=time)


def _size(change: Change) -> int:
    return CHANGE_BYTES + len(change.body or b"") + len(change.previous or b"")


CHANGES: Final = SpillCodec[Change](_encoded, _decoded, _size)
"""The codec of changes that are being loaded."""


class FollowedPartition:
    """Takes the events of a partition that count, and keeps its newest changes while they are being loaded."""

    def __init__(self, name: str, reader: ChangesReader, space: SpillSpace | None = None) -> None:
        """Begin to load; errors call the partition `name`.

        The newest changes are in `space`; without one, all of them are in memory.
        """
        self.reader = reader
        self._newest = SpillMap(SpillSpace() if space is None else space, CHANGES)
        self._load = NewestChanges(self._newest)
        self._name = name

    def taken(self, event: Event, offset: int) -> Event | None:
        """Take the next event; return it if it is to be applied now. Raise `ChangesMissing`."""
        try:
            judged = self.reader.take(event, offset)
        except ChangesMissing as gap:
            raise ChangesMissing(f"{self._name}: {gap}") from gap
        if judged is Verdict.LOAD:
            self._load.take(event)
        assert judged is not Verdict.LOAD or self.reader.is_loading, "only a load keeps the newest changes"
        return event if judged is Verdict.TAKE else None

    def take_loaded(self) -> Iterator[Change]:
        """Yield the newest change of each live record once, after the load."""
        # Afterwards the caller has the records. Kept here as well, they would take the memory twice.
        assert not self.reader.is_loading, "a load is taken once it has ended"
        yield from self._load.live()
        self._newest.close()

    def close(self) -> None:
        """Remove its records. Call nothing else afterwards."""
        # After a load, `take_loaded` has closed it, and a map is closed only once.
        if self.reader.is_loading:
            self._newest.close()
