"""Orders in each message type with schemas: their schemas, a topic of them, and an Avro writer of other make."""

import io
import json
from typing import Any, Final

import fastavro

from sowline.config.topic_definition import TopicDefinition, define_topic

AVRO_SCHEMA: Final = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {
                "name": "price",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            },
            {"name": "qty", "type": "int", "default": 0},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)
PROTOBUF_SCHEMA: Final = """
syntax = "proto3";
package shop;
message Line {
  string sku = 1;
}
message Order {
  int64 id = 1;
  string day = 2;
  string price = 3;
  int32 qty = 4;
  optional string note = 5;
}
"""
JSON_SCHEMA: Final = json.dumps(
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Order",
        "type": "object",
        "required": ["id", "price"],
        "properties": {
            "id": {"type": "integer"},
            "day": {"type": "string"},
            "price": {"type": "string"},
            "qty": {"type": "integer"},
            "note": {"type": ["string", "null"]},
        },
    }
)
SCHEMAS: Final = {"avro": AVRO_SCHEMA, "protobuf": PROTOBUF_SCHEMA, "json-schema": JSON_SCHEMA}
SCHEMA_ID: Final = 7


def typed(type: str, name: str = "orders", **given: Any) -> dict[str, Any]:
    """Return the definition of a topic of orders in a message type."""
    pinned = {"text": SCHEMAS[type], "id": SCHEMA_ID, "subject": f"{name}-value"}
    if type == "protobuf":
        pinned["message"] = "shop.Order"
    return {"name": name, "key": ["/id"], "message_type": type, "reader_schema": pinned, **given}


def typed_topic(type: str, name: str = "orders", **given: Any) -> TopicDefinition:
    """Return a topic of orders in a message type."""
    return define_topic(**typed(type, name, **given))


def avro_message(order: dict[str, Any], schema_id: int | None = SCHEMA_ID) -> bytes:
    """Return an order as fastavro writes it, in Confluent's format unless it has no schema id."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(AVRO_SCHEMA)), order)
    return (b"" if schema_id is None else b"\0" + schema_id.to_bytes(4, "big")) + out.getvalue()


def avro_order(message: bytes, schema_id: int | None = SCHEMA_ID) -> dict[str, Any]:
    """Return the order that fastavro reads in a message; fails unless its frame is of this schema."""
    head = b"" if schema_id is None else b"\0" + schema_id.to_bytes(4, "big")
    assert message.startswith(head)
    schema = fastavro.parse_schema(json.loads(AVRO_SCHEMA))
    order = fastavro.schemaless_reader(io.BytesIO(message[len(head) :]), schema, None)
    assert isinstance(order, dict)
    return order
