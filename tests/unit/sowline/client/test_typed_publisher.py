"""The publisher on topics whose message type has a schema: JSON is serialized, bytes are written as they are."""

from datetime import date
from decimal import Decimal
from typing import Any

import orjson
import pytest

from sowline.client.publisher import Publisher
from sowline.client.writing import topics_of
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.config.topics import Topics
from sowline.errors import SowlineError
from sowline.model.key import partition_of
from sowline.serving.authorization.entitlements import EVERYTHING
from sowline.serving.http.topics import described_definition
from tests.typed_orders import avro_message, avro_order, typed_topic
from tests.unit.sowline.client.test_publisher import FakeProducer

GIVEN = {"id": 1, "day": "2026-11-26", "price": "9.5", "qty": 2}
ORDER = {"id": 1, "day": date(2026, 11, 26), "price": Decimal("9.50"), "qty": 2, "note": None}


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> FakeProducer:
    """The producer that a publisher gets."""
    producer = FakeProducer()
    monkeypatch.setattr("sowline.client.publisher.exact_producer", lambda *_, **__: producer)
    return producer


def of(topic: TopicDefinition) -> Publisher:
    """Return a publisher with what a service reports about a topic."""
    described = orjson.loads(orjson.dumps(described_definition(topic, EVERYTHING)))
    return Publisher({}, topics_of({"topics": [described]}), publisher="p")


@pytest.mark.parametrize("data", [GIVEN, orjson.dumps(GIVEN).decode()])
def test_json_is_serialized(producer: FakeProducer, data: Any) -> None:
    """A mapping or a text becomes a message of the topic's type, under the key that the owner makes."""
    of(typed_topic("avro", partitions=4)).publish("orders", data, correlation="c")
    [(log, message, key, command)] = producer.produced
    assert (log, key, command.command, command.correlation) == ("orders", b"1", "publish", "c")
    assert avro_order(message) == ORDER


def test_a_delta_names_what_it_changes(producer: FakeProducer) -> None:
    """In the header sow.fields, as its message has all fields."""
    publisher = of(typed_topic("avro"))
    publisher.delta_publish("orders", {"id": 1, "qty": 3})
    publisher.delta_publish("orders", avro_message(ORDER), fields=["/id", "/note"])
    [(_, message, key, command), (_, given, same_key, own)] = producer.produced
    assert (avro_order(message)["qty"], key) == (3, b"1")
    assert set(command.fields or ()) == {"/id", "/qty"}
    assert (given, same_key, own.fields) == (avro_message(ORDER), b"1", ("/id", "/note"))


def test_a_delete_names_its_record(producer: FakeProducer) -> None:
    """By the Kafka key; a message may also do it."""
    publisher = of(typed_topic("avro"))
    publisher.sow_delete("orders", data={"id": 1})
    publisher.sow_delete("orders", data=avro_message(ORDER))
    publisher.sow_delete("orders", filter="1=1")
    assert [(value, key) for _, value, key, _ in producer.produced] == [
        (None, b"1"),
        (avro_message(ORDER), b"1"),
        (None, None),
    ]
    assert {command.command for *_, command in producer.produced} == {"sow_delete"}


def test_bytes_go_as_they_are(producer: FakeProducer) -> None:
    """Under the key that is in them; without one if their schema is not the pinned one, in one partition."""
    publisher = of(typed_topic("avro", partitions=7))
    known, unknown = avro_message(ORDER), avro_message(ORDER, 9)
    publisher.publish("orders", known)
    publisher.publish("orders", unknown)
    assert [(value, key) for _, value, key, _ in producer.produced] == [(known, b"1"), (unknown, None)]
    assert producer.partitions == [-1, partition_of("p", 7)]


def test_without_frames(producer: FakeProducer) -> None:
    """With framing none a message is the plain encoding."""
    publisher = of(typed_topic("avro", framing="none"))
    publisher.publish("orders", GIVEN)
    publisher.publish("orders", avro_message(ORDER, None))
    assert [(value, key) for _, value, key, _ in producer.produced] == [(avro_message(ORDER, None), b"1")] * 2


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b'{"id":1}', "bad message"), ({"id": 1}, "bad message"), (GIVEN | {"id": "x"}, "bad message")],
)
def test_what_the_schema_does_not_have_is_not_written(producer: FakeProducer, data: Any, reason: str) -> None:
    """JSON as bytes is not a message of the type, and JSON has the fields of the schema."""
    with pytest.raises(SowlineError) as error:
        of(typed_topic("avro")).publish("orders", data)
    assert error.value.reason == reason
    assert producer.produced == []


def test_json_topics_take_no_paths(producer: FakeProducer) -> None:
    """Their deltas show what they change."""
    publisher = Publisher({}, Topics(topics=(define_topic(name="orders", key=("/id",)).declared,)))
    with pytest.raises(SowlineError, match="got /id"):
        publisher.delta_publish("orders", b'{"id":1}', fields=["/id"])
    assert producer.produced == []


def test_a_topic_with_a_hidden_schema_is_left_out() -> None:
    """Its user may not write it; the other topics are there."""
    typed = described_definition(typed_topic("avro"), EVERYTHING) | {"reader_schema": None}
    plain = described_definition(define_topic(name="ticks", key=("/id",)), EVERYTHING)
    assert [topic.name for topic in topics_of({"topics": [typed, plain]}).topics] == ["ticks"]
