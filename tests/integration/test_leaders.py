"""A broker of two is killed: partitions of which only it has a copy wait for a leader, and the others continue."""

import asyncio
import itertools
import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from sowline.config.kafka_options import kafka_config
from sowline.kafka.clients import plain_consumer
from sowline.kafka.retriable import committed
from sowline.kafka.topic_settings import kafka_topics
from sowline.model.key import partition_of
from sowline.runtime.local_kafka import LocalKafka
from tests.integration.load import write_marks
from tests.integration.second_broker import SecondBroker, create_on_both
from tests.integration.services import Service, System, http_refusal, http_text, system
from tests.integration.watchers import watching
from tests.waiting import wait_for

LED, LOST = 0, 1
"""The partition of the broker that stays, and that of the other one."""

FILTERS = ("", "/qty > 50")
RESTARTED, OPENED = '"restarting from committed state"', '"partition opened"'


class Served:
    """Two brokers, a topic with a partition on each, and services over it."""

    def __init__(self, second: SecondBroker, made: System) -> None:
        self.second = second
        self.system = made
        self.topic, self.other = (topic.name for topic in made.topics.topics)
        self.worker = made.service("materializer").start().wait_ready()
        self.query = made.service("query_service").start().wait_ready()
        self._publisher = made.publisher()
        self._keys = {one: keys_of(one) for one in (LED, LOST)}

    def publish(self, partition: int, count: int) -> None:
        """Publish records of new keys to a partition; without a leader, they wait for one."""
        for number in itertools.islice(self._keys[partition], count):
            self._publisher.publish(self.topic, {"id": number, "qty": number % 100})

    def position(self, partition: int) -> int:
        """Return the offset up to which the query service has a partition."""
        return self.system.bookmark(self.query.url, self.topic).get(partition, (-1, 0))[0]

    def lose_second(self) -> None:
        """Kill the second broker, as `kill -9` does, while the worker writes to its partition."""
        ended, before = threading.Event(), self.position(LOST)

        def publish() -> None:
            while not ended.wait(0.002):
                self.publish(LOST, 5)

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            wait_for(lambda: self.position(LOST) > before + 20, "the worker to write")
            self.second.kill()
        finally:
            ended.set()
            thread.join()

    def records(self, query: Service) -> dict[str, int]:
        """Return how many records each topic has that a query service has loaded."""
        about = json.loads(http_text(f"{query.url}/v1/topics"))["topics"]
        return {one["name"]: one["records"] for one in about if not one["loading"]}

    def written(self, partition: int) -> int:
        """Return where the fanout's output ends."""
        return self.system.cluster.ends(self.system.topics.fanouts[0].output, [partition])[partition]

    def check_apart(self) -> None:
        """Wait until the lost partition waits for its leader, and check that the other one is applied."""
        sentence = f"{self.topic} [{LOST}]: waiting for a leader of {self.topic} [{LOST}]"
        wait_for(lambda: sentence in http_refusal(f"{self.worker.url}/readyz"), "the partition to wait")
        assert self.worker.metric("sowline_partitions_leaderless") == 1
        goal = self.position(LED) + 10
        self.publish(LED, 10)
        wait_for(lambda: self.position(LED) >= goal, "the other partition to be applied")


def keys_of(partition: int) -> Iterator[int]:
    """Yield keys of a partition's records."""
    return (number for number in itertools.count() if partition_of(str(number), 2) == partition)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """Services that are ready."""
    name = f"t{uuid.uuid4().hex[:12]}-led"
    with LocalKafka(tmp_path / "first") as first:
        # The topic of the groups' offsets is created by this question, while there is one broker.
        with closing(plain_consumer(kafka_config(first.bootstrap))) as consumer:
            committed(consumer, [TopicPartition(name, 0)])
        with (
            SecondBroker(tmp_path / "second", first) as second,
            system(
                first.bootstrap,
                tmp_path,
                [
                    {"name": name, "key": ["/id"], "partitions": 2},
                    {"name": f"{name}-other", "key": ["/id"], "partitions": 1},
                ],
                [{"name": f"{name}-fanout", "topic": name}],
            ) as made,
        ):
            for topic in made.topics.topics:
                create_on_both(made.kafka, kafka_topics(topic))
            create_on_both(made.kafka, {made.topics.fanouts[0].output: (2, {"cleanup.policy": "compact"})})
            yield Served(second, made)


def disturb(served: Served) -> None:
    """Lose the leader under a worker that writes, and again before one that starts; then let it come back."""
    served.lose_second()
    served.check_apart()
    served.worker.kill()
    served.worker.start()
    served.check_apart()
    restarts, opened = served.worker.log.count(RESTARTED), served.worker.log.count(OPENED)
    served.second.start()
    served.worker.wait_ready()
    assert served.worker.log.count(RESTARTED) == restarts
    assert served.worker.log.count(OPENED) > opened


@pytest.mark.long
async def test_a_partition_without_a_leader_holds_up_no_other(served: Served) -> None:
    """It waits, and says so; once its broker is back it goes on, and nothing is left out or comes twice."""
    served.publish(LED, 10)
    async with watching(served.query.url, served.topic, *FILTERS) as watchers:
        await asyncio.to_thread(disturb, served)
        marks = await asyncio.to_thread(write_marks, served.system, served.query.url, served.topic)
        await watchers.wait_for(marks)
    await watchers.check(served.system, served.query.url, served.topic)


def check_named(service: Service, *topics: str) -> None:
    """Wait until a service says that it waits for the leaders of the lost partition of these topics."""
    names = " and ".join(f"{topic} [{LOST}]" for topic in sorted(topics))
    sentence = f"waiting for a leader of {names} in Kafka"
    wait_for(lambda: sentence in http_refusal(f"{service.url}/readyz"), "the service to name what waits")
    assert service.metric("sowline_partitions_leaderless") == len(topics)


def start_without_leader(served: Served) -> None:
    """Start services while a partition has no leader; then let it come back."""
    for partition in (LED, LOST):
        served.publish(partition, 10)
    served.system.write(served.other, *({"id": number} for number in range(5)))
    wait_for(lambda: served.records(served.query) == {served.topic: 20, served.other: 5}, "all records")
    served.second.kill()
    served.check_apart()
    late = served.system.service("query_service").start()
    fanout = served.system.service("fanout").start()
    changes, output = served.system.topic(served.topic).changes, served.system.topics.fanouts[0].output
    check_named(late, changes)
    check_named(fanout, changes, output)
    wait_for(lambda: served.records(late) == {served.other: 5}, "the other topic to be served")
    wait_for(lambda: served.written(LED) == 20, "the fanout to write its other partition")
    served.second.start()
    for service in (late, fanout):
        service.wait_ready()
        assert service.metric("sowline_partitions_leaderless") == 0
    assert served.records(late) == {served.topic: 30, served.other: 5}
    wait_for(lambda: served.written(LOST) == 10, "the fanout to write what waited")


@pytest.mark.long
def test_services_start_without_a_leader(served: Served) -> None:
    """They serve and write what has one, name what waits, and take that up by themselves."""
    start_without_leader(served)
