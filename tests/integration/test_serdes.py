"""Typed topics and the serializers of others: what those write is applied, and what Sowline writes they read."""

import json
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from sowline import Client, SowlineError
from sowline.codecs.framing import read_frame
from sowline.codecs.schema import MessagePayload, Schema
from sowline.registry.client import Registry
from tests.integration.producers.programs import SOURCES
from tests.integration.producers.serdes import SERDE_PROGRAMS
from tests.integration.services import Service, System, headers_of, system

PAGE = Path(__file__).parents[2] / "docs" / "producers.md"
PUBLISHED = "published"
READERS: dict[str, str] = {
    "avro": json.dumps(
        {
            "type": "record",
            "name": "Order",
            "fields": [
                {"name": "id", "type": "long"},
                {"name": "status", "type": "string"},
                {"name": "qty", "type": "int"},
                {"name": "note", "type": "string", "default": ""},
            ],
        }
    ),
    "json-schema": json.dumps(
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": ["id"]}
    ),
    "protobuf": (SOURCES / "order.proto").read_text(),
}
"""The reader schemas of the topics. That of Avro has a field more than what the programs write."""

ORDERS: list[dict[str, Any]] = [
    {"id": number, "status": "öpen" if number % 2 else "shut", "qty": number * 7} for number in range(1, 41)
]


class SerdeTopics:
    """A system with a topic for each program, and one that Sowline's publisher writes."""

    def __init__(self, made: System, names: dict[str, str], query: Service, registry: str) -> None:
        self.system = made
        self.names = names
        self.url = query.url
        self.registry = registry

    def records(self, kind: str, options: str = "") -> list[Any]:
        """Return the records of a topic in the order of their ids, once everything is applied."""
        self.system.wait_settled(self.url, self.names[kind])
        with Client(self.url) as client:
            found = client.sow(self.names[kind], order_by="/id", options=options)
            return [message.data for message in found if message.command == "sow"]


@pytest.fixture(scope="module")
def topics(kafka: str, registry: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SerdeTopics]:
    """One materializer with the registry, and a query service."""
    names = {kind: f"t{uuid.uuid4().hex[:12]}-{kind}" for kind in (*SERDE_PROGRAMS, PUBLISHED)}
    given = [
        defined(names[kind], program.type, framing=program.framing)
        for kind, program in SERDE_PROGRAMS.items()
    ]
    with closing(Registry(registry)) as client:
        number = client.register(f"{names[PUBLISHED]}-value", Schema("avro", READERS["avro"]))
    given.append(defined(names[PUBLISHED], "avro", id=number))
    with system(kafka, tmp_path_factory.mktemp("serdes"), given) as made:
        materializer = made.service("materializer", registry=registry).start()
        query = made.service("query_service").start()
        for service in (materializer, query):
            service.wait_ready()
        yield SerdeTopics(made, names, query, registry)


def defined(name: str, type: str, id: int | None = None, framing: str = "confluent") -> dict[str, Any]:
    """Return the definition of a topic of orders; `id` is that of its reader schema in the registry."""
    reader = {"text": READERS[type]} | ({} if id is None else {"id": id})
    about = {"message_type": type, "framing": framing, "reader_schema": reader}
    return {"name": name, "key": ["/id"], "partitions": 2, **about}


def line(order: dict[str, Any], *headers: str) -> str:
    """Return an order as the programs read it."""
    return "\t".join([str(order["id"]), json.dumps(order, ensure_ascii=False), *headers])


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.needs("javac") if program.source.endswith(".java") else ())
        for kind, program in SERDE_PROGRAMS.items()
    ],
)
def test_a_serializer_of_others(topics: SerdeTopics, kind: str, tmp_path: Path) -> None:
    """It registers its schema, and what it writes is applied: orders, a delta by its fields, and a delete."""
    program, name = SERDE_PROGRAMS[kind], topics.names[kind]
    lines = [line(order) for order in ORDERS]
    lines.append(line({"id": 1, "status": "", "qty": 8}, "sow.command=delta_publish", "sow.fields=/id,/qty"))
    lines.append("2\t")
    program.write(topics.system.kafka, name, topics.registry.partition("/apis/")[0], lines, tmp_path)
    more = {"note": ""} if program.type == "avro" else {}
    changed = [ORDERS[0] | {"qty": 8}, *ORDERS[2:]]
    topics.system.wait_settled(topics.url, name)
    assert [headers_of(message) for message in topics.system.read(f"{name}.dead")] == []
    assert topics.records(kind) == [order | more for order in changed]
    entries = [json.loads(message.value() or b"") for message in topics.system.read(f"{name}.schemas")]
    # Other topics may have the same schema: the registry names one of its subjects.
    assert any(str(entry.get("subject")).endswith("-value") for entry in entries)


def test_a_deserializer_of_others(topics: SerdeTopics) -> None:
    """It reads what the publisher wrote to the log, and what a query sends in the type of the topic."""
    name = topics.names[PUBLISHED]
    orders = [order | {"note": f"é{order['id']}"} for order in ORDERS]
    with Client(topics.url, kafka=topics.system.kafka) as client:
        for order in orders:
            client.publish(name, order)
        client.delta_publish(name, {"id": 1, "qty": 8})
    native = topics.records(PUBLISHED, options="format=native")
    written = topics.system.read(name)
    [delta] = [message.value() for message in written if "sow.fields" in headers_of(message)]
    whole = [message.value() for message in written if "sow.fields" not in headers_of(message)]
    with SchemaRegistryClient({"url": topics.registry}) as client_of_others:
        deserializer = AvroDeserializer(client_of_others)
        context = SerializationContext(name, MessageField.VALUE)
        read = [deserializer(message, context) for message in (*native, delta, *whole)]
    assert read[: len(orders)] == [orders[0] | {"qty": 8}, *orders[1:]]
    assert read[len(orders)]["qty"] == 8
    assert sorted(read[len(orders) + 1 :], key=lambda order: order["id"]) == orders


def test_protobuf_of_apicurio() -> None:
    """Messages that its serializer wrote: those in its own framing are read, those of its Confluent mode are not."""
    message = MessagePayload(b"\x08\x07", None, "Order")
    assert read_frame("apicurio", "protobuf", bytes.fromhex("000000000000000001070a054f726465720807")) == (
        1,
        message,
    )
    with pytest.raises(SowlineError, match="message indexes"):
        read_frame("confluent", "protobuf", bytes.fromhex("0000000001070a054f726465720807"))


@pytest.mark.parametrize("source", ["SerdeOrders.java", "order.proto", "serde_orders.py"])
def test_the_page_shows_the_serializers(source: str) -> None:
    """What one copies from docs/producers.md is what runs here."""
    assert f"\n{(SOURCES / source).read_text()}```\n" in PAGE.read_text()
