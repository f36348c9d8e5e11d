"""Schemas from a registry, which here is a small server that speaks the one call."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sowline.config.declared_topic import MessageType
from sowline.errors import SowlineError
from sowline.spark.registry import schema_from_registry

AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "doc": "An order as the shop sends it.",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "qty", "type": ["null", "int"], "default": None},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}}},
        {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}  # fmt: skip
JSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "additionalProperties": False,
    "required": ["id"],
    "properties": {
        "id": {"type": "string"},
        "qty": {"oneOf": [{"type": "null", "title": "Not included"}, {"type": "integer"}]},
    },
}
PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  string id = 1;
  optional uint64 qty = 2;
  google.protobuf.Timestamp placed = 3;
}
"""
SUBJECTS = {
    "orders-value": {"subject": "orders-value", "version": 3, "id": 12, "schema": json.dumps(AVRO)},
    "shop/orders": {"subject": "x", "version": 1, "id": 13, "schemaType": "JSON", "schema": json.dumps(JSON)},
    "proto": {
        "subject": "proto",
        "version": 1,
        "id": 14,
        "schemaType": "PROTOBUF",
        "schema": PROTO,
    },
    "text": {"subject": "text", "version": 1, "id": 15, "schema": '"string"'},
}
PATHS = {f"/subjects/{name.replace('/', '%2F')}/versions/latest": about for name, about in SUBJECTS.items()}

ANNA = f"Basic {base64.b64encode(b'anna:secret').decode()}"


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        authorization = self.headers["Authorization"]
        found = PATHS.get(self.path) if authorization in (None, ANNA) else None
        missing = {"error_code": 40401, "message": "Subject not found."}
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.end_headers()
        self.wfile.write(json.dumps(found or missing).encode())

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    """The URL of a registry with some subjects."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_avro(registry: str) -> None:
    """A schema without a type is Avro."""
    found = schema_from_registry(registry, "orders-value")
    assert found.simpleString() == "struct<id:string,qty:int,lines:array<struct<sku:string>>,placed:bigint>"


def test_json(registry: str) -> None:
    """A JSON Schema says so; the subject's name is quoted, and a slash at the URL's end does no harm."""
    found = schema_from_registry(f"{registry}/", "shop/orders")
    assert found.simpleString() == "struct<id:string,qty:bigint>"


def test_user(registry: str) -> None:
    """A user and password in the URL are sent."""
    assert schema_from_registry(registry.replace("//", "//anna:secret@"), "shop/orders").names == [
        "id",
        "qty",
    ]
    with pytest.raises(SowlineError, match="404"):
        schema_from_registry(registry.replace("//", "//anna:other@"), "shop/orders")


@pytest.mark.parametrize(
    ("subject", "message_type", "expected"),
    [
        (
            "orders-value",
            "avro",
            "struct<id:string,qty:int,lines:array<struct<sku:string>>,placed:timestamp>",
        ),
        ("proto", "protobuf", "struct<id:string,qty:decimal(20,0),placed:timestamp>"),
    ],
)
def test_canonical(registry: str, subject: str, message_type: MessageType, expected: str) -> None:
    """Of a topic with a message type, the types are those of its canonical JSON."""
    found = schema_from_registry(registry, subject, message_type=message_type)
    assert found.simpleString() == expected


def test_another_message_type(registry: str) -> None:
    """The schema must be of the topic's message type."""
    with pytest.raises(SowlineError, match="expected a schema of avro for proto, got one of protobuf") as bad:
        schema_from_registry(registry, "proto", message_type="avro")
    assert bad.value.reason == "bad configuration"


@pytest.mark.parametrize(
    ("subject", "reason", "message"),
    [
        ("other", "bad configuration", "answered 404: .*Subject not found"),
        ("proto", "not supported", "got PROTOBUF"),
        ("text", "not supported", "to be of objects, got string"),
    ],
)
def test_refusals(registry: str, subject: str, reason: str, message: str) -> None:
    """A subject that is not there, or of which no frame can be made, is named."""
    with pytest.raises(SowlineError, match=message) as error:
        schema_from_registry(registry, subject)
    assert error.value.reason == reason
    assert subject in error.value.message


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "registry", "http://[::1"])
def test_no_registry(url: str) -> None:
    """Where nobody answers, or the URL is none, the error says so."""
    with pytest.raises(SowlineError, match="a schema registry to answer") as error:
        schema_from_registry(url, "orders-value")
    assert error.value.reason == "bad configuration"
