"""What the follower's thread hands to the loop, and when it says that a partition is loaded."""

import asyncio
from collections.abc import Iterable

import pytest
from confluent_kafka import KafkaError, KafkaException
from structlog.testing import capture_logs

from sowline.changes.changes_reader import ChangesReplaced
from sowline.config.topic_definition import define_topic
from sowline.kafka.changes_driver import ChangesPartition
from sowline_query_service.topics.followed_partitions import Replicas
from sowline_query_service.topics.follower import TopicFollower
from tests.played_cluster import PlayedCluster, SilentCluster
from tests.unit.query_service.topics.followed import (
    BEHIND,
    PARTITION,
    Consumer,
    again,
    end,
    follower_of,
    long_ago,
    message,
    progress,
)


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


# a Kafka that does not answer yet


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
