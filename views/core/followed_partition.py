"""A partition of a changes topic that is loaded, and then followed. Pure."""

from collections.abc import Iterator

from sowline.protocol.change import Change, Event
from sowline.protocol.changes_loader import LoadProgress, Phase, Verdict, is_of, verdict
from sowline.protocol.newest_changes import NewestChanges


class ChangesMissing(Exception):
    """Changes between the position and an event are gone: the partition must be loaded again."""


class FollowedPartition:
    """The position in a partition, and its newest changes while they are being loaded."""

    def __init__(self, name: str, topic_id: str, progress: LoadProgress) -> None:
        """Begin to load; errors call the partition `name`, and `topic_id` is that of its changes topic."""
        self.topic_id = topic_id
        self.next_offset = 0
        self.phase = Phase.READING
        self.load: NewestChanges | None = NewestChanges(topic_id, progress)
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
        return load.live()
