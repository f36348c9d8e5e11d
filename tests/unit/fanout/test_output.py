"""The messages of fanouts of views and conflated topics."""

import itertools
import threading
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import orjson
import pytest
from confluent_kafka import KafkaException

from sowline.changes.change import Change
from sowline.config.fanouts import FanoutDefinition
from sowline.config.topics import parse_topics
from sowline.errors import StartAgain
from sowline.language.filter import UNKNOWN, compile_filter
from sowline.model.position import Position
from sowline.subscriptions.engine.subscription import MATCH, OOF, PUBLISH, Delivery, Subscription
from sowline_fanout.load import Load
from sowline_fanout.message import OutputMessage
from sowline_fanout.output import FanoutOutput

TOPICS = parse_topics(
    """
topics: [{name: orders, key: /id}, {name: images, key: {from: kafka_key}, message_type: binary}]
views: [{name: view, from: orders, grouping: [/who], projection: [SUM(/hours) AS /hours]}]
conflated: [{name: slow, from: orders, interval: 1s}]
"""
)
BODY = b'{"id":1,"who":"ann","hours":4}'
CHANGED = b'{"id":1,"who":"ann","hours":5}'
CHANGE = Change(b"1", CHANGED, BODY, Position(0, 5), Position(0, 3), "publish", 1_700_000_000_000)


class FakeProducer:
    """Keeps what is produced."""

    def __init__(self) -> None:
        self.produced: list[OutputMessage] = []

    def produce(self, topic: str, value: bytes, *about: Any, headers: Any) -> None:
        """Take a message."""
        self.produced.append(OutputMessage.read(value, headers))


def written(source: str, *messages: tuple[Change, Delivery], **fanout: Any) -> list[tuple[str, Any]]:
    """Return the commands and the values that a fanout of a topic writes."""
    definition = FanoutDefinition.model_validate({"name": "f", "topic": source, **fanout})
    producer = FakeProducer()
    with patch("sowline.kafka.exact_output.exact_producer", lambda *_, **__: producer):
        output = FanoutOutput({}, definition, TOPICS.named(source))
    for change, delivery in messages:
        output.send(0, change, delivery)
    return [(one.command, orjson.loads(one.value)) for one in producer.produced]


@pytest.mark.parametrize(
    ("source", "key"), [("orders", {"id": 1}), ("view", {"who": "ann"}), ("slow", {"id": 1})]
)
def test_a_delta_has_the_key_fields(source: str, key: dict[str, Any]) -> None:
    """Those of the grouping in a view, those of the source in a conflated topic."""
    sent = CHANGE, Delivery(PUBLISH, CHANGED, previous=BODY)
    assert written(source, sent, delta=True) == [("publish", {**key, "hours": 5})]


def test_a_message_type_without_deltas() -> None:
    """A fanout writes whole records, although it is to write deltas."""
    body = b'{"data":"AAA="}'
    sent = CHANGE, Delivery(PUBLISH, body, previous=body)
    assert written("images", sent, delta=True) == [("publish", {"data": "AAA="})]


def test_an_oof_of_a_conflated_topic_has_what_readers_hold() -> None:
    """Another topic's has the record that no longer matches."""
    sent = CHANGE, Delivery(OOF, CHANGED, MATCH, BODY)
    assert written("slow", sent, options="oof") == [("oof", orjson.loads(BODY))]
    assert written("orders", sent, options="oof") == [("oof", orjson.loads(CHANGED))]


def test_an_oof_of_a_load_has_what_readers_hold() -> None:
    """A conflated topic has changed since the fanout wrote it, or has ended."""
    gone = Change(b"2", None, CHANGED, Position(0, 6), Position(0, 5), "sow_delete", 0)
    load = Load(newest={b"1": CHANGE, b"2": gone})
    subscription = Subscription(compile_filter("/hours = 4"), oof=True)
    messages = load.messages(subscription, UNKNOWN, {b"1": BODY, b"2": BODY, b"3": BODY})
    held, now = orjson.loads(BODY), orjson.loads(CHANGED)
    assert written("slow", *messages, options="oof") == [("oof", held)] * 3
    assert written("orders", *messages, options="oof") == [("oof", held), ("oof", now), ("oof", now)]


def test_a_full_queue_lets_the_service_stop() -> None:
    """A Kafka that is away frees no space: an output that waits for space ends when the service stops."""
    stop = threading.Event()

    class FullProducer:
        def produce(self, *_: Any, **__: Any) -> None:
            raise BufferError

        def poll(self, seconds: float) -> None:
            assert not stop.is_set(), "it waits no longer"
            stop.set()

    definition = FanoutDefinition(name="f", topic="orders")
    with patch("sowline.kafka.exact_output.exact_producer", lambda *_, **__: FullProducer()):
        output = FanoutOutput({}, definition, TOPICS.named("orders"), stop=stop)
    with pytest.raises(StartAgain):
        output.send(0, CHANGE, Delivery(PUBLISH, BODY))


class StuckProducer(FakeProducer):
    """A producer whose messages Kafka never gets."""

    def flush(self, seconds: float) -> int:
        """Return that one is left."""
        return 1


def test_an_output_without_a_leader_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait ends with Kafka's error for it: what other partitions write must not wait, too."""
    clock = itertools.count(1000.0, 3.0)
    leaderless = {("fanout.f", 1): (2,)}
    cluster = SimpleNamespace(
        ask=lambda topics: SimpleNamespace(
            is_answered=True, gone=frozenset, leaderless=lambda gone: leaderless
        )
    )
    monkeypatch.setattr("sowline.kafka.leader_watch.Cluster", lambda _: cluster)
    monkeypatch.setattr("sowline.kafka.leader_watch.time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr("sowline.kafka.exact_output.exact_producer", lambda *_, **__: StuckProducer())
    output = FanoutOutput(
        {}, FanoutDefinition.model_validate({"name": "f", "topic": "orders"}), TOPICS.named("orders")
    )
    output.send(1, CHANGE, Delivery(PUBLISH, CHANGED, previous=BODY))
    with pytest.raises(KafkaException, match=r"fanout\.f \[1\] has no leader"):
        output.flush(lambda: False)
