"""The ids of the topics that a consumer fetches from, out of the lines of its client."""

import logging

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from sowline.config.kafka_options import kafka_config
from sowline.kafka.clients import poll_batch
from sowline.kafka.fetched_ids import FetchedIds
from sowline.runtime.library_logs import LIBRDKAFKA

LINE = ("METADATA", "rdkafka#consumer-1", "[thrd:main]: Topic my.orders changed id from {} to {}")


def learn(ids: FetchedIds, old: str, new: str) -> None:
    """Write the line that the client writes."""
    facility, name, text = LINE
    ids.log(logging.DEBUG, "%s [%s] %s", facility, name, text.format(old, new))


def test_the_client_tells_what_it_fetches() -> None:
    """Nothing is another log while nothing is known; each id replaces the one before."""
    ids = FetchedIds({})
    assert not ids.is_other("my.orders", "one")
    learn(ids, "AAAAAAAAAAAAAAAAAAAAAA", "x+/Zh")
    assert not ids.is_other("my.orders", "x+/Zh")
    assert ids.is_other("my.orders", "one")
    learn(ids, "x+/Zh", "two")
    assert ids.is_other("my.orders", "x+/Zh")
    assert not ids.is_other("orders", "x+/Zh")


@pytest.mark.parametrize(
    ("options", "passed_on"),
    [
        ({}, ["info", "error"]),
        ({"log_level": "2"}, []),
        ({"log_level": "4"}, ["error"]),
        ({"log_level": "2", "debug": "broker"}, ["debug", "info", "error"]),
    ],
)
def test_other_lines_are_logged_as_without_it(
    options: dict[str, str], passed_on: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The client itself logs all levels as soon as it has something to debug."""
    ids = FetchedIds(options)
    with caplog.at_level(logging.DEBUG, LIBRDKAFKA):
        for level in (logging.DEBUG, logging.INFO, logging.ERROR):
            ids.log(level, "%s [%s] %s", "FAIL", "rdkafka", logging.getLevelName(level).lower())
    assert [record.args[2] for record in caplog.records if record.args] == passed_on  # type: ignore[index]


def test_what_was_to_be_debugged_is_debugged() -> None:
    """Beside what is needed here."""
    assert set(FetchedIds({"debug": "broker,cgrp"}).options["debug"].split(",")) == {
        "broker",
        "cgrp",
        "topic",
    }


class Gone:
    """A consumer that finds nothing at an offset, and a message of another partition."""

    def __init__(self) -> None:
        self._left: list[object] = [Answer(1, KafkaError(KafkaError._AUTO_OFFSET_RESET)), Answer(2, None)]

    def poll(self, seconds: float) -> object:
        """Return the first."""
        return self._left.pop(0)

    def consume(self, limit: int, seconds: float) -> list[object]:
        """Return the others."""
        return self._left


class Answer:
    """A message, or an error."""

    def __init__(self, number: int, wrong: KafkaError | None) -> None:
        self._number, self._wrong = number, wrong

    def topic(self) -> str:
        """The topic."""
        return "orders"

    def partition(self) -> int:
        """The partition."""
        return self._number

    def error(self) -> KafkaError | None:
        """The error."""
        return self._wrong


def test_a_partition_without_its_offset_holds_up_no_other() -> None:
    """The worker can begin that partition again, and gets the messages of the others."""
    found: list[tuple[str, int]] = []
    messages = poll_batch(Gone(), 10, 0.0, None, lambda topic, number: found.append((topic, number)))  # type: ignore[arg-type]
    assert found == [("orders", 1)]
    assert [message.partition() for message in messages] == [2]


def test_a_consumer_takes_the_options() -> None:
    """The client knows them."""
    options = {"group.id": "g", **kafka_config("127.0.0.1:1"), **FetchedIds({}).options}
    consumer = Consumer(options)
    consumer.assign([TopicPartition("orders", 0, 0)])
    consumer.close()
