"""A query service that remembers what its records were at each position."""

import json

from sowline.changes.change import Change
from sowline.changes.progress import Progress
from sowline.model.bookmark import Positions
from sowline.model.position import Position, before_the_log
from sowline.serving.result import QueryLimits
from sowline_query_service.replica.plain_run import EventAtOffset
from tests.property.asks import KEY_OF, Record, Records
from tests.property.clock import ClockLoop
from tests.property.world import written
from tests.unit.query_service.sessions import Json, Server

ROOMY, NARROW = 1 << 20, 500
"""Bytes of an outbox: one that never fills here, and one that holds a few messages."""


class Service(Server):
    """The service, and what its records were at each position."""

    def __init__(
        self, loop: ClockLoop, partitions: int, ring: int, backlog: int, limits: QueryLimits
    ) -> None:
        super().__init__(partitions, ring, backlog, limits)
        self.loop = loop
        self.past: list[list[tuple[Position, Records]]] = [
            [(before_the_log(), {})] for _ in range(partitions)
        ]
        self.after = list(self.last)
        """By partition: the position of its last change."""
        self.changed: list[dict[Position, tuple[int, Change, float]]] = [{} for _ in range(partitions)]
        """By partition and position: the id of the record, its change, and when it was applied."""

    @property
    def now(self) -> Positions:
        """Where the service stands."""
        return {number: past[-1][0] for number, past in enumerate(self.past)}

    def at(self, positions: Positions) -> Records:
        """The records as they were at some positions."""
        found: Records = {}
        for number, past in enumerate(self.past):
            found |= next(records for position, records in reversed(past) if position <= positions[number])
        return found

    def changes_between(self, before: Positions, now: Positions) -> list[tuple[int, Change, float]]:
        """The changes after some positions, up to others."""
        return [
            entry
            for number, changed in enumerate(self.changed)
            for position, entry in changed.items()
            if before[number] < position <= now[number]
        ]

    def changes_of(self, number: int, positions: Positions) -> list[Change]:
        """The changes of a record up to some positions, in their order."""
        partition = number % len(self.past)
        changed = self.changed[partition].items()
        return [
            change
            for position, (of, change, _) in changed
            if of == number and position <= positions[partition]
        ]

    def write(self, log_records: list[list[tuple[int, Json | None]]]) -> None:
        """Let log records arrive in one batch; each makes changes in the partition of its first."""
        batches: dict[tuple[str, int], list[EventAtOffset]] = {}
        for made in log_records:
            partition = made[0][0] % len(self.past)
            due = self._due([(number, body) for number, body in made if number % len(self.past) == partition])
            for nth, (number, text) in enumerate(due):
                event = self._change(partition, number, text, nth, last=nth == len(due) - 1)
                batches.setdefault(("orders.changes", partition), []).append(self._placed(partition, event))
        if batches:
            self.state.take(batches)

    def _due(self, writes: list[tuple[int, Json | None]]) -> list[tuple[int, bytes | None]]:
        """What a log record does: no deletion of what is not there, and each record once."""
        texts = {
            number: None
            if body is None
            else json.dumps({"id": number, **body}, separators=(",", ":")).encode()
            for number, body in writes
        }
        return [
            (number, text)
            for number, text in texts.items()
            if text is not None or KEY_OF[number].encode() in self.bodies
        ]

    def _change(self, partition: int, number: int, text: bytes | None, nth: int, *, last: bool) -> Change:
        key, held, after = KEY_OF[number].encode(), self.last[partition], self.after[partition]
        position = Position(0, held.offset + 1) if nth == 0 else Position(0, held.offset, nth)
        self.after[partition] = position
        previous = self.bodies.pop(key, None)
        op, reason = ("delete", "deleted") if text is None else ("publish", None)
        time = 1000 + int(self.loop.time() * 1000)
        change = Change(key, text, previous, position, after, op, time, last, reason)
        records = dict(self.past[partition][-1][1])
        if text is None:
            del records[number]
        else:
            self.bodies[key] = text
            records[number] = Record(json.loads(text), time, partition, position)
        self.past[partition].append((position, records))
        self.changed[partition][position] = number, change, self.loop.time()
        return change

    def progress(self, partition: int) -> None:
        """Let a partition move on without a change."""
        position = Position(0, self.last[partition].offset + 1)
        event = Progress(position, self.after[partition], 0, {}, "", "", 1000, {})
        self.past[partition].append((position, self.past[partition][-1][1]))
        self.state.take({("orders.changes", partition): [self._placed(partition, event)]})

    def _placed(self, partition: int, event: Change | Progress) -> EventAtOffset:
        self.last[partition] = event.position
        held = self.written[partition]
        held.append(written(len(held), event))
        return EventAtOffset(len(held) - 1, event)
