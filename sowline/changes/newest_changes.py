"""Loads one partition of a changes topic: the newest change of each key. Pure.

For readers that load by the rule that all readers share (`sowline.changes.changes_loader`), and then follow.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from sowline.changes.change import Change, Event
from sowline.changes.changes_loader import LoadProgress, NewestEvents, Phase, RelativeAge, is_of
from sowline.model.position import Position, before_the_log


class ChangesByKey(Protocol):
    """Changes by SOW key, as a dict has them. What else holds them needs to keep key, body, position and time."""

    def get(self, key: bytes, /) -> Change | None:
        """Return the change of a key."""

    def __setitem__(self, key: bytes, change: Change, /) -> None:
        """Set the change of a key."""

    def values(self) -> Iterable[Change]:
        """Return all changes."""


@dataclass
class NewestChanges:
    """The newest change of each key so far, and the newest position; `progress` shows whether it is complete."""

    topic_id: str
    progress: LoadProgress
    position: Position = field(default_factory=before_the_log)
    newest: ChangesByKey = field(default_factory=dict[bytes, Change])
    _ranks: NewestEvents = field(default_factory=NewestEvents)

    def take(self, event: Event, offset: int) -> None:
        """Add the next event of the partition, in the order of the offsets."""
        self.progress.saw((event,), (offset,))
        self.progress.read_up_to(offset + 1)
        if not is_of(event, self.topic_id):
            return
        self._ranks.saw(event)
        self.position = max(self.position, event.position)
        if isinstance(event, Change):
            held = self.newest.get(event.sow_key)
            if self._ranks.relative_age(event, None if held is None else held.position) is RelativeAge.NEWER:
                self.newest[event.sow_key] = event
                self._ranks.keep(event, is_stored=True)

    def phase(self, now: float) -> Phase:
        """Return the phase of the load at the time `now`, in seconds of a monotonic clock."""
        return self.progress.phase(now)

    def live(self) -> Iterator[Change]:
        """Yield the newest change of each live record."""
        return (change for change in self.newest.values() if change.body is not None)
