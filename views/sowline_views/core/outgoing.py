"""Messages of partial states: collects the changed states of a view, in ranges of the source's changes."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import Raw

from sowline.changes.partials import NO_STATE, Partials, PartialState
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.model.bookmark import Positions, PositionsByLog, format_bookmark
from sowline.model.key import partition_of
from sowline.model.limits import HEADROOM_BYTES
from sowline.model.position import Position
from sowline_views.core.states import StateChange

NOTHING_TAKEN: Final[Mapping[str, Positions]] = MappingProxyType({})

KEYS_CACHED = 1 << 16
"""The number of groups whose partition is cached."""

STATES_MAX = 500
"""The maximum number of states in a message. It is applied whole: readers see all of it or nothing."""

KEY_BYTES_MAX = 600
"""Bytes that a state has in a message in addition to its JSON: its position, and its key text as a JSON string."""


class Moved(NamedTuple):
    """A partition of the source or of a joined topic, by its log, and the position up to which it was taken."""

    log: str
    partition: int
    position: Position


class Outgoing(NamedTuple):
    """A message, and the partition of the view's log that it is for."""

    partition: int
    message: Partials


def _size_of(state: PartialState) -> int:
    """Return the maximum size of a state in a message, in bytes."""
    return KEY_BYTES_MAX + len(bytes(state.state))


WARNED_SHARE = 16
"""A state is large if it exceeds its limit divided by this number."""


class LargeState(NamedTuple):
    """A large state: the key text of its group, its size in bytes, and the limit."""

    key: str
    bytes: int
    bytes_max: int


class _Open:
    """The message that is being collected for one partition of the view."""

    def __init__(self, sent: Position) -> None:
        self.sent = sent
        """The position of the source up to which messages were returned."""
        self.states: dict[str, PartialState] = {}
        self.bytes = 0

    def put(self, state: PartialState) -> None:
        """Add a state, or replace the earlier one of its group."""
        if (replaced := self.states.get(state.key)) is not None:
            self.bytes -= _size_of(replaced)
        self.states[state.key] = state
        self.bytes += _size_of(state)
        assert self.bytes >= KEY_BYTES_MAX * len(self.states), "the size is that of the states"


class OutgoingPartials:
    """Collects the messages of one source partition of a view, from a position on.

    A message has each group once. When a group changes again, the message ends before that change. So every state of
    a group is sent, and states of one change that are in the same partition are in one message.

    In a conflated topic, later states of a record replace earlier ones until the message is flushed. It ends before
    that if it would be too large.
    """

    def __init__(
        self,
        topic: TopicDefinition,
        source: int,
        source_partitions: int,
        position: Position,
        taken: Mapping[str, Positions] = NOTHING_TAKEN,
    ) -> None:
        """Begin at a position; with joins, `taken` has the positions of the source and the joined topics."""
        view = topic.view
        assert view is not None, "it is a view"
        self.position = position
        """The position of the source up to which changes were taken."""
        self._digest = topic.digest
        self._conflates = view.interval_ms > 0
        self._name = view.name
        self._source = source
        # The same groups change again and again.
        self._partition_of = lru_cache(KEYS_CACHED)(partial(partition_of, partitions=topic.partitions))
        # Half of the headroom that the log leaves is for the message's other fields (test_a_message_fits_the_log).
        self._bytes_max = topic.limits.record_bytes_max + HEADROOM_BYTES // 2
        # A group has a state for each source partition, a single record has only one.
        self._state_bytes_max = topic.limits.record_bytes_max // (
            source_partitions if view.grouping_paths else 1
        )
        # A state of a single record is as large as the record. That of a group grows with its records.
        self._warned_bytes = self._state_bytes_max // (WARNED_SHARE if view.grouping_paths else 1)
        self._large: LargeState | None = None
        self._open = [_Open(position) for _ in range(topic.partitions)]
        self._taken = {
            (log, number): (position, reached)
            for log, positions in taken.items()
            for number, reached in positions.items()
        }
        """By log and partition of the source and the joined topics: this partition's position then, and theirs."""

    def take(
        self, position: Position, changes: Iterable[StateChange], moved: Moved | None = None
    ) -> Iterator[Outgoing]:
        """Take the states that one change has changed; yield the messages that end before it.

        In a view with joins, `moved` is the position of the change.
        """
        by_partition: dict[int, list[PartialState]] = {}
        for one in changes:
            state = self._check(position, one)
            by_partition.setdefault(self._partition_of(one.key), []).append(state)
        sizes = {number: sum(map(_size_of, states)) for number, states in by_partition.items()}
        for number, states in by_partition.items():
            # The message ends at the position before this change. At the new one it would claim a change whose states
            # it lacks (test_a_state_is_in_the_message_behind_the_one_it_ends).
            if self._must_end(number, states, sizes[number]):
                yield self._end(number)
        assert position >= self.position, "a position only moves on"
        self.position = position
        if moved is not None:
            self._taken[moved.log, moved.partition] = position, moved.position
        for number, states in by_partition.items():
            if self._are_many(states, sizes[number]):
                yield from self._in_portions(number, states)
            else:
                for state in states:
                    self._open[number].put(state)

    def take_large_state(self) -> LargeState | None:
        """Return a large state once; the next one is returned at twice its size, whatever its group."""
        large, self._large = self._large, None
        return large

    def _are_many(self, states: list[PartialState], size_bytes: int) -> bool:
        """Whether the states of one change need several messages: a joined record may belong to many records."""
        return len(states) > STATES_MAX or size_bytes > self._bytes_max

    def _must_end(self, number: int, states: list[PartialState], size_bytes: int) -> bool:
        """Whether a partition's message must end before it gets these states."""
        message = self._open[number]
        # Without this, a change of many records would send an empty message first
        # (test_a_change_of_many_ends_no_message_without_states).
        if not message.states:
            return False
        if self._are_many(states, size_bytes) or message.bytes + size_bytes > self._bytes_max:
            return True
        is_repeated = any(state.key in message.states for state in states)
        return not self._conflates and (is_repeated or len(message.states) >= STATES_MAX)

    def flush(self, *, also_idle: bool) -> Iterator[Outgoing]:
        """Yield messages up to the position; `also_idle` reports it to partitions without states, too."""
        for number, message in enumerate(self._open):
            if message.states or (also_idle and message.sent < self.position):
                yield self._end(number)

    def write_snapshot(self, states: Iterable[StateChange]) -> Iterator[Outgoing]:
        """Yield messages with all states as of the position."""
        by_partition: list[list[PartialState]] = [[] for _ in self._open]
        for one in states:
            by_partition[self._partition_of(one.key)].append(self._check(self.position, one))
        for number, mine in enumerate(by_partition):
            self._open[number] = _Open(self.position)
            yield from self._in_portions(number, mine, is_snapshot=True)

    def _in_portions(
        self, number: int, states: list[PartialState], *, is_snapshot: bool = False
    ) -> Iterator[Outgoing]:
        """Yield messages up to the position with all of these states; the last one ends them."""
        portions = self._portions(states)
        assert sum(map(len, portions)) == len(states), "each state is in one message"
        for count, portion in enumerate(portions, 1):
            yield self._outgoing(number, portion, is_snapshot=is_snapshot, ends=count == len(portions))
        self._open[number] = _Open(self.position)

    def _outgoing(
        self, number: int, states: list[PartialState], *, is_snapshot: bool = False, ends: bool = True
    ) -> Outgoing:
        """Return a message from the position sent last up to the current one."""
        sent = self._open[number].sent
        assert sent <= self.position, "a message never ends before it begins"
        # Only the last portion has them. A reader that stops earlier must not count as having the rest
        # (test_a_joined_record_of_many_goes_out_in_steps).
        taken = self._taken_since(None if is_snapshot else sent) if ends else ""
        return Outgoing(
            number,
            Partials(
                self._digest, self._source, str(sent), str(self.position), states, is_snapshot, ends, taken
            ),
        )

    def _taken_since(self, sent: Position | None) -> str:
        """Return a bookmark of everything taken after `sent`, of all if that is None; empty for nothing."""
        found: PositionsByLog = {}
        for (log, number), (at, reached) in self._taken.items():
            if sent is None or at > sent:
                found.setdefault(log, {})[number] = reached
        return format_bookmark(found) if found else ""

    def _portions(self, states: list[PartialState]) -> list[list[PartialState]]:
        """Return the states of each message; there is at least one message, even without states."""
        portions: list[list[PartialState]] = [[]]
        size = 0
        for state in states:
            size += _size_of(state)
            # No state exceeds the size by itself: `_check` refuses it.
            if len(portions[-1]) >= STATES_MAX or size > self._bytes_max:
                portions.append([])
                size = _size_of(state)
            assert len(portions[-1]) < STATES_MAX, "a message keeps to its limit"
            portions[-1].append(state)
        return portions

    def _end(self, number: int) -> Outgoing:
        ended = self._outgoing(number, list(self._open[number].states.values()))
        self._open[number] = _Open(self.position)
        return ended

    def _check(self, position: Position, one: StateChange) -> PartialState:
        if one.state is not None and len(one.state) > self._state_bytes_max:
            raise SowlineError(
                "too large",
                f"expected a state of at most {self._state_bytes_max} bytes for group {one.key} of view"
                f" {self._name}, got {len(one.state)}: raise record_bytes_max (groups share it among the source"
                " partitions), or leave out the aggregates that list values",
            )
        if one.state is not None and len(one.state) > self._warned_bytes:
            self._large = LargeState(one.key, len(one.state), self._state_bytes_max)
            self._warned_bytes = 2 * len(one.state)
        return PartialState(str(position), one.key, NO_STATE if one.state is None else Raw(one.state))
