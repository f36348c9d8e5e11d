"""The newest change of each key, for readers that load a changes partition and then follow it. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from sowline.changes.change import Change
from sowline.changes.event import Event
from sowline.changes.ranking import NewestEvents, RelativeAge


class ChangesByKey(Protocol):
    """Changes by SOW key, like a dict. An implementation need only keep the key, body, position and time."""

    def get(self, key: bytes, /) -> Change | None:
        """Return the change of a key."""

    def __setitem__(self, key: bytes, change: Change, /) -> None:
        """Set the change of a key."""

    def values(self) -> Iterable[Change]:
        """Return all changes."""
        ...


@dataclass
class NewestChanges:
    """The newest change of each key so far. The partition's `ChangesReader` shows whether they are complete."""

    newest: ChangesByKey = field(default_factory=dict[bytes, Change])
    _ranks: NewestEvents = field(default_factory=NewestEvents)

    def take(self, event: Event) -> None:
        """Add the next event of the load (`Verdict.LOAD`), in the order of the offsets."""
        self._ranks.saw(event)
        if isinstance(event, Change):
            held = self.newest.get(event.sow_key)
            if self._ranks.relative_age(event, None if held is None else held.position) is RelativeAge.NEWER:
                self.newest[event.sow_key] = event
                self._ranks.keep(event, is_stored=True)

    def live(self) -> Iterator[Change]:
        """Yield the newest change of each live record."""
        return (change for change in self.newest.values() if change.body is not None)
