"""What the follower's thread hands to the loop, and when it says that a partition is loaded."""

import asyncio
import threading
import time
from collections.abc import Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from structlog.testing import capture_logs

from sowline.changes.change import AGAIN, Change
from sowline.changes.changes_reader import ChangesReader, ChangesReplaced
from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.config.topic_definition import define_topic
from sowline.kafka.changes_driver import AssignedChanges, ChangesPartition
from sowline.kafka.topic_settings import compaction_lag_ms
from sowline.model.position import Position
from sowline_query_service.replica.plain_run import EventAtOffset, events_of
from sowline_query_service.topics.followed_partitions import Batches, FollowedPartitions, Replicas
from sowline_query_service.topics.follower import TopicFollower
from tests.played_cluster import PlayedCluster, SilentCluster
from tests.property.world import Written, written

PARTITION = ("orders.changes", 0)


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


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[ChangesPartition]:
    """What was said to be loaded."""
    monkeypatch.setattr("sowline.kafka.changes_driver.LOOK_SECONDS", 0.0)
    return []


def follower_of(loaded: list[ChangesPartition], **definition: Any) -> Followed:
    """Return a topic that is being loaded."""
    return Followed(loaded, **definition).begin()


def long_ago(follower: Followed) -> float:
    """A time so long ago that compaction may have been at work since."""
    return time.monotonic() - compaction_lag_ms(follower.topic) / 1000


def test_loaded_at_the_end(loaded: list[ChangesPartition]) -> None:
    """A partition is loaded where it ended when the follower began."""
    follower = follower_of(loaded)
    follower.read(message(0, progress(3)))
    assert loaded == []
    follower.read(message(1, again(2)))
    assert loaded == [PARTITION]


def test_changes_that_are_being_written_again(loaded: list[ChangesPartition]) -> None:
    """Of a changes topic that was lost, the word of where the partition stands comes last."""
    follower = follower_of(loaded)
    follower.read(message(0, again(7)), message(1, again(3)))
    follower.read(end(2))
    assert loaded == []
    follower.read(message(2, again(5)), message(3, progress(7)))
    assert loaded == [PARTITION]


def test_changes_that_are_written_again_behind_others(loaded: list[ChangesPartition]) -> None:
    """An owner without a disk had begun to fill a topic that was lost; what is newer is not all there yet."""
    follower = follower_of(loaded)
    follower.read(message(0, progress(-1)), message(1, again(7)))
    follower.read(message(2, progress(0)))
    assert loaded == []
    follower.read(message(3, progress(7)))
    assert loaded == [PARTITION]


def test_the_word_of_an_owner_that_knows_another_topic(loaded: list[ChangesPartition]) -> None:
    """Nobody hears of it: what it has written up to there is in the topic that is no more."""
    follower = follower_of(loaded)
    follower.read(message(0, progress(3)._replace(changes_id="this")))
    follower.read(message(1, progress(9)._replace(changes_id="old")))
    assert [event.position.offset for _, event in follower.taken] == [3]


def test_a_load_that_takes_long_goes_on(loaded: list[ChangesPartition]) -> None:
    """Compaction may have taken what was below the end for what is behind it: that is read, too."""
    follower = follower_of(loaded)
    follower.cluster = PlayedCluster(4)
    follower.reader.aim(2, long_ago(follower))
    follower.read(message(0, progress(3)), message(1, again(2)))
    assert loaded == []
    follower.read(message(2, again(2)))
    assert loaded == []
    follower.read(message(3, again(3)))
    assert loaded == [PARTITION]


def test_a_load_to_the_very_end_lacks_nothing(loaded: list[ChangesPartition]) -> None:
    """However long it took."""
    follower = follower_of(loaded)
    follower.reader.aim(9, long_ago(follower))
    follower.read(message(0, progress(3)))
    follower.read(end(1))
    assert loaded == [PARTITION]


def test_a_reader_that_starts_at_an_empty_topic(loaded: list[ChangesPartition]) -> None:
    """Its owner may be about to fill it again: it is not loaded, and a sentence says so."""
    follower = follower_of(loaded)
    assert follower.partitions.waiting() is None
    follower.read(end(0))
    assert loaded == []
    assert str(follower.partitions.waiting()).startswith(
        "waiting for orders.changes [0]: it is empty, or its owner is still"
    )
    follower.read(message(0, progress(-1)), end(1))
    assert loaded == [PARTITION]
    assert follower.partitions.waiting() is None


def test_a_topic_that_is_replaced_while_it_is_waited_for(loaded: list[ChangesPartition]) -> None:
    """The progress events of the new topic's owner name another topic, so the load would never be complete."""
    follower = follower_of(loaded)
    follower.read(end(0))
    follower.cluster = PlayedCluster(2, "another")
    with pytest.raises(ChangesReplaced, match="was deleted and created again while it was read"):
        follower.look_for_replaced()


def test_a_topic_that_is_replaced_while_it_is_followed(loaded: list[ChangesPartition]) -> None:
    """The new one may be longer, so that Kafka does not refuse the offset; its progress events would not count."""
    follower = follower_of(loaded)
    follower.read(message(0, progress(3)), message(1, again(2)))
    assert loaded == [PARTITION]
    follower.cluster = PlayedCluster(9, "another")
    with pytest.raises(ChangesReplaced):
        follower.look_for_replaced()


def test_a_topic_without_a_sow(loaded: list[ChangesPartition]) -> None:
    """There nothing lacks: its changes are deleted by their age, and with them what says where it stands."""
    follower = follower_of(loaded, sow=False)
    follower.read(message(1, again(7)))
    assert loaded == [PARTITION]


LACKING = {PARTITION: (2,)}


def test_a_partition_whose_leader_comes_later(loaded: list[ChangesPartition]) -> None:
    """It is named meanwhile, and then followed from its snapshot like any other."""
    follower = Followed(loaded)
    follower.cluster.lacking, follower.snapshot = LACKING, 1
    follower.begin()
    for _ in range(2):
        follower.read()
    assert (follower.changes.readers, follower.partitions.leaderless) == ({}, LACKING)
    assert "a leader of orders.changes [0] in Kafka" in (follower.partitions.waiting() or "")
    follower.cluster = PlayedCluster(2)
    for _ in range(2):
        follower.read()
    assert (follower.reader.has_snapshot, follower.consumer.calls) == (True, [("assign", [(0, 1)])])
    follower.read(message(1, again(2)))
    assert (loaded, follower.partitions.waiting()) == ([PARTITION], None)


def test_a_transient_topic_whose_leader_comes_later(loaded: list[ChangesPartition]) -> None:
    """Its end counts as of then: what a worker writes that opens it comes after that."""
    follower = Followed(loaded, **TRANSIENT)
    follower.cluster.lacking = LACKING
    follower.begin()
    follower.cluster = PlayedCluster(2)
    for _ in range(3):
        follower.read()
    follower.read(message(0, change(1)), message(1, progress(3)))
    assert loaded == []
    follower.read(message(2, change(5)), message(3, progress(5)))
    assert loaded == [PARTITION]


def test_a_new_topic_without_a_leader(loaded: list[ChangesPartition]) -> None:
    """Whoever adds it need not wait for the leader."""
    follower = follower_of(loaded)
    topic = define_topic(name="trades", key="/id")
    follower.cluster.lacking = {(topic.changes, 0): (2,)}
    follower.partitions.add(topic)
    for _ in range(3):
        follower.read()
    assert follower.changes.awaited == {(topic.changes, 0)}
    follower.cluster.lacking = {}
    for _ in range(3):
        follower.read()
    assert follower.consumer.calls == [("assign", [(0, 0)])]


def test_an_old_snapshot_is_kept_until_there_is_a_leader(loaded: list[ChangesPartition]) -> None:
    """It would be emptied, and nobody could fill it; the others would wait."""
    follower = Followed(loaded)
    follower.snapshot = 1
    follower.begin()
    follower.cluster.lacking = LACKING
    for _ in range(2):
        follower.read()
    follower.reader.aim(2, long_ago(follower))
    for _ in range(3):
        follower.read()
    assert (follower.discarded, follower.reader.has_snapshot) == ([], True)
    follower.cluster.lacking = {}
    for _ in range(6):
        follower.read()
    assert (follower.discarded, follower.reader.has_snapshot) == ([PARTITION], False)


# a Kafka that does not answer yet

BEHIND = 3
"""The offset behind the changes, at which they end for who looks first."""


class Cluster(SilentCluster):
    """A cluster that fails at each of its answers so often before it gives it."""

    def __init__(self, error: int, times: int) -> None:
        super().__init__(BEHIND)
        self._error = KafkaException(KafkaError(error, "Failed to query partition leaders"))
        self._left = dict.fromkeys(("starts", "topic_id", "ends"), times)

    def _answer(self, question: str) -> None:
        if self._left[question]:
            self._left[question] -= 1
            raise self._error

    def starts(self, topic: str, numbers: Iterable[int]) -> dict[int, int]:
        """Return where the partitions begin."""
        self._answer("starts")
        return super().starts(topic, numbers)

    def topic_id(self, topic: str) -> str:
        """Return the topic's id."""
        self._answer("topic_id")
        return super().topic_id(topic)

    def ends(self, topic: str, numbers: Iterable[int]) -> dict[int, int]:
        """Return where the partitions end."""
        self._answer("ends")
        return super().ends(topic, numbers)


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


async def follow(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[ChangesPartition] | BaseException:
    """Follow such a cluster; returns what was loaded first, or what the follower ended of."""
    monkeypatch.setattr("sowline_query_service.topics.follower.Cluster", lambda kafka, stop: cluster)
    monkeypatch.setattr("sowline.kafka.changes_driver.plain_consumer", lambda kafka, options: Consumer())
    monkeypatch.setattr("sowline.kafka.admin.AGAIN_SECONDS", 0.0)
    result: asyncio.Future[list[ChangesPartition] | BaseException] = (
        asyncio.get_running_loop().create_future()
    )
    topic = define_topic(name="orders", key="/id")
    follower = TopicFollower(
        {}, [topic], Replicas(lambda batches: None, result.set_result), result.set_result
    )
    follower.start()
    try:
        return await result
    finally:
        await asyncio.to_thread(follower.stop)


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError.NOT_LEADER_FOR_PARTITION])
async def test_a_kafka_that_has_just_come_back(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its leaders may take a while yet: they are waited for, with a word of it, and the load goes on."""
    with capture_logs() as logs:
        assert await follow(Cluster(code, times=2), monkeypatch) == [PARTITION]
    assert [line["event"] for line in logs] == ["waiting for Kafka"] * 6
    assert "Failed to query partition leaders" in logs[0]["why"]


async def test_a_kafka_that_refuses_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not asked again: anyone who runs the service has to do something."""
    ended = await follow(Cluster(KafkaError.TOPIC_AUTHORIZATION_FAILED, times=1), monkeypatch)
    assert isinstance(ended, KafkaException)


def test_a_load_that_goes_on_asks_again(loaded: list[ChangesPartition]) -> None:
    """Where the end is looked up once more, Kafka may be away for the moment: the others are read on meanwhile."""
    follower = follower_of(loaded)
    follower.cluster = Cluster(KafkaError._TIMED_OUT, times=2)
    follower.reader.aim(1, long_ago(follower))
    follower.read(message(0, progress(3)))
    for _ in range(2):
        assert (loaded, follower.reader.target) == ([], 1)
        follower.read()
    assert (loaded, follower.reader.target) == ([], BEHIND)


def test_how_far_behind_the_end_it_is() -> None:
    """By what Kafka said of the ends when something was fetched."""
    follower = follower_of([])
    follower.read()
    assert follower.changes.behind.lags == {PARTITION: BEHIND}


def change(offset: int, *, last: bool = True) -> Change:
    """A change of a record, one after the other."""
    return Change(
        b"%d" % offset, b"{}", None, Position(0, offset), Position(0, offset - 1), "publish", 1000, last
    )


TRANSIENT = {"key": "/id", "durability": "transient", "recovery_point": "now"}


def transient(loaded: list[ChangesPartition], owned: set[tuple[str, int]]) -> Followed:
    """A follower of a transient topic whose changes ended at 2 when it began; workers own some partitions."""
    follower = Followed(loaded, **TRANSIENT)
    follower.cluster = PlayedCluster(2, owned=owned)
    follower.begin()
    follower.read(message(0, change(1)), message(1, progress(3)))
    return follower


def test_a_transient_topic_without_an_owner(loaded: list[ChangesPartition]) -> None:
    """It is loaded once a worker has opened it, and all that this ends is here; until then it says why."""
    follower = transient(loaded, set())
    follower.read(end(2))
    assert loaded == []
    assert "a transient topic starts empty when a materializer opens it" in (
        follower.partitions.waiting() or ""
    )
    follower.read(message(2, change(4, last=False)))
    assert loaded == []
    follower.read(message(3, change(5)), message(4, progress(5)))
    assert (loaded, follower.partitions.waiting()) == ([PARTITION], None)


def test_a_transient_topic_that_a_worker_has(loaded: list[ChangesPartition]) -> None:
    """It is loaded at its end, like any other."""
    transient(loaded, {("orders", 0)})
    assert loaded == [PARTITION]


def test_a_snapshot_that_is_followed_for_too_long(loaded: list[ChangesPartition]) -> None:
    """Compaction may have removed events since: the partition is emptied, and read from its start."""
    follower = Followed(loaded)
    follower.snapshot = 1
    follower.begin()
    follower.cluster = PlayedCluster(9)
    follower.read()
    assert (follower.discarded, follower.consumer.calls) == ([], [])
    follower.reader.aim(2, long_ago(follower))
    for _ in range(3):
        follower.read()
    reader = follower.reader
    assert follower.discarded == [PARTITION]
    assert follower.consumer.calls == [("unassign", [(0, -1001)]), ("assign", [(0, 0)])]
    assert (reader.has_snapshot, reader.target) == (False, 9)
