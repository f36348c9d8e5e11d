"""The partitions of a topic that a view reads, and the processes that own them, or believe so."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from types import ModuleType
from typing import Self

import orjson

from sowline.changes.change import AGAIN, DELETED, Change
from sowline.changes.changes_reader import ChangesReader, Phase
from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.config.topic_definition import TopicDefinition
from sowline.model.position import Position, before_the_log
from sowline_views.core.outgoing import Outgoing
from sowline_views.core.source_partition import SourcePartition
from tests.property.view_reference import Body, SourceRecord


class SourceModel:
    """A partition of the topic that a view reads: its changes topic, and its records after each change."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.changes: list[Change] = []
        self.position = before_the_log()
        """The position of the newest event."""
        self.held: list[tuple[int, Event]] = []
        """What the changes topic has by now, with the offsets."""
        self.end = 0
        self._positions: list[Position] = []
        self._states: list[dict[bytes, SourceRecord]] = [{}]
        self.report(self.position)

    @property
    def newest(self) -> list[Change]:
        """The newest change of each live record, as the compacted changes topic has them."""
        return [seen.change for seen in self._states[-1].values()]

    def write(self, key: bytes, body: Body | None, *, in_same_record: bool = False) -> Change | None:
        """Write a record, or delete it (None), by a log record of its own or by that of the change before.

        Return the change; None if there is nothing to delete.
        """
        held = self._states[-1].get(key)
        if held is None and body is None:
            return None
        position = self.position._replace(offset=self.position.offset + 1, nth=0)
        if in_same_record and self._after == self.position:
            position = self.position._replace(nth=self.position.nth + 1)
        change = Change(
            sow_key=key,
            body=None if body is None else orjson.dumps(body),
            previous=None if held is None else held.change.body,
            position=position,
            after=self._after,
            op="publish",
            time=len(self.changes) // 3,
            reason=DELETED if body is None else None,
        )
        self.changes.append(change)
        self._positions.append(position)
        others = {name: seen for name, seen in self._states[-1].items() if name != key}
        self._states.append(
            others if body is None else {**others, key: SourceRecord(body, change, self.number)}
        )
        self.position = position
        self._append(change)
        return change

    @property
    def _after(self) -> Position:
        return self._positions[-1] if self._positions else before_the_log()

    def report(self, position: Position) -> None:
        """Write a progress event: log records up to this position have made no change."""
        self.position = position
        self._append(Progress(position, self._after, 0, {}, "", "log", 0, {}))

    def begin_era(self) -> None:
        """The log is another one, whose offsets begin at 0."""
        self.report(before_the_log(self.position.era + 1))

    def write_again(self, number: int) -> None:
        """A stalled owner writes an old change once more; the owner repairs the key."""
        if self.changes:
            old = self.changes[number % len(self.changes)]
            if old.position.era < self.position.era:
                return
            newest = self._states[-1].get(old.sow_key)
            at = self._after if newest is None else newest.change.position
            self._append(old)
            self._append(
                Change(
                    sow_key=old.sow_key,
                    body=None if newest is None else newest.change.body,
                    previous=None,
                    position=at,
                    after=at,
                    op=AGAIN,
                    time=old.time if newest is None else newest.change.time,
                    emitted_in=self.position.era if at.era < self.position.era else None,
                )
            )
            self.report(self.position)

    def _append(self, event: Event) -> None:
        self.held.append((self.end, event))
        self.end += 1

    def compact(self, keeps: Callable[[], bool]) -> None:
        """Remove those events that are not their key's last and that `keeps` does not spare.

        With an event go all earlier ones of its key: Kafka cleans a log from its beginning.
        """
        last = {_key(event): offset for offset, event in self.held}
        removed: set[bytes] = set()
        kept: list[tuple[int, Event]] = []
        for offset, event in reversed(self.held):
            key = _key(event)
            if offset == last[key] or (key not in removed and keeps()):
                kept.append((offset, event))
            else:
                removed.add(key)
        self.held = kept[::-1]

    def at(self, position: Position) -> dict[bytes, SourceRecord]:
        """Return the records at a position."""
        return self._states[bisect_right(self._positions, position)]


def _key(event: Event) -> bytes:
    return event.sow_key if isinstance(event, Change) else event.key


@dataclass
class SourceOwner:
    """A process that owns a source partition, or believes so, and what it has produced by now."""

    source: SourceModel
    partition: SourcePartition
    produced: deque[Outgoing] = field(default_factory=deque)

    @classmethod
    def begun(
        cls, topic: TopicDefinition, source: SourceModel, sources: int, native: ModuleType | None = None
    ) -> Self:
        """Return a process that has loaded its source partition. Its snapshot is still to be produced."""
        reader = ChangesReader("", 1e9)
        reader.aim(source.end, 0)
        partition = SourcePartition(topic, source.number, sources, reader, native=native)
        for offset, event in source.held:
            assert not partition.take(event, offset)
        reader.at_end(source.end)
        assert reader.look(0) is Phase.COMPLETE
        reader.follow()
        partition.end_load()
        return cls(source, partition)

    def take(self, count: int) -> None:
        """Read events, and produce the messages that they end; before that, the rest of its snapshot.

        Raise `ChangesMissing` if it has waited for so long that events are gone.
        """
        partition = self.partition
        for _ in range(count):
            if partition.is_sending_snapshot:
                self.produced += partition.take_snapshot(1)
                continue
            ahead = (one for one in self.source.held if one[0] >= partition.reader.next_offset)
            offset, event = next(ahead, (None, None))
            if offset is None or event is None:
                return
            self.produced += partition.take(event, offset)

    def flush(self, *, also_idle: bool) -> None:
        """Produce messages with all that was read."""
        self.produced += self.partition.flush(also_idle=also_idle)

    def next_for(self, partition: int) -> Outgoing | None:
        """Return the next message to a partition of the view, if there is one; it is no longer produced then."""
        for one in self.produced:
            if one.partition == partition:
                self.produced.remove(one)
                return one
        return None

    def copy(self) -> "SourceOwner | None":
        """Return a copy to resume from, if everything that was read is in the log of the view; else None."""
        if self.produced or self.partition.is_sending_snapshot:
            return None
        topic = self.partition._topic
        copied = deepcopy(self.partition, {id(topic): topic})
        has_more = bool(deepcopy(copied, {id(topic): topic}).flush(also_idle=False))
        return None if has_more else SourceOwner(self.source, copied)
