"""Loads one partition of a changes topic into memory: the newest change of each key. Pure.

For readers that load by the rule that all readers share (`sowline.protocol.changes_loader`), and then follow.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from sowline.model.position import Position, before_the_log
from sowline.protocol.change import Change, Event
from sowline.protocol.changes_loader import LoadProgress, NewestEvents, Phase, RelativeAge, is_of


@dataclass
class NewestChanges:
    """The newest change of each key so far, and the newest position; `progress` shows whether it is complete."""

    topic_id: str
    progress: LoadProgress
    position: Position = field(default_factory=before_the_log)
    newest: dict[bytes, Change] = field(default_factory=dict)
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
