"""A changes topic that is written by hand: with the repeats, eras and holes that a test calls for."""

import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from msgspec.structs import replace

from sowline.changes.change import AGAIN, DELETE, DELETED, Change
from sowline.changes.event import Event
from sowline.changes.progress import PROGRESS_KEY, Progress
from sowline.config.kafka_options import kafka_config
from sowline.kafka.admin import Cluster
from sowline.model.bookmark import format_position
from sowline.model.position import Position, before_the_log
from tests.waiting import wait_for

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
        self, offset: int, key: str, body: Body, nth: int = 0, *, last: bool = True, **more: Any
    ) -> Change:
        """Add a change of a record to a body, or of its deletion, and return it."""
        op, reason = ("publish", None) if body is not None else (DELETE, DELETED)
        position = Position(self.era, offset, nth)
        previous = self.records.get(key)
        made = Change(
            key.encode(), body, previous, position, self.held, op, next(self.time), last, reason, **more
        )
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

    def __init__(
        self, kafka: str, log: str, partitions: int = 1, lag_ms: int = HOUR, *, has_hole: bool = True
    ) -> None:
        self.log = log
        self._producer = Producer({"bootstrap.servers": kafka, "linger.ms": 1})
        self._cluster = Cluster(kafka_config(kafka))
        admin = AdminClient({"bootstrap.servers": kafka})
        changes = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(lag_ms)}
        new = [
            NewTopic(log, partitions, config={"message.timestamp.type": "LogAppendTime"}),
            NewTopic(f"{log}.changes", partitions, config=changes),
        ]
        for made in admin.create_topics(new, operation_timeout=30).values():
            made.result(30)
        self._begin(Producer({"bootstrap.servers": kafka, "transactional.id": log}), partitions, has_hole)

    def _begin(self, producer: Producer, partitions: int, has_hole: bool) -> None:
        """Write each partition's first progress event, long ago, and with `has_hole` leave an offset empty behind it.

        So the events that a test leaves out may have been removed by compaction, which leaves holes, too.
        """
        begin, long_ago = before_the_log(), round(time.time() * 1000) - 3 * HOUR
        value = Progress(begin, begin, 0, {}, "d", "id", 0, {}).value()
        if has_hole:
            producer.init_transactions(30)
            producer.begin_transaction()
        else:
            producer = self._producer
        for number in range(partitions):
            producer.produce(f"{self.log}.changes", value, PROGRESS_KEY, number, timestamp=long_ago)
        if has_hole:
            producer.commit_transaction(30)
            # Kafka writes the transaction's end, which takes the offset, a little later.
            ends = partial(self._cluster.ends, f"{self.log}.changes", range(partitions))
            wait_for(lambda: set(ends().values()) == {2}, "the transaction to end")
        assert producer.flush(30) == 0

    def write(self, *events: Event, partition: int = 0, written: int | None = None) -> None:
        """Write events, in order, and wait until Kafka has them; `written` is when, in ms."""
        more: dict[str, Any] = {} if written is None else {"timestamp": written}
        for event in events:
            value: bytes | None
            headers: Any
            if isinstance(event, Progress):
                key, value, headers = event.key, event.value(), None
            else:
                key, value, headers = event.sow_key, event.value, event.headers()
            self._producer.produce(
                f"{self.log}.changes",
                value,
                key,
                partition,
                headers=headers,
                **more,
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
