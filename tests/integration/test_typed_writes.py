"""Writing topics whose message type has a schema: through every API, and fanouts read by a plain consumer."""

import json
import uuid
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from sowline import Client, SowlineError
from sowline.wire.media_types import NATIVE
from tests.docs.pages import blocks_of
from tests.integration.services import System, headers_of, http_text, post_commands, system
from tests.integration.wire import wire
from tests.typed_orders import avro_message, avro_order, typed
from tests.waiting import wait_for

FRAMINGS = {"avro": "confluent", "protobuf": "confluent", "json-schema": "none"}
ORDER: dict[str, Any] = {"id": 1, "day": "2026-11-26", "price": "9.50", "qty": 2}
OF_OTHER_MAKE: dict[str, Any] = {
    "id": 1,
    "day": date(2026, 11, 26),
    "price": Decimal("9.50"),
    "qty": 2,
    "note": None,
}
"""The same as fastavro has it."""


class Served:
    """A system with a topic of each type, and fanouts of the one of Avro."""

    def __init__(self, made: System, prefix: str, url: str) -> None:
        self.system = made
        self.url = url
        self._prefix = prefix
        self._ids = iter(range(1000, 100_000, 1000))

    def topic(self, type: str) -> str:
        """Return the name of the topic of a type."""
        return f"{self._prefix}-{type}"

    def first_id(self) -> int:
        """Return a number of an order; the 1,000 from it on are a test's own."""
        return next(self._ids)

    def client(self) -> Client:
        """Return a new client."""
        return Client(self.url, kafka=self.system.kafka)

    def records(self, type: str, first: int) -> dict[int, dict[str, Any]]:
        """Return the orders of a test by their numbers, without fields that are null or not there."""
        topic = self.topic(type)
        self.system.wait_settled(self.url, topic)
        lines = http_text(f"{self.url}/v1/topics/{topic}/sow", b"").split("\n")[:-1]
        orders = (json.loads(line)["data"] for line in lines)
        return {
            int(order["id"]): {name: value for name, value in order.items() if value is not None}
            | {"id": int(order["id"])}
            for order in orders
            if first <= int(order["id"]) < first + 1000
        }

    def dead(self, type: str) -> list[str]:
        """Return the reasons of a topic's dead letters."""
        return [headers_of(m)["sow.reason"].decode() for m in self.system.read(f"{self.topic(type)}.dead")]


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """All services, without a registry: the definitions have the ids of the schemas."""
    prefix = f"t{uuid.uuid4().hex[:12]}"
    topics = [
        typed(type, f"{prefix}-{type}", framing=framing, partitions=3) for type, framing in FRAMINGS.items()
    ]
    avro = {"topic": f"{prefix}-avro", "as": "avro", "options": "oof"}
    fanouts = [avro | {"name": f"{prefix}-all"}, avro | {"name": f"{prefix}-deltas", "delta": "true"}]
    with system(kafka, tmp_path_factory.mktemp("typed"), topics, fanouts) as made:
        services = [made.service(name).start() for name in ("materializer", "query_service", "fanout")]
        for service in services:
            service.wait_ready()
        yield Served(made, prefix, services[1].url)


@pytest.mark.parametrize("type", FRAMINGS)
def test_the_publisher_serializes(served: Served, type: str) -> None:
    """Records, deltas and deletes are mappings, on a topic of any type."""
    topic, first, dead = served.topic(type), served.first_id(), served.dead(type)
    with served.client() as client:
        for number in range(6):
            client.publish(topic, ORDER | {"id": first + number})
        client.delta_publish(topic, {"id": first, "qty": 3, "note": "late"})
        client.delta_publish(topic, {"id": first + 1, "price": "1.25"})
        client.publish(topic, json.dumps(ORDER | {"id": first + 2, "qty": 7}))
        client.flush()
        assert client.sow_delete(topic, data={"id": first + 3}) == 1
        assert client.sow_delete(topic, filter=f"/id >= {first + 4}") == 2
        with pytest.raises(SowlineError):
            client.publish(topic, {"id": "x", "price": 1})
    assert served.records(type, first) == {
        first: ORDER | {"id": first, "qty": 3, "note": "late"},
        first + 1: ORDER | {"id": first + 1, "price": "1.25"},
        first + 2: ORDER | {"id": first + 2, "qty": 7},
    }
    assert served.dead(type) == dead


def test_the_publisher_takes_messages(served: Served) -> None:
    """As fastavro makes them; they are on the log as they were given. One with an unknown schema is dead."""
    topic, first, dead = served.topic("avro"), served.first_id(), served.dead("avro")
    whole, delta, unknown = (
        avro_message(OF_OTHER_MAKE | {"id": first}),
        avro_message(OF_OTHER_MAKE | {"id": first, "qty": 5, "price": Decimal(0)}),
        avro_message(OF_OTHER_MAKE | {"id": first + 1}, 9),
    )
    with served.client() as client:
        client.publish(topic, whole)
        client.delta_publish(topic, delta, fields=["/id", "/qty"])
        client.publish(topic, unknown)
        client.publish(topic, avro_message(OF_OTHER_MAKE | {"id": first + 2}), wait=True)
        client.delta_publish(topic, delta, fields=["/id", "/price"], wait=True)
        with pytest.raises(SowlineError) as error:
            client.publish(topic, unknown, wait=True)
    assert error.value.reason == "unknown schema"
    assert served.records("avro", first) == {
        first: ORDER | {"id": first, "qty": 5, "price": "0.00"},
        first + 2: ORDER | {"id": first + 2},
    }
    assert served.dead("avro") == [*dead, *["unknown schema"] * 2]
    values = [message.value() for message in served.system.read(topic)]
    assert [values.count(message) for message in (whole, delta, unknown)] == [1, 2, 2]


@pytest.mark.parametrize("type", FRAMINGS)
def test_the_apis_take_json(served: Served, type: str) -> None:
    """WebSocket and HTTP write messages, and wait for their outcomes as on a topic of JSON."""
    topic, first = served.topic(type), served.first_id()
    with wire(served.url) as live:
        live.send("publish", topic=topic, data=ORDER | {"id": first}, ack_type="processed")
        assert live.receive()["outcome"] == "applied"
        live.send("delta_publish", topic=topic, data={"id": first, "qty": 9}, ack_type="processed")
        assert live.receive()["outcome"] == "applied"
        assert live.fail("publish", topic=topic, data={"id": [1]})["reason"] in (
            "bad message",
            "incomplete record",
        )
        assert served.records(type, first) == {first: ORDER | {"id": first, "qty": 9}}
        live.send("sow_delete", topic=topic, data={"id": first}, ack_type="stats")
        assert live.receive()["records_deleted"] == 1
    lines = "\n".join(json.dumps(ORDER | {"id": first + n}) for n in range(3)).encode()
    posts = [
        ("publish", lines, "application/x-ndjson"),
        ("delta_publish", json.dumps({"id": first, "note": "n"}).encode(), ""),
        ("sow_delete", json.dumps({"id": first + 1}).encode(), ""),
    ]
    answers = [
        post_commands(served.url, topic, command, body, type, ack="processed")
        for command, body, type in posts
    ]
    assert [answer["status"] for answer in answers] == [200] * 3
    assert answers[2]["records_deleted"] == 1
    assert served.records(type, first) == {
        first: ORDER | {"id": first, "note": "n"},
        first + 2: ORDER | {"id": first + 2},
    }


def test_http_takes_messages(served: Served) -> None:
    """Under a content type of their own; a delta with its fields as a parameter."""
    topic, first = served.topic("avro"), served.first_id()
    message = avro_message(OF_OTHER_MAKE | {"id": first})
    changed = avro_message(OF_OTHER_MAKE | {"id": first, "qty": 8})

    def post(command: str, body: bytes, **given: str) -> dict[str, Any]:
        return post_commands(served.url, topic, command, body, NATIVE, ack="processed", **given)

    assert post("publish", message)["outcomes"] == {"applied": 1}
    assert post("delta_publish", changed, fields="/id,/qty")["outcomes"] == {"applied": 1}
    assert served.records("avro", first) == {first: ORDER | {"id": first, "qty": 8}}
    assert post("publish", b"{}")["reason"] == "bad message"
    assert post("sow_delete", message)["records_deleted"] == 1


def test_a_fanout_is_read_by_a_plain_consumer(served: Served) -> None:
    """With fastavro: whole records, an oof with what a record was, and deltas by the fields that they name."""
    topic, first = served.topic("avro"), served.first_id()
    with served.client() as client:
        client.publish(topic, ORDER | {"id": first})
        client.delta_publish(topic, {"id": first, "qty": 3})
        client.publish(topic, ORDER | {"id": first + 1})
        client.flush()
        client.sow_delete(topic, data={"id": first})
    plain, deltas = (fanout.output for fanout in served.system.topics.fanouts)

    def written(output: str) -> list[tuple[dict[str, Any], dict[str, bytes], dict[str, Any]]]:
        found = [
            (json.loads(headers_of(message)["sow"]), headers_of(message), avro_order(message.value() or b""))
            for message in served.system.read(output)
        ]
        own = [one for one in found if first <= one[2]["id"] < first + 1000]
        return own if len(own) == 4 else []

    of_first = [
        (about["command"], order)
        for about, _, order in wait_for(lambda: written(plain), "the fanout to write them")
        if order["id"] == first
    ]
    order = OF_OTHER_MAKE | {"id": first}
    assert of_first == [
        ("publish", order),
        ("publish", order | {"qty": 3}),
        ("oof", order | {"qty": 3}),
    ]
    held: dict[int, dict[str, Any]] = {}
    for about, headers, value in wait_for(lambda: written(deltas), "the fanout to write deltas"):
        if about["command"] == "oof":
            assert held.pop(value["id"]) == value
        elif about.get("delta"):
            names = [path[1:] for path in headers["sow.fields"].decode().split(",")]
            assert sorted(names) == ["id", "qty"]
            held[value["id"]] |= {name: value[name] for name in names}
        else:
            held[value["id"]] = value
    assert held == {first + 1: OF_OTHER_MAKE | {"id": first + 1}}


def test_the_example_of_client_md(served: Served) -> None:
    """Four commands, on a topic of Avro: two with JSON, and two with messages."""
    (block,) = (one for one in blocks_of("docs/client.md") if "test_typed_writes" in one.elsewhere)
    topic, first = served.topic("avro"), served.first_id()
    given = avro_message(OF_OTHER_MAKE | {"id": first + 1})
    changed = avro_message(OF_OTHER_MAKE | {"id": first + 1, "qty": 6})
    text = block.text.replace('"orders"', repr(topic)).replace('"id": 1', f'"id": {first}')
    with served.client() as client:
        exec(text, {"client": client, "message": given, "changed": changed})
        client.flush()
    order = {"id": first, "day": "2026-11-26", "price": "9.75", "qty": 0}
    changed_order = ORDER | {"id": first + 1, "qty": 6}
    assert served.records("avro", first) == {first: order, first + 1: changed_order}


def test_topics_are_described_with_their_schemas(served: Served) -> None:
    """As the protocol description has it; a publisher needs no more."""
    topics = json.loads(http_text(f"{served.url}/v1/topics"))["topics"]
    described = {topic["message_type"]: (topic["framing"], topic["reader_schema"]["id"]) for topic in topics}
    assert described == {type: (framing, 7) for type, framing in FRAMINGS.items()}
