"""A partition of a view's source: loads its records, follows its changes, and makes messages of partial states. Pure.

It loads the newest change of each record, sends a snapshot, and follows. States have positions, which order them. In
a view without joins they are those of the source, so every owner gives the same state the same position. With joins,
the order in which changes of several topics arrive decides. Then each owner has a generation, higher than all before,
and counts what it takes: its positions are `generation/count`.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from sowline.config.topics import TopicDefinition
from sowline.model.path import Document
from sowline.model.position import Position
from sowline.protocol.change import Change, Event
from sowline.protocol.changes_loader import LoadProgress
from views.core.followed_partition import FollowedPartition
from views.core.joins import JoinedStates, JoinedTable
from views.core.outgoing import Outgoing, OutgoingPartials
from views.core.states import states_of

TakenOut = list[tuple[bytes, Document | None]]
"""Records that are to be joined again, each with its document before."""


class SourcePartition(FollowedPartition):
    """One partition of the topic that a view reads."""

    def __init__(
        self,
        topic: TopicDefinition,
        partition: int,
        partitions: int,
        topic_id: str,
        progress: LoadProgress,
        tables: Sequence[JoinedTable] = (),
        generation: int = 0,
    ) -> None:
        """Begin to load partition `partition` of `partitions` of the source; `topic_id` is that of its changes.

        `generation` is needed with `tables`, those of the view's joins.
        """
        view = topic.view
        assert view is not None
        super().__init__(f"partition {partition}", topic_id, progress)
        self.partition = partition
        self._topic = topic
        self._partitions = partitions
        states = states_of(view, partition)
        self._joined = JoinedStates(tables, states) if tables else None
        self._states = self._joined or states
        self._generation = generation
        self._count = 0
        self._outgoing: OutgoingPartials | None = None
        self._snapshot: Iterator[Outgoing] | None = None

    @property
    def is_sending_snapshot(self) -> bool:
        """Whether messages of a snapshot are left. No events may be taken until then."""
        return self._snapshot is not None

    def take(self, event: Event, offset: int) -> Sequence[Outgoing]:
        """Take the next event of the source; return the messages that it ends. Raise `ChangesMissing`."""
        taken = self.taken(event, offset)
        if taken is None:
            return ()
        assert self._outgoing is not None, "what is not loading follows"
        changes = self._states.change(taken) if isinstance(taken, Change) else ()
        return list(self._outgoing.take(self._next_position(), changes))

    def _next_position(self) -> Position:
        if self._joined is None:
            return self._followed
        self._count += 1
        return Position(self._generation, self._count)

    def take_out(self, table: JoinedTable, sow_key: bytes) -> TakenOut:
        """Take out the records that a joined record belongs to, before that changes."""
        if self._joined is None or self._outgoing is None:
            return []
        return self._joined.touched(table, sow_key)

    def take_in(self, taken_out: TakenOut) -> Sequence[Outgoing]:
        """Join the records again that were taken out; return the messages that this ends."""
        if self._joined is None or self._outgoing is None or not taken_out:
            return ()
        changes = self._joined.touch(taken_out)
        return list(self._outgoing.take(self._next_position(), changes))

    def flush(self, *, also_idle: bool) -> list[Outgoing]:
        """Return messages up to the position; `also_idle` reports it to all partitions of the view."""
        if self._outgoing is None or self.is_sending_snapshot:
            return []
        return list(self._outgoing.flush(also_idle=also_idle))

    def end_load(self) -> None:
        """Use the records that were loaded, and begin to send a snapshot."""
        self._states.load(self.loaded())
        self._outgoing = OutgoingPartials(
            self._topic, self.partition, self._partitions, self._next_position()
        )
        self._snapshot = self._outgoing.snapshot(self._states.all())

    def snapshot(self, messages_max: int) -> list[Outgoing]:
        """Return the next messages of the snapshot."""
        assert self._snapshot is not None, "there is a snapshot"
        messages = list(islice(self._snapshot, messages_max))
        if len(messages) < messages_max:
            self._snapshot = None
        return messages
