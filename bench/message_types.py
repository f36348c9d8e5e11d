"""Applying messages of each type to records in memory, as ratios to JSON, and next to the libraries' bare decoding.

Every message updates one of 10,000 records of ten fields. The pure core applies them without Kafka and disk, in one
thread: what differs between the types is how their messages become JSON. FIX and NVFIX have no library: they are
compared with a split at the separators.
"""

import io
import json
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple
from xml.etree.ElementTree import fromstring

import bson
import fastavro
import jsonschema_rs
import msgspec
import orjson

from bench.table import table
from sowline.codecs.codec import codec_of
from sowline.codecs.framing import frame
from sowline.codecs.protobuf.compiled import compile_schema
from sowline.codecs.protobuf.descriptors import message_class
from sowline.codecs.resolutions import Resolution, Resolutions, entry_value, id_key, reader_key
from sowline.codecs.schema import (
    AVRO,
    BSON,
    COMPOSITE_LOCAL,
    FIX,
    JSON_SCHEMA,
    MSGPACK,
    NVFIX,
    PROTOBUF,
    XML,
    Schema,
)
from sowline.codecs.typed_bodies import TypedBodies
from sowline.commands.command import LogRecord
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline_materializer.core.applier import Applier
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.store.overlay import Overlay
from tests.memory_store import MemoryStore

KEYS: Final = 10_000
RECORDS_MAX: Final = 200_000
BATCH_RECORDS: Final = 1000
ID: Final = 7
"""The schema id that the messages name."""

_AVRO: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "symbol", "type": "string"},
        {"name": "side", "type": "string"},
        {"name": "qty", "type": "int"},
        {"name": "price", "type": "double"},
        {"name": "filled", "type": "int"},
        {"name": "open", "type": "boolean"},
        {"name": "updated", "type": "long"},
        {"name": "note", "type": "string"},
    ],
}
_PROTOBUF: Final = (
    'syntax = "proto3"; message Order { int64 id = 1; string customer = 2; string symbol = 3; string side = 4;'
    " int32 qty = 5; double price = 6; int32 filled = 7; bool open = 8; int64 updated = 9; string note = 10; }"
)
_JSON_SCHEMA: Final = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["id", "qty"],
    "properties": {
        "id": {"type": "integer"},
        "customer": {"type": "string"},
        "symbol": {"type": "string"},
        "side": {"enum": ["buy", "sell"]},
        "qty": {"type": "integer", "minimum": 0},
        "price": {"type": "number"},
        "filled": {"type": "integer"},
        "open": {"type": "boolean"},
        "updated": {"type": "integer"},
        "note": {"type": "string"},
    },
}
SCHEMAS: Final = {
    "Avro": Schema(AVRO, json.dumps(_AVRO)),
    "Protobuf": Schema(PROTOBUF, _PROTOBUF),
    "JSON Schema": Schema(JSON_SCHEMA, json.dumps(_JSON_SCHEMA)),
}

Decode = Callable[[bytes], object]
Order = dict[str, Any]

_TAGS: Final = {
    "id": "11",
    "customer": "1",
    "symbol": "55",
    "side": "54",
    "qty": "38",
    "price": "44",
    "filled": "14",
    "open": "39",
    "updated": "60",
    "note": "58",
}


def _as_fix(order: Order) -> Order:
    return {"8": "FIX.4.4", "35": "D"} | {_TAGS[name]: str(value) for name, value in order.items()}


def _as_texts(order: Order) -> Order:
    return {name: str(value) for name, value in order.items()}


class Format(NamedTuple):
    """A message type without schemas: the key of its records, their JSON, and what its library does."""

    key: str
    record: Callable[[Order], Order]
    decode: Decode
    options: dict[str, Any] | None = None


FORMATS: Final = {
    FIX: Format("/11", _as_fix, lambda message: [field.split(b"=", 1) for field in message.split(b"\x01")]),
    NVFIX: Format(
        "/id", _as_texts, lambda message: [field.split(b"=", 1) for field in message.split(b"\x01")]
    ),
    XML: Format("/Order/id", lambda order: {"Order": _as_texts(order)}, fromstring),
    MSGPACK: Format("/id", dict, msgspec.msgpack.decode),
    BSON: Format("/id", dict, bson.decode),
    COMPOSITE_LOCAL: Format(
        "/0/id", lambda order: {"0": order}, len, {"parts": [{"type": "json"}, {"type": "binary"}]}
    ),
}


class Load(NamedTuple):
    """The messages of a type, their payloads without frames, and what applies and what only decodes them."""

    messages: list[bytes]
    payloads: list[bytes]
    definition: TopicDefinition
    bodies: TypedBodies | None
    decode: Decode


def run(records: int, runs: int) -> str:
    """Measure all types in turn, and return a table."""
    orders = _orders(min(records, RECORDS_MAX))
    loads = {"JSON": _json_load(orders)} | {name: _load(orders, name) for name in SCHEMAS}
    loads |= {name: _format_load(orders, name) for name in FORMATS}
    applying: dict[str, list[float]] = {name: [] for name in loads}
    decoding: dict[str, list[float]] = {name: [] for name in loads}
    for _ in range(runs):
        for name, load in loads.items():
            applying[name].append(_micros(len(orders), partial(_apply, load)))
            decoding[name].append(_micros(len(orders), partial(_decode, load)))
            print(f"{name}: {applying[name][-1]:.1f} µs to apply, {decoding[name][-1]:.2f} bare", flush=True)
    base = statistics.median(applying["JSON"])
    rows = []
    for name in loads:
        applied, decoded = statistics.median(applying[name]), statistics.median(decoding[name])
        size = sum(map(len, loads[name].messages)) / len(orders)
        rows.append((name, f"{size:.0f}", f"{applied:.1f}", f"{applied / base:.2f}", f"{decoded:.2f}"))
    return table(("messages", "bytes", "µs per record", "ratio to JSON", "library alone, µs"), rows)


def _orders(count: int) -> list[bytes]:
    chance = random.Random(7)
    return [
        orjson.dumps(
            {
                "id": chance.randrange(KEYS),
                "customer": f"customer-{chance.randrange(1000)}",
                "symbol": f"SYM{chance.randrange(500)}",
                "side": chance.choice(("buy", "sell")),
                "qty": chance.randrange(10_000),
                "price": chance.randrange(1_000_000) / 100,
                "filled": chance.randrange(10_000),
                "open": chance.random() < 0.5,
                "updated": 1_795_000_000_000 + number,
                "note": "as agreed on the phone",
            }
        )
        for number in range(count)
    ]


def _json_load(orders: list[bytes]) -> Load:
    definition = define_topic(name="orders", key="/id")
    return Load(orders, orders, definition, None, orjson.loads)


def _load(orders: list[bytes], name: str) -> Load:
    schema = SCHEMAS[name]
    definition = define_topic(
        name="orders", key="/id", message_type=schema.type, reader_schema={"text": schema.text, "id": ID}
    )
    resolutions = Resolutions()
    resolutions.add(reader_key(schema.digest), entry_value(Resolution(schema)))
    resolutions.add(id_key(ID), entry_value(Resolution(schema)))
    payloads = [codec_of(schema).write(order) for order in orders]
    messages = [frame("confluent", schema.type, ID, payload) for payload in payloads]
    return Load(
        messages, payloads, definition, TypedBodies(schema.type, "confluent", resolutions), _bare(schema)
    )


def _format_load(orders: list[bytes], name: str) -> Load:
    given = FORMATS[name]
    definition = define_topic(name="orders", key=given.key, message_type=name, message_format=given.options)
    reader, codec = definition.reader, definition.codec
    assert reader is not None
    assert codec is not None, "it is no JSON"
    resolutions = Resolutions()
    resolutions.add(reader_key(reader.digest), entry_value(Resolution(reader)))
    messages = [codec.write(orjson.dumps(given.record(orjson.loads(order)))) for order in orders]
    return Load(messages, messages, definition, TypedBodies(reader.type, "none", resolutions), given.decode)


def _bare(schema: Schema) -> Decode:
    """Return what the library alone does with a payload."""
    if schema.type == AVRO:
        parsed = fastavro.parse_schema(json.loads(schema.text))
        return lambda payload: fastavro.schemaless_reader(io.BytesIO(payload), parsed, None)
    if schema.type == PROTOBUF:
        message = message_class(compile_schema(schema).message(""))
        decode: Decode = message.FromString
        return decode
    validator = jsonschema_rs.validator_for(json.loads(schema.text))
    return lambda payload: validator.is_valid(orjson.loads(payload))


def _apply(load: Load) -> None:
    store, checkpoint = MemoryStore(), Checkpoint(limits=load.definition.limits, log_id="log")
    for start in range(0, len(load.messages), BATCH_RECORDS):
        values = load.messages[start : start + BATCH_RECORDS]
        batch = [LogRecord(start + number, 1000, None, value) for number, value in enumerate(values)]
        view = Overlay(store)
        step = Applier(load.definition, 0, checkpoint, view, bodies=load.bodies).apply(batch)
        assert len(step.changes) == len(batch), "no message is refused"
        written = view.written(store.checksum())
        store.commit(written.entries, written.checksum, b"", written.expiries)
        checkpoint = step.checkpoint


def _decode(load: Load) -> None:
    for payload in load.payloads:
        load.decode(payload)


def _micros(count: int, task: Callable[[], None]) -> float:
    began = time.process_time()
    task()
    return (time.process_time() - began) / count * 1e6
