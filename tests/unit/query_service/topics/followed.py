"""A follower of one topic whose Kafka a test plays."""

import threading
import time
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from confluent_kafka import KafkaError, TopicPartition

from sowline.changes.change import AGAIN, Change
from sowline.changes.changes_reader import ChangesReader
from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.config.topic_definition import define_topic
from sowline.kafka.changes_driver import AssignedChanges, ChangesPartition
from sowline.kafka.topic_settings import compaction_lag_ms
from sowline.model.position import Position
from sowline_query_service.replica.plain_run import EventAtOffset, events_of
from sowline_query_service.topics.followed_partitions import Batches, FollowedPartitions, Replicas
from tests.played_cluster import PlayedCluster
from tests.property.world import Written, written

PARTITION = ("orders.changes", 0)
BEHIND = 3
"""The offset behind the changes, at which they end for who looks first."""


class Message(Written):
    """A record of the changes of `orders`, or, without a key, the news that they were read to their end."""

    def topic(self) -> str:
        """Return the topic's name."""
        return PARTITION[0]

    def partition(self) -> int:
        """Return the partition's number."""
        return PARTITION[1]

    def error(self) -> Any:
        """Return None for a record."""
        return None if self.key() else KafkaError(KafkaError._PARTITION_EOF)


def message(at: int, event: Event) -> Any:
    """Return the event as Kafka hands it over."""
    return Message(*written(at, event))


def again(offset: int) -> Change:
    """A record of that offset, written once more."""
    position = Position(0, offset)
    return Change(b"%d" % offset, b"{}", None, position, position, AGAIN, 1000)


def progress(offset: int) -> Progress:
    """A partition's word that it stands there."""
    position = Position(0, offset)
    return Progress(position, position, offset + 1, {}, "digest", "log", 1000, {})


def end(at: int) -> Any:
    """Return the news that the partition was read to its end."""
    return Message(at, b"", None, [])


class Followed:
    """The changes of one topic, which end at offset 2 at first, in a cluster whose answers a test sets."""

    def __init__(self, loaded: list[ChangesPartition], **definition: Any) -> None:
        self.topic = define_topic(**{"name": "orders", **(definition or {"key": "/id"})})
        self.cluster: Any = PlayedCluster(2)
        self.consumer: Any = Consumer()
        self.taken: list[EventAtOffset] = []
        self.discarded: list[ChangesPartition] = []
        self.snapshot: int | None = None
        """The offset to follow from, if there is a snapshot."""
        stop, cluster = threading.Event(), cast("Any", SimpleNamespace())
        for name in ("starts", "ends", "topic_id", "leaderless", "ask", "owned"):
            setattr(cluster, name, partial(self._asked, name))
        self.changes = AssignedChanges(cluster, [self.topic], stop)
        self.changes.consumer = cast("Any", self.consumer)
        replicas = Replicas(
            self._take,
            loaded.extend,
            lambda *_: self.snapshot,
            lambda partition, *_: self.discarded.append(partition),
        )
        self.partitions = FollowedPartitions(
            [self.topic], cluster, self.changes, replicas, lambda function, *given: function(*given), stop
        )

    def _asked(self, name: str, *given: Any, **named: Any) -> Any:
        return getattr(self.cluster, name)(*given, **named)

    def _take(self, batches: Batches) -> None:
        self.taken += events_of(batches.get(PARTITION, []))

    def begin(self) -> "Followed":
        """Begin to read."""
        self.partitions.begin()
        return self

    @property
    def reader(self) -> ChangesReader:
        """The reader of the partition."""
        return self.changes.readers[PARTITION]

    def read(self, *messages: Any) -> None:
        """Let messages arrive."""
        self.consumer.left = [*reversed(messages)]
        self.partitions.turn(self.changes.poll(100, 0))

    def look_for_replaced(self) -> None:
        """Let it take the answer to a question that is pending, ask again, and take that answer."""
        for _ in range(3):
            self.read()


class Consumer:
    """A consumer of one partition that holds a single event."""

    def __init__(self) -> None:
        self.left = [message(BEHIND - 1, progress(BEHIND))]
        self.calls: list[tuple[str, list[tuple[int, int]]]] = []

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Read partitions, too."""
        self.calls.append(("assign", [(one.partition, one.offset) for one in partitions]))

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Read partitions no more."""
        self.calls.append(("unassign", [(one.partition, one.offset) for one in partitions]))

    def assignment(self) -> list[TopicPartition]:
        """Return none, as no broker has to be woken."""
        return []

    def poll(self, seconds: float) -> Any:
        """Return the next event."""
        return self.left.pop() if self.left else None

    def consume(self, count: int, seconds: float) -> list[Any]:
        """Return the others."""
        left, self.left = self.left, []
        return [*reversed(left)]

    def get_watermark_offsets(self, position: TopicPartition, cached: bool) -> tuple[int, int]:
        """Return where the partition begins and ends."""
        return (0, BEHIND)

    def close(self) -> None:
        """Read no more."""


def change(offset: int, *, last: bool = True) -> Change:
    """A change of a record, one after the other."""
    return Change(
        b"%d" % offset, b"{}", None, Position(0, offset), Position(0, offset - 1), "publish", 1000, last
    )


def follower_of(loaded: list[ChangesPartition], **definition: Any) -> Followed:
    """Return a topic that is being loaded."""
    return Followed(loaded, **definition).begin()


def long_ago(follower: Followed) -> float:
    """A time so long ago that compaction may have been at work since."""
    return time.monotonic() - compaction_lag_ms(follower.topic) / 1000
