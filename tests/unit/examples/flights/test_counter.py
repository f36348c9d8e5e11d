"""The demo's bookkeeper tells visitors' commands from those of the pipeline."""

from typing import Any
from unittest.mock import Mock

from confluent_kafka import Message

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
    for name, value in fields.items():
        getattr(message, name).return_value = value
    return message


def command(offset: int, publisher: str | None, topic: str = "flights") -> Any:
    """A command, of a publisher or of nobody."""
    headers = [] if publisher is None else [("sow.publisher", publisher.encode())]
    return read(topic, offset, headers, None)


def change(offset: int, key: bytes) -> Any:
    """The change that the command at an offset made."""
    position = Position(0, offset, 0)
    made = Change(key, b"{}", None, position, before_the_log(), "publish", 0)
    return read("flights.changes", offset, made.headers(), key)


def counter() -> ChangeCounter:
    """A bookkeeper that reads what a test gives it."""
    made = ChangeCounter("127.0.0.1:1", "flights", "flights")
    made._positions = {0: before_the_log()}
    return made


def test_a_visitor_is_another_publisher() -> None:
    """Also one without a name, and one whose name only begins like the pipeline's."""
    made = counter()
    for offset, publisher in enumerate(("flights/0", None, "flights2/0", "python-1", "flights/12")):
        made._count(command(offset, publisher))
    assert (made.commands, made.by_visitors) == (2, 3)
    for offset in range(5):
        made._count(change(offset, f"key {offset}".encode()))
    assert made.visited == {"key 1", "key 2", "key 3"}
    assert made.changes == 5


def test_changes_may_come_before_their_commands() -> None:
    """The two topics are read side by side."""
    made = counter()
    for offset in range(3):
        made._count(change(offset, f"key {offset}".encode()))
    assert made.visited == set()
    made._count(command(0, None))
    assert made.visited == {"key 0"}
    made._count(command(1, "flights/0"))
    made._count(command(2, "someone"))
    assert made.visited == {"key 0", "key 2"}


def test_only_the_pipelines_dead_letters_are_losses() -> None:
    """What a visitor wrote wrongly is no failure of the demo."""
    made = counter()
    made._count(command(0, None, "flights.dead"))
    assert made.dead == 0
    made._count(command(1, "flights/1", "flights.dead"))
    assert made.dead == 1
