"""Messages of sources: read through the schemas that a registry has."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sowline.codecs.codec import codec_of
from sowline.codecs.framing import frame
from sowline.codecs.schema import AVRO, NVFIX, Schema
from sowline.spark.source_messages import ReadRow, SourceMessages
from tests.spark.registry_server import RegistryServer, registry_server


def schema(*fields: dict[str, Any]) -> Schema:
    """Return an Avro schema of records."""
    return Schema(AVRO, json.dumps({"type": "record", "name": "Order", "fields": list(fields)}))


ID = {"name": "id", "type": "string"}
OLD = schema(ID)
NEW = schema(ID, {"name": "qty", "type": "int", "default": 1})


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    """A registry with an earlier schema, and two that can't be used."""
    with registry_server() as server:
        server.add(3, "orders", "avro", OLD.text)
        server.add(4, "others", "protobuf", 'syntax = "proto3"; message Order { string id = 1; }')
        server.add(5, "strange", "XML", "<order/>")
        yield server


def message(schema_id: int) -> bytes:
    """Return a message under the earlier schema, which says that it has the schema of an id."""
    return frame("confluent", AVRO, schema_id, codec_of(OLD).write(b'{"id":"a"}'))


def test_read(registry: RegistryServer) -> None:
    """A schema is asked for once, and the reader schema adds its defaults."""
    messages = SourceMessages(NEW, "confluent", registry.url)
    assert [messages.read(message(3)) for _ in range(3)] == [ReadRow('{"id":"a","qty":1}')] * 3
    assert registry.asked == ["/schemas/ids/3", "/schemas/ids/3/versions"]
    assert messages.read(None) == ReadRow()


def test_without_frame() -> None:
    """Messages that name no schema are read by the reader schema, without a registry."""
    messages = SourceMessages(OLD, "none", "")
    assert messages.read(bytearray(codec_of(OLD).write(b'{"id":"a"}'))) == ReadRow('{"id":"a"}')


def test_without_schemas() -> None:
    """The options of a message type stand in for a reader schema."""
    messages = SourceMessages(Schema(NVFIX, '{"separator":"|"}'), "none", "")
    assert messages.read(b"Symbol=IBM|Qty=5|") == ReadRow('{"Symbol":"IBM","Qty":"5"}')
    refused = messages.read(b"Symbol|")
    assert (refused.body, refused.reason) == (None, "bad message")


@pytest.mark.parametrize(
    ("value", "reason", "sentence"),
    [
        (b'{"id":"a"}', "bad message", "in the confluent format"),
        (message(3) + b"more", "bad message", "schema 3 of orders: "),
        (message(9), "unknown schema", "expected a schema that the registry has"),
        (message(4), "incompatible schema", "got one of protobuf"),
        (message(5), "incompatible schema", "got XML"),
    ],
)
def test_refusals(registry: RegistryServer, value: bytes, reason: str, sentence: str) -> None:
    """What can't be read has a reason and a sentence."""
    read = SourceMessages(NEW, "confluent", registry.url).read(value)
    assert (read.body, read.reason) == (None, reason)
    assert sentence in (read.message or "")


def test_a_registry_that_is_away(registry: RegistryServer) -> None:
    """It is asked again: no message is refused because of it."""
    registry.away = 2
    assert SourceMessages(OLD, "confluent", registry.url).read(message(3)) == ReadRow('{"id":"a"}')
