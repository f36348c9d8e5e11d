"""A log topic as a plain Kafka consumer finds it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple, cast

from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.waiting import wait_for


class Written(NamedTuple):
    """One record of the log."""

    partition: int
    key: str
    value: bytes | None
    headers: dict[str, str]

    @property
    def sequence(self) -> tuple[int, ...]:
        """The record's `sow.sequence`, as numbers."""
        return tuple(map(int, self.headers["sow.sequence"].split(".")))


def create_topic(kafka: str, name: str, partitions: int = 2) -> str:
    """Create a topic and return its name, once the broker lists it: the controller knows it a moment before."""
    admin = AdminClient({"bootstrap.servers": kafka})  # must outlive what it promises
    admin.create_topics([NewTopic(name, partitions)])[name].result(30)
    wait_for(lambda: name in admin.list_topics(timeout=30).topics, f"the topic {name}", 30)
    return name


def create_log(kafka: str, name: str, partitions: int = 2) -> str:
    """Create a log and the topic of its dead letters, as a materializer does, and return its name."""
    create_topic(kafka, f"{name}.dead", 1)
    return create_topic(kafka, name, partitions)


def read_log(kafka: str, topic: str) -> list[Written]:
    """Return what a topic holds now, each partition in its order."""
    with _consumer(kafka, topic) as log:
        return list(_until_end(log, len(log.assignment())))


def follow_log(kafka: str, topic: str) -> Iterator[Written | None]:
    """Yield a topic's records from the first on, without end; None whenever nothing came for a moment."""
    with _consumer(kafka, topic) as log:
        while True:
            message = log.poll(0.2)
            if message is None:
                yield None
            elif not message.error():
                yield _written(message)


@contextmanager
def _consumer(kafka: str, topic: str) -> Iterator[Consumer]:
    with closing(
        Consumer({"bootstrap.servers": kafka, "group.id": topic, "enable.partition.eof": True})
    ) as log:
        partitions = log.list_topics(topic, 30).topics[topic].partitions
        log.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        yield log


def _until_end(log: Consumer, partitions: int) -> Iterator[Written]:
    while partitions:
        # Not consume(): it waits for as many records as it was asked for.
        message = log.poll(30)
        assert message is not None, "Kafka did not answer"
        if message.error():
            partitions -= 1
        else:
            yield _written(message)


def _written(message: Message) -> Written:
    partition, key = message.partition(), message.key()
    assert partition is not None
    assert isinstance(key, bytes)
    pairs = cast("list[tuple[str, bytes]]", message.headers() or [])
    headers = {name: value.decode() for name, value in pairs}
    return Written(partition, key.decode(), message.value(), headers)


def by_key(written: list[Written]) -> list[Written]:
    """Return records of different keys in the order of the keys: Spark keeps none between them."""
    return sorted(written, key=lambda record: record.key)
