"""A changes topic that is written by hand: with the repeats, eras and holes that a test calls for."""

import time
from collections.abc import Iterator
from itertools import count

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from msgspec.structs import replace

from sowline.bookmark import format_position
from sowline.change import AGAIN, DELETE, DELETED, PROGRESS_KEY, Change, Event, Progress
from sowline.position import Position, before_the_log

Body = bytes | None
HOUR = 3_600_000


class Story:
    """The events of one partition, each after the one before; times are the present, if nothing else is said."""

    def __init__(self, era: int = 0, after: Position | None = None) -> None:
        self.era = era
        self.held = after or before_the_log()
        self.records: dict[str, Body] = {}
        self.time: Iterator[int] = count(round(time.time() * 1000) - 1000)
        self.events: list[Event] = []

    def change(
        self, offset: int, key: str, body: Body, nth: int = 0, *, last: bool = True, **more: object
    ) -> Change:
        """Add a change of a record to a body, or of its deletion, and return it."""
        op, reason = ("publish", None) if body is not None else (DELETE, DELETED)
        position = Position(self.era, offset, nth)
        previous = self.records.get(key)
        made = Change(
            key.encode(), body, previous, position, self.held, op, next(self.time), last, reason, **more
        )  # type: ignore[arg-type]
        self.records[key] = body
        self.held = position
        self.events.append(made)
        return made

    def progress(self, offset: int) -> Progress:
        """Add a progress event."""
        made = Progress(Position(self.era, offset), self.held, offset + 1, {}, "d", "id", next(self.time), {})
        self.events.append(made)
        return made


def again(change: Change) -> Change:
    """Return a change as it is written once more for compaction's sake."""
    return replace(change, previous=None, after=change.position, op=AGAIN, reason=None, last=True)


class Written:
    """A log and its changes topic."""

    def __init__(self, kafka: str, log: str, partitions: int = 1, lag_ms: int = HOUR) -> None:
        self.log = log
        self._producer = Producer({"bootstrap.servers": kafka, "linger.ms": 1})
        admin = AdminClient({"bootstrap.servers": kafka})
        changes = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(lag_ms)}
        new = [
            NewTopic(log, partitions, config={"message.timestamp.type": "LogAppendTime"}),
            NewTopic(f"{log}.changes", partitions, config=changes),
        ]
        for made in admin.create_topics(new, operation_timeout=30).values():
            made.result(30)

    def write(self, *events: Event, partition: int = 0, written: int | None = None) -> None:
        """Write events, in order, and wait until Kafka has them; `written` is when, in ms."""
        more = {} if written is None else {"timestamp": written}
        for event in events:
            if isinstance(event, Progress):
                key, value, headers = PROGRESS_KEY, event.value(), None
            else:
                key, value, headers = event.sow_key, event.value, event.headers()
            self._producer.produce(
                f"{self.log}.changes",
                value,
                key,
                partition,
                headers=headers,
                **more,  # type: ignore[arg-type]
            )
        assert self._producer.flush(30) == 0

    def append(self, records: int = 1, partition: int = 0) -> None:
        """Append to the log itself."""
        for _ in range(records):
            self._producer.produce(self.log, b"{}", partition=partition)
        assert self._producer.flush(30) == 0

    def at(self, *positions: Position | None) -> str:
        """Return the bookmark of these positions of partition 0 and on."""
        parts = [format_position(self.log, p, at) for p, at in enumerate(positions) if at is not None]
        return ",".join([parts[0], *(part.rpartition(":")[2] for part in parts[1:])])
