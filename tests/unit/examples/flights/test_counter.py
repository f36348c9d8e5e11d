"""The demo's bookkeeper tells visitors' commands from those of the pipeline."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from queue import Empty, Queue
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import Message, TopicPartition

from examples.flights.counter import ChangeCounter
from sowline.changes.change import Change
from sowline.model.position import Position, before_the_log


def read(topic: str, offset: int, headers: Any, key: bytes | None) -> Any:
    """Return a message as Kafka's client gives it."""
    message = Mock(spec=Message)
    fields = {
        "topic": topic,
        "partition": 0,
        "offset": offset,
        "headers": headers,
        "key": key,
        "value": b"{}",
    }
    message.error.return_value = None
    for name, value in fields.items():
        getattr(message, name).return_value = value
    return message


def by(publisher: str | None) -> list[tuple[str, bytes]]:
    """The headers of a command of a publisher, or of nobody."""
    return [] if publisher is None else [("sow.publisher", publisher.encode())]


def command(offset: int, publisher: str | None) -> Any:
    """A command, of a publisher or of nobody."""
    return read("flights", offset, by(publisher), None)


def letter(offset: int, publisher: str | None) -> Any:
    """The dead letter of the command at an offset."""
    return read("flights.dead", 0, by(publisher), f"0@{offset}".encode())


def change(offset: int, key: bytes) -> Any:
    """The change that the command at an offset made."""
    position = Position(0, offset, 0)
    made = Change(key, b"{}", None, position, before_the_log(), "publish", 0)
    return read("flights.changes", offset, made.headers(), key)


class Consumer:
    """A consumer that reads what a test gives it."""

    def __init__(self) -> None:
        self._given: Queue[list[Any]] = Queue()
        self._is_counting = False

    def read(self, *messages: Any) -> None:
        """Let messages arrive; return when they are counted."""
        self._given.put(list(messages))
        self._given.join()

    def list_topics(self, timeout: float) -> Any:
        """Return that all topics have one partition."""
        topic = SimpleNamespace(partitions=[0])
        return SimpleNamespace(topics=defaultdict(lambda: topic))

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these."""

    def consume(self, count: int, seconds: float) -> list[Any]:
        """Return what has arrived; what came before is counted."""
        if self._is_counting:
            self._given.task_done()
        try:
            messages = self._given.get(timeout=0.01)
        except Empty:
            messages = []
        self._is_counting = bool(messages)
        return messages

    def position(self, partitions: object) -> list[TopicPartition]:
        """Return nothing."""
        return []

    def assignment(self) -> list[TopicPartition]:
        """Return nothing."""
        return []

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        """Return that the log is empty."""
        return 0, 0

    def close(self) -> None:
        """Read no more."""


Counting = tuple[ChangeCounter, Callable[..., None]]


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counting]:
    """A bookkeeper, and what lets it read messages."""
    consumer = Consumer()
    monkeypatch.setattr("examples.flights.counter.plain_consumer", lambda kafka: consumer)
    with ChangeCounter("127.0.0.1:1", "flights", "flights") as made:
        yield made, consumer.read
    assert made.error is None


def test_a_visitor_is_another_publisher(counting: Counting) -> None:
    """Also one without a name, and one whose name only begins like the pipeline's."""
    made, read_all = counting
    for offset, publisher in enumerate(("flights/0", None, "flights2/0", "python-1", "flights/12")):
        read_all(command(offset, publisher))
    assert (made.commands, made.by_visitors) == (2, 3)
    for offset in range(5):
        read_all(change(offset, f"key {offset}".encode()))
    assert made.visited == {"key 1", "key 2", "key 3"}
    assert made.changes == 5


def test_changes_may_come_before_their_commands(counting: Counting) -> None:
    """The two topics are read side by side."""
    made, read_all = counting
    for offset in range(3):
        read_all(change(offset, f"key {offset}".encode()))
    assert made.visited == set()
    read_all(command(0, None))
    assert made.visited == {"key 0"}
    read_all(command(1, "flights/0"))
    read_all(command(2, "someone"))
    assert made.visited == {"key 0", "key 2"}


def test_only_the_pipelines_dead_letters_are_losses(counting: Counting) -> None:
    """What a visitor wrote wrongly is no failure of the demo."""
    made, read_all = counting
    read_all(letter(0, None), letter(0, None))
    assert (made.dead, made.refused_visits) == (0, 1)
    read_all(letter(1, "flights/1"))
    assert (made.dead, made.refused_visits) == (1, 1)
