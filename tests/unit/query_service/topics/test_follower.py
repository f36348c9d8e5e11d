"""What the follower's thread hands to the loop, and when it says that a partition is loaded."""

import asyncio
import time
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from structlog.testing import capture_logs

from sowline.changes.change import AGAIN, Change
from sowline.changes.changes_reader import ChangesReplaced
from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.config.topic_definition import define_topic
from sowline.kafka.admin import compaction_lag_ms
from sowline.kafka.changes_driver import ChangesPartition
from sowline.model.position import Position
from sowline_query_service.replica.plain_run import EventAtOffset, events_of
from sowline_query_service.topics.follower import TopicFollower
from tests.property.world import Written, written

PARTITION = ("orders.changes", 0)


class Message(Written):
    """A record of the changes of `orders`."""

    def topic(self) -> str:
        """Return the topic's name."""
        return PARTITION[0]

    def partition(self) -> int:
        """Return the partition's number."""
        return PARTITION[1]

    def error(self) -> None:
        """None: it is a record."""


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


@pytest.fixture
def loaded() -> list[ChangesPartition]:
    """What was said to be loaded."""
    return []


def follower_of(
    loaded: list[ChangesPartition], monkeypatch: pytest.MonkeyPatch, **definition: Any
) -> TopicFollower:
    """A follower of one topic, which ended at offset 2 when it began."""
    topic = define_topic(**{"name": "orders", **(definition or {"key": "/id"})})
    monkeypatch.setattr("sowline.kafka.changes_driver.LOOK_SECONDS", 0.0)
    follower = TopicFollower({}, [topic], lambda batches: None, loaded.extend, lambda error: None)
    monkeypatch.setattr(follower, "_in_loop", lambda function, *arguments: function(*arguments))
    follower._changes.consumer = cast(Any, Consumer())
    ask(follower, played(2))
    follower._changes.load(*load_of(PARTITION))
    return follower


def load_of(partition: ChangesPartition) -> tuple[str, list[int]]:
    """Return a partition as a driver is asked to load it."""
    return partition[0], [partition[1]]


def played(end: int, topic_id: str = "this", **more: Any) -> Any:
    """Return a cluster that answers at once: its partitions begin at 0."""

    def asked(topics: Iterable[str]) -> Any:
        ids = dict.fromkeys(topics, topic_id)
        return SimpleNamespace(is_answered=True, gone=frozenset, topic_ids=lambda gone: ids)

    return SimpleNamespace(
        starts=lambda topic, numbers: dict.fromkeys(numbers, 0),
        ends=lambda topic, numbers: dict.fromkeys(numbers, end),
        topic_id=lambda topic: topic_id,
        ask=asked,
        **more,
    )


def ask(follower: TopicFollower, cluster: Any) -> None:
    """Let a follower ask this cluster from now on."""
    follower._cluster = follower._changes._cluster = cluster


def long_ago(follower: TopicFollower) -> float:
    """A time so long ago that compaction may have been at work since."""
    return time.monotonic() - compaction_lag_ms(follower._topics[0]) / 1000


def look_for_replaced(follower: TopicFollower) -> None:
    """Let it take the answer to a question that is pending, ask again, and take that answer."""
    for _ in range(3):
        follower._advance_loads()


def read(follower: TopicFollower, *messages: Any) -> None:
    """Let messages arrive."""
    follower._hand_over(list(messages))
    follower._advance_loads()


def test_loaded_at_the_end(loaded: list[ChangesPartition], monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition is loaded where it ended when the follower began."""
    follower = follower_of(loaded, monkeypatch)
    read(follower, message(0, progress(3)))
    assert loaded == []
    read(follower, message(1, again(2)))
    assert loaded == [PARTITION]


def test_changes_that_are_being_written_again(
    loaded: list[ChangesPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a changes topic that was lost, the word of where the partition stands comes last."""
    follower = follower_of(loaded, monkeypatch)
    read(follower, message(0, again(7)), message(1, again(3)))
    follower._changes._on_end(*PARTITION, 2)
    follower._advance_loads()
    assert loaded == []
    read(follower, message(2, again(5)), message(3, progress(7)))
    assert loaded == [PARTITION]


def test_changes_that_are_written_again_behind_others(
    loaded: list[ChangesPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner without a disk had begun to fill a topic that was lost; what is newer is not all there yet."""
    follower = follower_of(loaded, monkeypatch)
    read(follower, message(0, progress(-1)), message(1, again(7)))
    read(follower, message(2, progress(0)))
    assert loaded == []
    read(follower, message(3, progress(7)))
    assert loaded == [PARTITION]


def test_the_word_of_an_owner_that_knows_another_topic(
    loaded: list[ChangesPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody hears of it: what it has written up to there is in the topic that is no more."""
    taken: list[EventAtOffset] = []
    follower = follower_of(loaded, monkeypatch)
    follower._take = lambda batches: taken.extend(events_of(batches.get(PARTITION, [])))
    read(follower, message(0, progress(3)._replace(changes_id="this")))
    read(follower, message(1, progress(9)._replace(changes_id="old")))
    assert [event.position.offset for _, event in taken] == [3]


def test_a_load_that_takes_long_goes_on(
    loaded: list[ChangesPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compaction may have taken what was below the end for what is behind it: that is read, too."""
    follower = follower_of(loaded, monkeypatch)
    ask(follower, played(4))
    follower._changes.readers[PARTITION].aim(2, long_ago(follower))
    read(follower, message(0, progress(3)), message(1, again(2)))
    assert loaded == []
    read(follower, message(2, again(2)))
    assert loaded == []
    read(follower, message(3, again(3)))
    assert loaded == [PARTITION]


def test_a_load_to_the_very_end_lacks_nothing(
    loaded: list[ChangesPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it took."""
    follower = follower_of(loaded, monkeypatch)
    follower._changes.readers[PARTITION].aim(9, long_ago(follower))
    read(follower, message(0, progress(3)))
    follower._changes._on_end(*PARTITION, 1)
    follower._advance_loads()
    assert loaded == [PARTITION]


def test_a_reader_that_starts_at_an_empty_topic(
    loaded: list[ChangesPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner may be about to fill it again: it is not loaded, and a sentence says so."""
    follower = follower_of(loaded, monkeypatch)
    assert follower.waiting() is None
    follower._changes._on_end(*PARTITION, 0)
    follower._advance_loads()
    assert loaded == []
    assert str(follower.waiting()).startswith(
        "waiting for orders.changes [0]: it is empty, or its owner is still"
    )
    follower._changes._on_end(*PARTITION, 1)
    read(follower, message(0, progress(-1)))
    assert loaded == [PARTITION]
    assert follower.waiting() is None


def test_a_topic_that_is_replaced_while_it_is_waited_for(
    loaded: list[ChangesPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The progress events of the new topic's owner name another topic, so the load would never be complete."""
    follower = follower_of(loaded, monkeypatch)
    follower._changes._on_end(*PARTITION, 0)
    follower._advance_loads()
    ask(follower, played(2, "another"))
    with pytest.raises(ChangesReplaced, match="was deleted and created again while it was read"):
        look_for_replaced(follower)


def test_a_topic_that_is_replaced_while_it_is_followed(
    loaded: list[ChangesPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new one may be longer, so that Kafka does not refuse the offset; its progress events would not count."""
    follower = follower_of(loaded, monkeypatch)
    read(follower, message(0, progress(3)), message(1, again(2)))
    assert loaded == [PARTITION]
    ask(follower, played(9, "another"))
    with pytest.raises(ChangesReplaced):
        look_for_replaced(follower)


def test_a_topic_without_a_sow(loaded: list[ChangesPartition], monkeypatch: pytest.MonkeyPatch) -> None:
    """There nothing lacks: its changes are deleted by their age, and with them what says where it stands."""
    follower = follower_of(loaded, monkeypatch, sow=False)
    read(follower, message(1, again(7)))
    assert loaded == [PARTITION]


# a Kafka that does not answer yet

BEHIND = 3
"""The offset behind the changes, at which they end for who looks first."""


class Cluster:
    """A cluster that fails at each of its answers so often before it gives it."""

    def __init__(self, error: int, times: int) -> None:
        self._error = KafkaError(error, "Failed to query partition leaders")
        self._left = dict.fromkeys(("starts", "topic_id", "ends"), times)

    def _answer(self, question: str) -> None:
        if self._left[question]:
            self._left[question] -= 1
            raise KafkaException(self._error)

    def starts(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return where the partitions begin."""
        self._answer("starts")
        return dict.fromkeys(partitions, 0)

    def topic_id(self, topic: str) -> str:
        """Return the topic's id."""
        self._answer("topic_id")
        return "this"

    def ends(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return where the partitions end."""
        self._answer("ends")
        return dict.fromkeys(partitions, BEHIND)

    def ask(self, topics: Iterable[str]) -> Any:
        """Return a question that is not answered yet."""
        return SimpleNamespace(is_answered=False)


class Consumer:
    """A consumer of one partition that holds a single event."""

    def __init__(self) -> None:
        self.left = [message(BEHIND - 1, progress(BEHIND))]

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read from there on."""
        assert [(one.topic, one.partition, one.offset) for one in partitions] == [(*PARTITION, 0)]

    def poll(self, seconds: float) -> Any:
        """Return the next event."""
        return self.left.pop() if self.left else None

    def consume(self, count: int, seconds: float) -> list[Any]:
        """Return no more."""
        return []

    def get_watermark_offsets(self, position: TopicPartition, cached: bool) -> tuple[int, int]:
        """Return where the partition begins and ends."""
        return (0, BEHIND)

    def seek(self, partition: TopicPartition) -> None:
        """Read from another offset."""

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
    topic = define_topic(**{"name": "orders", "key": "/id"})
    follower = TopicFollower({}, [topic], lambda batches: None, result.set_result, result.set_result)
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


def test_a_load_that_goes_on_asks_again(
    loaded: list[ChangesPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the end is looked up once more, Kafka may be away for the moment."""
    monkeypatch.setattr("sowline.kafka.admin.AGAIN_SECONDS", 0.0)
    follower = follower_of(loaded, monkeypatch)
    ask(follower, Cluster(KafkaError._TIMED_OUT, times=2))
    follower._changes.readers[PARTITION].aim(1, long_ago(follower))
    read(follower, message(0, progress(3)))
    assert (loaded, follower._changes.readers[PARTITION].target) == ([], BEHIND)


def test_how_far_behind_the_end_it_is() -> None:
    """By what Kafka said of the ends when something was fetched."""
    topic = define_topic(**{"name": "orders", "key": "/id"})
    follower = TopicFollower({}, [topic], lambda batches: None, lambda partitions: None, lambda error: None)
    follower._changes.consumer = cast(Any, Consumer())
    ask(follower, played(BEHIND))
    follower._changes.load(*load_of(PARTITION))
    follower._changes.look()
    assert follower.behind.lags == {PARTITION: BEHIND}


def change(offset: int, *, last: bool = True) -> Change:
    """A change of a record, one after the other."""
    return Change(
        b"%d" % offset, b"{}", None, Position(0, offset), Position(0, offset - 1), "publish", 1000, last
    )


TRANSIENT = {"key": "/id", "durability": "transient", "recovery_point": "now"}


def transient(
    loaded: list[ChangesPartition], monkeypatch: pytest.MonkeyPatch, owned: set[tuple[str, int]]
) -> TopicFollower:
    """A follower of a transient topic whose changes ended at 2 when it began; workers own some partitions."""
    follower = follower_of(loaded, monkeypatch, **TRANSIENT)
    ask(follower, played(2, owned=lambda _: owned))
    follower._look_up(follower._topics[0])
    read(follower, message(0, change(1)), message(1, progress(3)))
    return follower


def test_a_transient_topic_without_an_owner(
    loaded: list[ChangesPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is loaded once a worker has opened it, and all that this ends is here; until then it says why."""
    follower = transient(loaded, monkeypatch, set())
    follower._changes._on_end(*PARTITION, 2)
    follower._advance_loads()
    assert loaded == []
    assert "a transient topic starts empty when a materializer opens it" in (follower.waiting() or "")
    read(follower, message(2, change(4, last=False)))
    assert loaded == []
    read(follower, message(3, change(5)), message(4, progress(5)))
    assert (loaded, follower.waiting()) == ([PARTITION], None)


def test_a_transient_topic_that_a_worker_has(
    loaded: list[ChangesPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is loaded at its end, like any other."""
    transient(loaded, monkeypatch, {("orders", 0)})
    assert loaded == [PARTITION]


def test_a_snapshot_that_is_followed_for_too_long(
    loaded: list[ChangesPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compaction may have removed events since: the partition is emptied, and read from its start."""
    follower, forgotten, sought = follower_of(loaded, monkeypatch), list[ChangesPartition](), list[int]()
    ask(follower, played(9))
    follower._discard = lambda partition, reason, why: forgotten.append(partition)
    follower._changes.readers[PARTITION].begin_with_snapshot(1)
    monkeypatch.setattr(follower._changes.consumer, "seek", lambda one: sought.append(one.offset))
    follower._advance_loads()
    assert (forgotten, sought) == ([], [])
    follower._changes.readers[PARTITION].aim(2, long_ago(follower))
    follower._advance_loads()
    reader = follower._changes.readers[PARTITION]
    assert (forgotten, sought, reader.has_snapshot, reader.target) == ([PARTITION], [0], False, 9)
