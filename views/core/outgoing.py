"""Messages of partial states: collects what changes do to the states of a view, in ranges of the source's changes."""

from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import NamedTuple

from msgspec import Raw

from sowline.config.topics import TopicDefinition
from sowline.errors import SowlineError
from sowline.model.key import partition_of
from sowline.model.limits import HEADROOM_BYTES
from sowline.model.position import Position
from sowline.protocol.partials import NO_STATE, Partials, PartialState
from views.core.states import StateChange

KEYS_CACHED = 1 << 16
"""Groups whose partition is remembered."""

STATES_MAX = 500
"""States in a message. A message is applied as one, so that readers see all of it or nothing."""

KEY_BYTES_MAX = 600
"""Bytes that a state has in a message in addition to its JSON: its position, and its key text as a JSON string."""


class Outgoing(NamedTuple):
    """A message, and the partition of the view's log that it is for."""

    partition: int
    message: Partials


def _size_of(state: PartialState) -> int:
    """Return the bytes of a state in a message, at most."""
    return KEY_BYTES_MAX + len(bytes(state.state))


class _Open:
    """The message of one partition of the view that is being collected."""

    def __init__(self, sent: Position) -> None:
        self.sent = sent
        """The position of the source up to which messages were returned."""
        self.states: dict[str, PartialState] = {}
        self.bytes = 0

    def put(self, state: PartialState) -> None:
        """Add a state, or replace that of its group."""
        if (replaced := self.states.get(state.key)) is not None:
            self.bytes -= _size_of(replaced)
        self.states[state.key] = state
        self.bytes += _size_of(state)


class OutgoingPartials:
    """Collects the messages of one source partition of a view, from a position on.

    A message has each group once. When a group changes again, the message ends before that change. So every state of
    a group is sent, and states of one change that are in the same partition are in one message.

    In a conflated topic, later states of a record replace earlier ones until the message is flushed. It ends before
    that if it would be too large.
    """

    def __init__(
        self, topic: TopicDefinition, source: int, source_partitions: int, position: Position
    ) -> None:
        view = topic.view
        assert view is not None
        self.position = position
        """The position of the source up to which changes were taken."""
        self._digest = topic.digest
        self._conflates = view.interval_ms > 0
        self._name = view.name
        self._source = source
        # The same groups change again and again.
        self._partition_of = lru_cache(KEYS_CACHED)(partial(partition_of, partitions=topic.partitions))
        self._bytes_max = topic.record_bytes_max + HEADROOM_BYTES // 2
        # A group has a state for each source partition, a single record has only one.
        self._state_bytes_max = topic.record_bytes_max // (source_partitions if view.grouping_paths else 1)
        self._open = [_Open(position) for _ in range(topic.partitions)]

    def take(self, position: Position, changes: Iterable[StateChange]) -> Iterator[Outgoing]:
        """Take what one change of the source does to states; yield the messages that end before it."""
        by_partition: dict[int, list[PartialState]] = {}
        for one in changes:
            state = self._checked(position, one)
            by_partition.setdefault(self._partition_of(one.key), []).append(state)
        for number, states in by_partition.items():
            open = self._open[number]
            size = sum(map(_size_of, states))
            if len(states) > STATES_MAX or size > self._bytes_max:
                # A joined record that belongs to many.
                if open.states:
                    yield self._ended(number)
                yield from self._in_portions(number, position, states)
                continue
            is_repeated = any(state.key in open.states for state in states)
            if open.states and (
                open.bytes + size > self._bytes_max
                or (not self._conflates and (is_repeated or len(open.states) >= STATES_MAX))
            ):
                yield self._ended(number)
                open = self._open[number]
            for state in states:
                open.put(state)
        self.position = position

    def flush(self, *, also_idle: bool) -> Iterator[Outgoing]:
        """Yield messages up to the position; `also_idle` reports it to partitions without states, too."""
        for number, open in enumerate(self._open):
            if open.states or (also_idle and open.sent < self.position):
                yield self._ended(number)

    def snapshot(self, states: Iterable[StateChange]) -> Iterator[Outgoing]:
        """Yield messages with all states as of the position."""
        by_partition: list[list[PartialState]] = [[] for _ in self._open]
        for one in states:
            by_partition[self._partition_of(one.key)].append(self._checked(self.position, one))
        for number, mine in enumerate(by_partition):
            self._open[number] = _Open(self.position)
            yield from self._in_portions(number, self.position, mine, is_snapshot=True)

    def _in_portions(
        self, number: int, up_to: Position, states: list[PartialState], *, is_snapshot: bool = False
    ) -> Iterator[Outgoing]:
        """Yield messages with all of these states; the last one ends them."""
        portions = self._portions(states)
        for count, portion in enumerate(portions, 1):
            yield self._outgoing(number, up_to, portion, is_snapshot=is_snapshot, ends=count == len(portions))
        self._open[number] = _Open(up_to)

    def _outgoing(
        self,
        number: int,
        up_to: Position,
        states: list[PartialState],
        *,
        is_snapshot: bool = False,
        ends: bool = True,
    ) -> Outgoing:
        """Return a message behind what was sent before."""
        after = str(self._open[number].sent)
        return Outgoing(
            number, Partials(self._digest, self._source, after, str(up_to), states, is_snapshot, ends)
        )

    def _portions(self, states: list[PartialState]) -> list[list[PartialState]]:
        """Return the states of each message: there is one, even without states."""
        portions: list[list[PartialState]] = [[]]
        size = 0
        for state in states:
            size += _size_of(state)
            if len(portions[-1]) >= STATES_MAX or size > self._bytes_max:
                portions.append([])
                size = _size_of(state)
            portions[-1].append(state)
        return portions

    def _ended(self, number: int) -> Outgoing:
        ended = self._outgoing(number, self.position, list(self._open[number].states.values()))
        self._open[number] = _Open(self.position)
        return ended

    def _checked(self, position: Position, one: StateChange) -> PartialState:
        if one.state is not None and len(one.state) > self._state_bytes_max:
            raise SowlineError(
                "too large",
                f"expected a state of at most {self._state_bytes_max} bytes for group {one.key} of view"
                f" {self._name}, got {len(one.state)}: raise record_bytes_max (groups have it divided by the number"
                " of source partitions), or leave out what lists values",
            )
        return PartialState(str(position), one.key, NO_STATE if one.state is None else Raw(one.state))
