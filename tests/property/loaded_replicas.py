"""Replicas that are loaded from the same messages, with the native core and without it."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from random import Random
from typing import Any, NamedTuple, cast
from unittest.mock import patch

import pytest
from confluent_kafka import KafkaError
from structlog.testing import capture_logs

from sowline.changes.changes_reader import ChangesReader
from sowline.config.topic_definition import define_topic
from sowline.config.topics import Topics
from sowline.kafka.changes_driver import AssignedChanges
from sowline_query_service.replica.plain_run import PlainRun
from sowline_query_service.topics.followed_partitions import Batches, FollowedPartitions, Replicas
from sowline_query_service.topics.state import ServedTopics
from tests.played_cluster import SilentCluster
from tests.property.change_messages import TOPIC_ID, Message, Writer

native: Any = pytest.importorskip("sowline_native")

PARTITIONS = 2
EVENTS_A_LIFE = 300


class End(NamedTuple):
    """The news that a partition of the changes was read to its end."""

    number: int
    at: int

    def error(self) -> KafkaError:
        """Say so."""
        return KafkaError(KafkaError._PARTITION_EOF)

    def topic(self) -> str:
        """Return the topic."""
        return "orders.changes"

    def partition(self) -> int:
        """Return the partition."""
        return self.number

    def offset(self) -> int:
        """Return the end."""
        return self.at


class NoConsumer:
    """A consumer that only has news of ends."""

    ends: Sequence[End] = ()

    def poll(self, seconds: float) -> Any:
        """Return the news."""
        return self.ends[0]

    def consume(self, count: int, seconds: float) -> list[Any]:
        """Return nothing."""
        return []

    def get_watermark_offsets(self, *_: object, **__: object) -> tuple[int, int]:
        """Return that they are not known."""
        return -1, -1


class Loaded:
    """A follower of `orders`, which reads with a core, and the state that it fills."""

    def __init__(self, core: Any, targets: Sequence[int], has_indexes: bool) -> None:
        definition = define_topic(name="orders", key="/id", partitions=PARTITIONS)
        self.state = ServedTopics(Topics(topics=(definition.declared,)), ring_changes_max=50)
        self.topic = self.state.topics["orders"]
        if has_indexes:
            self.topic.rows.changed = set()
        self.runs = 0
        stop, cluster = threading.Event(), cast("Any", SilentCluster(0, TOPIC_ID))
        self._driver = AssignedChanges(cluster, [definition], stop)
        self._driver.consumer = self._consumer = cast("Any", NoConsumer())
        replicas = Replicas(self._take, self._loaded)
        self._follower = FollowedPartitions(
            [definition],
            cluster,
            self._driver,
            replicas,
            lambda function, *given: function(*given),
            stop,
            native=core,
        )
        for number, target in enumerate(targets):
            reader = ChangesReader(TOPIC_ID, 1000)
            reader.aim(target, time.monotonic())
            for readers in (self._driver.readers, self._driver.loading):
                readers[definition.changes, number] = reader

    def _take(self, batches: Batches) -> None:
        self.runs += sum(
            len(portion)
            for portions in batches.values()
            for portion in portions
            if isinstance(portion, PlainRun)
        )
        self.state.take(batches)

    def _loaded(self, partitions: Any) -> None:
        for _, number in partitions:
            self.topic.partitions[number].loaded()

    def read(self, messages: list[Message], end: tuple[int, int] | None) -> None:
        """Read messages; `end` is a partition whose end was reached, and that end."""
        self._follower.turn(messages)  # type: ignore[arg-type]
        if end is not None:
            self._consumer.ends = [End(*end)]
            self._follower.turn(self._driver.poll(1, 0))

    def seen(self) -> Any:
        """Return all that can be observed."""
        rows, follower = self.topic.rows, self._follower
        not_observed = ("_rows", "ring", "native_has_failed")
        captured = rows.capture(rows.all())
        columns = ("partitions", "eras", "offsets", "nths", "times", "read_at", "digests", "rows")
        loads = {
            number: (vars(load) | {"wholeness": vars(load.wholeness), "_aimed_at": None})
            for (_, number), load in self._driver.loading.items()
        }
        return {
            "broken": self.state.broken,
            "rows": (rows.numbers, rows.keys, rows.bodies, rows.rare, rows.changed, rows._free),
            "columns": {name: getattr(captured, name).tolist() for name in columns},
            "captured": (captured.keys, captured.bodies, captured.rare),
            "partitions": [
                vars(partition) | {"_newest": vars(partition._newest)} | dict.fromkeys(not_observed)
                for partition in self.topic.partitions.values()
            ],
            "rings": [vars(partition.ring) for partition in self.topic.partitions.values()],
            "loads": loads,
            "waiting": follower.waiting(),
        }


def life(seed: int, count: int = EVENTS_A_LIFE) -> Counter[str]:
    """Load and follow partitions with both cores; raise AssertionError where the replicas differ.

    Return the numbers of messages, and of changes that the native core has read.
    """
    chance = Random(seed)
    streams = [Writer(chance).messages(number, chance.randrange(count + 1)) for number in range(PARTITIONS)]
    targets = [chance.randrange(len(stream) + 5) for stream in streams]
    has_indexes = chance.random() < 0.5
    one, other = (Loaded(core, targets, has_indexes) for core in (native, None))
    counts = Counter[str](messages=sum(map(len, streams)))
    steps = {
        "sowline_query_service.replica.partition_replica.INDEX_STEP": chance.choice((1, 3, 500)),
        "sowline_query_service.replica.partition_replica.RUN_MIN": chance.choice((1, 1, 8)),
        "sowline.native.RUN_MAX": chance.choice((1, 1, 64)),
    }
    with ExitStack() as patches:
        for name, value in steps.items():
            patches.enter_context(patch(name, value))
        patches.enter_context(capture_logs())
        for batch, end in _batches(chance, streams):
            for loaded in (one, other):
                loaded.read(batch, end)
            compare(one.seen(), other.seen())
    counts["native"] = one.runs
    assert other.runs == 0
    return counts


def _batches(
    chance: Random, streams: list[list[Message]]
) -> Iterator[tuple[list[Message], tuple[int, int] | None]]:
    """Yield the messages of all streams in batches, each stream in its order; and some ends that are reached."""
    left = [list(stream) for stream in streams]
    size = chance.choice((3, 30, 200))
    while any(left):
        batch: list[Message] = []
        for _ in range(chance.randrange(1, 4)):
            number = chance.randrange(len(left))
            cut = chance.randrange(size + 1)
            batch += left[number][:cut]
            del left[number][:cut]
        end = None
        if batch and chance.random() < 0.2:
            end = batch[-1].partition(), batch[-1].offset() + 1
        if batch:
            yield batch, end


def compare(mine: dict[str, Any], expected: dict[str, Any]) -> None:
    """Compare what can be observed of both, name by name."""
    for name, value in expected.items():
        assert mine[name] == value, name
