"""The runner of a view: what it takes while its source's partitions move."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import Mock

import orjson
import pytest
from confluent_kafka import TopicPartition

from sowline.changes.change import Change
from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.commands.command import Headers
from sowline.config.settings import Settings
from sowline.config.topics import parse_topics
from sowline.model.position import Position
from sowline_views import runner as module
from sowline_views.core.joined_tables import JoinedEvent, JoinedTables, joined_table
from sowline_views.core.outgoing import Outgoing
from sowline_views.runner import ViewRunner
from tests.played_cluster import PlayedCluster
from tests.property.world import written
from tests.unit.sowline.kafka import test_changes_driver

TOPICS = parse_topics("""
topics:
  - {name: orders, key: /id, partitions: 2}
  - {name: customers, key: /id}
views:
  - name: totals
    from: orders
    join: [{topic: customers, on: /customer = /id, as: c}]
    grouping: [/c/desk]
    projection: [/c/desk, COUNT(1) AS /orders]
""")
SOURCE, VIEW = TOPICS.named("orders"), TOPICS.named("totals")
ENDS = 4

Poll = Callable[[], list[Any]]


class Consumer(test_changes_driver.Consumer):
    """A consumer whose polls are given; when none is left, the service stops."""

    def __init__(self, polls: list[Poll], stop: threading.Event) -> None:
        super().__init__()
        self._polls, self._stop = polls, stop
        self._more: list[Any] = []

    def poll(self, seconds: float) -> Any:
        """Return the first message of the next poll."""
        messages = self._polls.pop(0)()
        if not self._polls:
            self._stop.set()
        first, self._more = (messages[0], messages[1:]) if messages else (None, [])
        return first

    def consume(self, count: int, seconds: float) -> list[Any]:
        """Return the others."""
        return self._more

    def close(self) -> None:
        """Leave the group."""

    def assigned(self, *numbers: int) -> list[Any]:
        """Get partitions of the source from the group, and no message."""
        self.callbacks["on_assign"](self, [TopicPartition(SOURCE.changes, one) for one in numbers])
        return []

    def revoked(self, *numbers: int) -> list[Any]:
        """Lose partitions of the source to the group, and get no message."""
        self.callbacks["on_revoke"](self, [TopicPartition(SOURCE.changes, one) for one in numbers])
        return []


class SourceMessage(NamedTuple):
    """An event of a partition of the source, as a message of Kafka's client."""

    number: int
    at: int
    event: Event

    def topic(self) -> str:
        """Return the topic."""
        return SOURCE.changes

    def partition(self) -> int:
        """Return the partition."""
        return self.number

    def offset(self) -> int:
        """Return the offset."""
        return self.at

    def key(self) -> bytes:
        """Return the key."""
        return written(self.at, self.event).key()

    def value(self) -> bytes | None:
        """Return the value."""
        return written(self.at, self.event).value()

    def headers(self) -> Headers | None:
        """Return the headers."""
        return written(self.at, self.event).headers()

    def error(self) -> None:
        """Return none."""


def order(offset: int) -> Change:
    """Return the change by which an order is there."""
    body = orjson.dumps({"id": offset, "customer": "a"})
    return Change(b"%d" % offset, body, None, Position(0, offset), Position(0, offset - 1), "publish", 1)


def customer(offset: int) -> Change:
    """Return the change by which a customer that has no order is there."""
    body = b'{"id":"x","desk":"d"}'
    return Change(b"%d" % offset, body, None, Position(0, offset), Position(0, 0), "publish", 1)


def progress(offset: int) -> Progress:
    """Return a filled progress event."""
    return Progress(Position(0, offset), Position(0, offset - 1), 9, {}, "", "", 1, {}, changes_id="id")


def loaded(partition: int) -> list[Any]:
    """Return the messages of a partition of the source: three orders, and a progress event."""
    return [
        *(SourceMessage(partition, at, order(at)) for at in range(3)),
        SourceMessage(partition, 3, progress(3)),
    ]


def test_what_was_read_before_a_partition_came_back_is_not_of_its_new_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The snapshot after the new load has the group of the partition's three orders."""
    claims = [SimpleNamespace(partition=number, metadata="5") for number in (0, 1)]
    monkeypatch.setattr(module, "committed", lambda consumer, asked: [claims[one.partition] for one in asked])
    monkeypatch.setattr(module, "commit", Mock())
    # Each change of a joined topic takes so long that the member has to poll.
    monkeypatch.setattr(module, "POLL_SECONDS_MAX", 0.0)
    assert VIEW.view is not None
    table = joined_table(VIEW.view.joins[0], TOPICS.named("customers"))
    joined = Mock(tables=JoinedTables([table]), ends=dict)
    joined.have_reached.return_value, joined.events.return_value = True, []
    stop, sent, polls = threading.Event(), list[Outgoing](), list[Poll]()
    consumer = Consumer(polls, stop)
    monkeypatch.setattr(module, "JoinedTopics", lambda *given: joined)
    monkeypatch.setattr(module, "PartialsOutput", lambda *given: Mock(send=sent.extend))
    monkeypatch.setattr("sowline.kafka.runner.member_consumer", lambda *given: consumer)
    monkeypatch.setattr("sowline.kafka.runner.Cluster", lambda *given: PlayedCluster(ENDS, "id"))

    def tail() -> list[Any]:
        changes = [JoinedEvent(table.topic.log, 0, one.position, one) for one in (customer(1), customer(2))]
        joined.events.side_effect = [changes, *([] for _ in range(99))]
        sent.clear()
        return [SourceMessage(0, 4, progress(4))]

    def nothing() -> list[Any]:
        return []

    polls += [
        lambda: consumer.assigned(0, 1),
        lambda: [*loaded(0), *loaded(1)],
        *(nothing for _ in range(4)),
        tail,
        lambda: consumer.revoked(0),
        lambda: consumer.assigned(0),
        *(nothing for _ in range(2)),
        lambda: [*loaded(0), SourceMessage(0, 4, progress(4))],
        *(nothing for _ in range(4)),
    ]
    ViewRunner(Settings(), VIEW, SOURCE, stop, [table]).run()
    snapshots = [one.message for one in sent if one.message.is_snapshot and one.message.partition == 0]
    assert sum(len(one.states) for one in snapshots) == 1
