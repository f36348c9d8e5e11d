"""A topic with a history in memory: its log, every state that its partitions were in, and who has loaded it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
from hypothesis import strategies as st
from msgspec.structs import replace

from sowline.changes.change import AGAIN, Change
from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.config.topics import Topics, parse_topics
from sowline.model.key import sow_key
from sowline.model.position import Position, before_the_log
from sowline_query_service.replica.plain_run import EventAtOffset
from sowline_query_service.topics.state import ServedTopics

PARTITIONS = 2
KEYS = 4
"""Of each partition."""

BEGINNING = 1_700_000_000_000
"""The log's first time, in ms."""

LATER = 1000
"""Beyond all times that are asked for."""


class Held(NamedTuple):
    """A record as it was at some time."""

    body: bytes
    partition: int
    position: Position
    time: int


class Moment(NamedTuple):
    """A partition behind an event."""

    time: int
    last_change: Position
    position: Position
    records: dict[bytes, Held]


class Step(NamedTuple):
    """One log record: how long after the one before in its partition, and what it makes of some keys."""

    partition: int
    later: int
    bodies: tuple[tuple[int, dict[str, Any] | None], ...]
    new_era: bool = False


@dataclass
class Log:
    """What one partition's changes topic has been written, and every state that the partition was in."""

    number: int
    written: list[Event] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=lambda: [Moment(0, before_the_log(), before_the_log(), {})])

    def apply(self, step: Step) -> list[Event]:
        """Write what a log record leads to."""
        before = self.moments[-1]
        time = max(before.time, BEGINNING) + step.later
        era = before.position.era + step.new_era
        offset = 0 if step.new_era else before.position.offset + 1
        records, last = dict(before.records), before.last_change
        events: list[Event] = []
        for key, value in step.bodies:
            name = f"{self.number}-{key}"
            sow = sow_key(b"t\0", name)
            body = None if value is None else orjson.dumps({"id": name} | value)
            previous = records.get(sow)
            if previous is None and body is None:
                continue
            position = Position(era, offset, len(events))
            op = "delete" if body is None else "publish"
            was = None if previous is None else previous.body
            events.append(Change(sow, body, was, position, last, op, time, last=False))
            last = position
            records.pop(sow, None)
            if body is not None:
                records[sow] = Held(body, self.number, position, time)
        if events:
            newest = events[-1]
            assert isinstance(newest, Change)
            events[-1] = replace(newest, last=True)
            position = events[-1].position
        else:
            position = Position(era, offset)
            events = [Progress(position, last, 0, {}, "", "", time, {})]
        self.written += events
        self.moments.append(Moment(time, last, position, records))
        return events

    def at(self, time: int) -> Moment:
        """Return what the partition was behind everything up to a time."""
        return [moment for moment in self.moments if moment.time <= time][-1]

    def mark_stale(self, of: int) -> None:
        """Write an old event once more, as a worker that wakes up does, and what its owner writes against that."""
        event = self.written[of]
        self.written.append(event)
        if isinstance(event, Progress):
            return
        now = self.moments[-1]
        era = now.position.era
        record = now.records.get(event.sow_key)
        if record is None:
            position, body, time = max(now.last_change, before_the_log(era)), None, now.time
        else:
            position, body, time = record.position, record.body, record.time
        emitted_in = era if era != position.era else None
        self.written.append(
            Change(event.sow_key, body, None, position, position, AGAIN, time, emitted_in=emitted_in)
        )

    def compacted(self, until: int) -> list[Event]:
        """Return what is left of it when so many of its events are compacted."""
        first = self.written[:until]
        newest = {_key(event): at for at, event in enumerate(first)}
        return [event for at, event in enumerate(first) if newest[_key(event)] == at] + self.written[until:]


def _key(event: Event) -> bytes:
    return event.sow_key if isinstance(event, Change) else b""


BODIES = st.fixed_dictionaries(
    {}, optional={"n": st.integers(0, 5) | st.sampled_from(["a", None]), "g": st.sampled_from("xyz")}
)
STEPS = st.builds(
    Step,
    st.integers(0, PARTITIONS - 1),
    st.sampled_from([0, 0, 1, 1, 2, 3, 7, 40]),
    st.lists(
        st.tuples(st.integers(0, KEYS - 1), st.none() | BODIES), max_size=4, unique_by=lambda pair: pair[0]
    ).map(tuple),
    st.sampled_from([False] * 9 + [True]),
)
FILLED = [
    Step(number, 0, tuple((key, {"n": key, "g": "xyz"[key % 3]}) for key in range(KEYS)))
    for number in range(PARTITIONS)
]
"""What every log begins with, so that there are records that do not change."""


class World:
    """A topic's log, and what is expected of queries on it."""

    def __init__(self, window: int, granularity: int) -> None:
        self.granularity = max(1, granularity)
        self.window = window
        self.logs = [Log(number) for number in range(PARTITIONS)]
        self.topics = parse_topics(
            f"topics: [{{name: t, key: /id, partitions: {PARTITIONS}, hash_indexes: [[/g]],"
            f" history: {{window: {window}ms, granularity: {granularity}ms}}}}]"
        )

    @property
    def time(self) -> int:
        """The newest time of any partition."""
        return max(log.moments[-1].time for log in self.logs)

    def apply(self, steps: Sequence[Step], state: ServedTopics | None = None) -> None:
        """Write what the steps lead to, and let a state follow."""
        for step in steps:
            log = self.logs[step.partition]
            events = log.apply(step)
            if state is not None:
                follow(state, step.partition, events)

    def rounded(self, at: int) -> int:
        """The time that a query at a time is of."""
        return at // self.granularity * self.granularity

    def records(self, at: int) -> dict[bytes, Held]:
        """Return all records as they were."""
        return {key: held for log in self.logs for key, held in log.at(self.rounded(at)).records.items()}

    def rounded_up(self, at: int) -> int:
        """The first time behind a time that a query can be of."""
        return -(-at // self.granularity) * self.granularity

    def tellable_since(self, loaded: Sequence[Sequence[Event]]) -> int:
        """Return the time from which on a service that has loaded these events must have an answer."""
        return max(_whole_since(events) for events in loaded)


def _whole_since(events: Sequence[Event]) -> int:
    """Return the time of the newest event before which others are missing."""
    held, since = before_the_log(), 0
    for event in events:
        if event.position > held:
            if event.after > held:
                since = event.time
            held = event.position
    return since


def follow(state: ServedTopics, partition: int, events: Sequence[Event]) -> None:
    """Let a state take events in one batch."""
    start = state.topics["t"].partitions[partition].next_offset
    state.take(
        {("t.changes", partition): [EventAtOffset(at, event) for at, event in enumerate(events, start)]}
    )


async def loaded(topics: Topics, events: Sequence[Sequence[Event]], batch: int) -> ServedTopics:
    """Return a state that has loaded these events of each partition, in batches."""
    state = ServedTopics(topics, ring_changes_max=3)
    for number, of_partition in enumerate(events):
        for start in range(0, len(of_partition), batch):
            follow(state, number, of_partition[start : start + batch])
    state.loaded([("t.changes", number) for number in range(PARTITIONS)])
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
    return state
