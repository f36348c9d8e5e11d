"""A partition of a view's source: loads its records, follows its changes, and makes messages of partial states. Pure.

Without a position to follow from, it loads the newest change of each record. Then it sends a snapshot, and follows.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from sowline.config.topics import TopicDefinition
from sowline.model.position import Position
from sowline.protocol.change import Change, Event
from sowline.protocol.changes_loader import LoadProgress, Phase, Verdict, is_of, verdict
from sowline.protocol.newest_changes import NewestChanges
from views.core.outgoing import Outgoing, OutgoingPartials
from views.core.states import states_of


class ChangesMissing(Exception):
    """Changes between the position and an event are gone: the partition must be loaded again."""


class SourcePartition:
    """One partition of the topic that a view reads."""

    def __init__(
        self,
        topic: TopicDefinition,
        partition: int,
        partitions: int,
        topic_id: str,
        progress: LoadProgress,
    ) -> None:
        """Begin to load partition `partition` of `partitions` of the source; `topic_id` is that of its changes."""
        view = topic.view
        assert view is not None
        self.partition = partition
        self.topic_id = topic_id
        self.next_offset = 0
        self.phase = Phase.READING
        self.load: NewestChanges | None = NewestChanges(topic_id, progress)
        self._topic = topic
        self._partitions = partitions
        self._states = states_of(view, partition)
        self._outgoing: OutgoingPartials | None = None
        self._snapshot: Iterator[Outgoing] | None = None

    @property
    def position(self) -> Position | None:
        """The position up to which changes were taken; None while it loads."""
        return None if self._outgoing is None else self._outgoing.position

    @property
    def is_sending_snapshot(self) -> bool:
        """Whether messages of a snapshot are left. No events may be taken until then."""
        return self._snapshot is not None

    def take(self, event: Event, offset: int) -> Sequence[Outgoing]:
        """Take the next event; return the messages that it ends. Raise `ChangesMissing`."""
        self.next_offset = max(offset + 1, self.next_offset)
        if self.load is not None:
            self.load.take(event, offset)
            return ()
        outgoing = self._outgoing
        assert outgoing is not None, "what is not loading follows"
        if not is_of(event, self.topic_id):
            return ()
        judged = verdict(event, outgoing.position)
        if judged is Verdict.GAP:
            raise ChangesMissing(f"partition {self.partition}: changes after {outgoing.position} are gone")
        if judged is Verdict.DROP:
            return ()
        changes = self._states.change(event) if isinstance(event, Change) else ()
        return list(outgoing.take(event.position, changes))

    def at_end(self, offset: int) -> None:
        """Note that all events before an offset, the end, were taken."""
        self.next_offset = max(offset, self.next_offset)
        if self.load is not None:
            self.load.progress.at_end(offset)

    def flush(self, *, also_idle: bool) -> list[Outgoing]:
        """Return messages up to the position; `also_idle` reports it to all partitions of the view."""
        if self._outgoing is None or self.is_sending_snapshot:
            return []
        return list(self._outgoing.flush(also_idle=also_idle))

    def end_load(self) -> None:
        """Use the records that were loaded, and begin to send a snapshot."""
        assert self.load is not None, "it is loading"
        load, self.load = self.load, None
        self._states.load(load.live())
        self._outgoing = OutgoingPartials(self._topic, self.partition, self._partitions, load.position)
        self._snapshot = self._outgoing.snapshot(self._states.all())

    def snapshot(self, messages_max: int) -> list[Outgoing]:
        """Return the next messages of the snapshot."""
        assert self._snapshot is not None, "there is a snapshot"
        messages = list(islice(self._snapshot, messages_max))
        if len(messages) < messages_max:
            self._snapshot = None
        return messages
