"""A partition of a view's source: loads its records, follows its changes, and makes messages of partial states. Pure.

It loads the newest change of each record, sends a snapshot, and follows. States have positions, which order them. In
a view without joins they are those of the source, so every owner gives the same state the same position. With joins,
the order in which changes of several topics arrive decides. Then each owner has a generation, higher than all before,
and counts what it takes: its positions are `generation/count`. Its messages name the positions
that it has taken of all these topics, too.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from types import ModuleType
from typing import Final

from sowline.changes.change import Change
from sowline.changes.changes_reader import ChangesReader
from sowline.changes.event import Event
from sowline.config.topic_definition import TopicDefinition
from sowline.model.bookmark import Positions
from sowline.model.position import Position
from sowline_views.core.followed_partition import FollowedPartition
from sowline_views.core.joined_tables import JoinedEvent, JoinedTables
from sowline_views.core.joins import JoinedStates, TakenOut
from sowline_views.core.native_groups import native_states
from sowline_views.core.outgoing import NOTHING_TAKEN, LargeState, Moved, Outgoing, OutgoingPartials
from sowline_views.core.states import StateChange

NO_TABLES: Final = JoinedTables(())

RECORDS_MAX: Final = 500
"""Records of a source partition that are joined again before others get a turn."""


class SourcePartition(FollowedPartition):
    """One partition of the topic that a view reads."""

    def __init__(
        self,
        topic: TopicDefinition,
        partition: int,
        partitions: int,
        reader: ChangesReader,
        tables: JoinedTables = NO_TABLES,
        generation: int = 0,
        log: str = "",
        native: ModuleType | None = None,
    ) -> None:
        """Begin to load partition `partition` of `partitions` of the source.

        `generation`, and `log`, the source's, are needed with `tables`, those of the view's joins.
        `native` is the module of the native core; without it, Python does everything.
        """
        view = topic.view
        assert view is not None, "it is a view"
        super().__init__(f"partition {partition}", reader, tables.space if tables else None)
        assert 0 <= partition < partitions, "the partition is one of the source"
        assert bool(log) or not tables, "a view with joins knows the log of its source"
        self.partition = partition
        self._topic = topic
        self._partitions = partitions
        states = native_states(view, partition, native, tables.all)
        self._joined = JoinedStates(tables, states) if tables else None
        self._states = self._joined or states
        self._tables = tables
        self._generation = generation
        self._log = log
        self._count = 0
        self._outgoing: OutgoingPartials | None = None
        self._rejoined: dict[str, StateChange] = {}
        """The last state of each group that the current event of a joined topic has changed so far."""
        self._snapshot: Iterator[Outgoing] | None = None

    def close(self) -> None:
        """Remove its records of the source. Call nothing else afterwards."""
        super().close()
        if self._joined is not None:
            self._joined.close()

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
        assert not self.is_sending_snapshot, "no event is taken before the snapshot is sent"
        changes = self._states.change(taken) if isinstance(taken, Change) else ()
        moved = None if self._joined is None else self._moved(self._log, self.partition)
        # `take` is a generator: it takes the change only while it is read. A caller may ignore its messages.
        return list(self._outgoing.take(self._next_position(), changes, moved))

    def _next_position(self) -> Position:
        if self._joined is None:
            return self.reader.position
        self._count += 1
        return Position(self._generation, self._count)

    def _moved(self, log: str, partition: int) -> Moved:
        """Return the position up to which a partition of the source or of a joined topic was taken."""
        joined = self._tables.taken.get(log, {}).get(partition)
        if (log, partition) != (self._log, self.partition):
            assert joined is not None, "it is the partition of a joined topic"
            return Moved(log, partition, joined)
        # A topic that is joined to itself is read twice: its changes are in the view once both have them
        # (test_a_topic_joined_to_itself_is_taken_twice).
        return Moved(
            log, partition, self.reader.position if joined is None else min(joined, self.reader.position)
        )

    # an event of a joined topic, by `take_joined`

    def concerned(self, event: JoinedEvent) -> list[bytes]:
        """Return the records that a joined record belongs to, before that changes."""
        # While it loads, nothing is joined again: its records are joined at the end, with the tables of that moment.
        return [] if self._joined is None or self._outgoing is None else self._joined.concerned(event)

    def take_out(self, event: JoinedEvent, records: Sequence[bytes]) -> TakenOut:
        """Take out some of these records, while the joined record is still as before."""
        if self._joined is None or self._outgoing is None:
            return []
        return self._joined.take_out(event, records)

    def take_in(self, event: JoinedEvent, taken_out: TakenOut) -> None:
        """Rejoin the records that were taken out."""
        if self._joined is not None and self._outgoing is not None:
            self._rejoined.update((one.key, one) for one in self._joined.take_in(event, taken_out))

    def end_joined(self, event: JoinedEvent) -> Sequence[Outgoing]:
        """Return the messages that the event ends, once all of its records are joined again."""
        changes, self._rejoined = self._rejoined, {}
        if self._joined is None or self._outgoing is None:
            return ()
        moved = self._moved(event.log, event.partition)
        return list(self._outgoing.take(self._next_position(), changes.values(), moved))

    def take_large_state(self) -> LargeState | None:
        """Return a state that has become large; None if there is nothing to warn about."""
        return None if self._outgoing is None else self._outgoing.take_large_state()

    def flush(self, *, also_idle: bool) -> list[Outgoing]:
        """Return messages up to the position; `also_idle` reports it to all partitions of the view."""
        # A partition of the view must not get a later position before it has its part of the snapshot.
        if self._outgoing is None or self.is_sending_snapshot:
            return []
        return list(self._outgoing.flush(also_idle=also_idle))

    def end_load(self) -> None:
        """Use the records of a load that has ended, and begin to send a snapshot."""
        assert self._outgoing is None, "a load ends once"
        assert not self._rejoined, "nothing is joined again before the load has ended"
        self._states.load(self.take_loaded())
        self._outgoing = OutgoingPartials(
            self._topic, self.partition, self._partitions, self._next_position(), self._taken()
        )
        self._snapshot = self._outgoing.write_snapshot(self._states.take_loaded())

    def _taken(self) -> Mapping[str, Positions]:
        """Return the positions taken of the source and the joined topics; none in a view without joins."""
        if self._joined is None:
            return NOTHING_TAKEN
        found = {log: dict(positions) for log, positions in self._tables.taken.items()}
        own = self._moved(self._log, self.partition)
        found.setdefault(own.log, {})[own.partition] = own.position
        return found

    def take_snapshot(self, messages_max: int) -> list[Outgoing]:
        """Return the next messages of the snapshot."""
        assert self._snapshot is not None, "there is a snapshot"
        messages = list(islice(self._snapshot, messages_max))
        assert len(messages) <= messages_max, "a turn keeps to its limit"
        if len(messages) < messages_max:
            self._snapshot = None
        return messages


def take_joined(
    event: JoinedEvent,
    tables: JoinedTables,
    partitions: Collection[SourcePartition],
    records_max: int = RECORDS_MAX,
) -> Iterator[tuple[SourcePartition, Sequence[Outgoing]]]:
    """Apply an event of a joined topic to its tables and to the source partitions; yield the messages that it ends.

    A joined record may belong to very many records, so they are joined again in portions. After each portion the
    caller gets a turn, but no messages. The messages follow at the end, with the last state of each group: a state
    in between would show half a change (test_a_joined_record_of_many_is_taken_in_portions). During a turn,
    `partitions` may lose some.
    """
    owners = list(partitions)
    left = [(one, one.concerned(event)) for one in owners]
    before, start = tables.before(event), 0
    while True:
        stop = start + records_max
        portions = [
            (one, one.take_out(event, records[start:stop])) for one, records in left if one in partitions
        ]
        tables.put(event)
        for one, taken_out in portions:
            one.take_in(event, taken_out)
        left, start = [(one, records) for one, records in left if len(records) > stop], stop
        if not left or before is None:
            break
        yield left[0][0], ()
        # The next portion is taken out with its rows from before the change.
        tables.take_back(event, before)
    # The partition may have been lost during a turn (test_a_partition_that_is_lost_in_a_turn_gets_nothing_more).
    for one in owners:
        if one in partitions:
            yield one, one.end_joined(event)
