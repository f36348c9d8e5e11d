"""The bytes of a record as plain values, and hostile bytes: time and memory grow with the bytes, on any stack."""

import json
import struct
import sys
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from sowline.codecs.avro import AvroCodec
from sowline.codecs.avro.encoding import varint
from sowline.codecs.avro.misfit import SchemaMisfit
from sowline.codecs.avro.types import load_types
from sowline.codecs.avro.wire import WireReader, check_bytes, records_below
from sowline.codecs.schema import AVRO, MessagePayload, Schema
from sowline.errors import SowlineError
from sowline.model.nesting import NESTING_MAX
from tests.property.avro_schemas import record
from tests.unit.sowline.codecs.avro.messages import read

NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}

TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "below", "type": {"type": "array", "items": "Tree"}}],
}


def _schema(kind: Any) -> Schema:
    """Return the schema of a record, or of a record with one field of a type."""
    if isinstance(kind, dict) and kind["type"] == "record":
        return Schema(AVRO, json.dumps(kind))
    return Schema(AVRO, json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}))


def _read(kind: Any, data: bytes) -> bytes:
    return AvroCodec(_schema(kind)).read(MessagePayload(data), _schema(kind))


EMPTY = {"type": "record", "name": "Empty", "fields": []}


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ({"type": "array", "items": "null"}, varint(1 << 31) + b"\0"),
        ({"type": "array", "items": "null"}, varint(-(1 << 31)) + b"\0\0"),
        ({"type": "array", "items": "null"}, varint(-(1 << 63)) + b"\0\0"),
        ({"type": "array", "items": "null"}, varint(9000) * 2 + b"\0"),
        ({"type": "array", "items": "null"}, varint(90) * 500_000 + b"\0"),
        ({"type": "array", "items": EMPTY}, varint(1 << 62) + b"\0"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, varint(1 << 31) + b"\0"),
        ({"type": "array", "items": "int"}, varint(1 << 62) + b"\2"),
        ({"type": "array", "items": "int"}, varint(-(1 << 62)) + varint(1) + b"\2"),
        ({"type": "map", "values": "null"}, varint(1 << 31) + b"\0"),
        ("bytes", varint(1 << 62)),
        ("string", varint(-5) + b"abc"),
        ("string", varint(-(1 << 63)) + b"abc"),
        ({"type": "fixed", "name": "F", "size": 1 << 24}, b"abc"),
        ("long", b"\xff" * 1000),
        (TREE, varint(1 << 62)),
        (TREE, varint(1) * 500_000),
        (NODE, b"\2" * 500_000 + b"\0"),
        (NODE, b"\2" * 500_000),
        (NODE, b"\5"),
        (NODE, b"\1"),
        (NODE, b"\xff" * 20),
        (NODE, b""),
    ],
)
def test_hostile_bytes_are_refused(kind: Any, data: bytes) -> None:
    """Counts of items that take no bytes, lengths of 2^62, negative ones, records in records, endless integers."""
    with pytest.raises(SowlineError) as caught:
        _read(kind, data)
    assert caught.value.reason == "bad message"


def test_records_nest_as_deep_as_json_may() -> None:
    """The limit is exact, whatever the depth of the caller's stack."""
    deepest = b"\2" * (NESTING_MAX - 1) + b"\0"
    body = _read(NODE, deepest)
    assert body == b'{"next":' * NESTING_MAX + b"null" + b"}" * NESTING_MAX
    codec = AvroCodec(_schema(NODE))
    for call in (codec.completed, codec.upgraded):
        assert call(body) == body
    assert codec.write(body) == deepest
    assert codec.write_delta(body) == (deepest, ("/next" * NESTING_MAX,))
    assert codec.read_delta(MessagePayload(deepest), _schema(NODE), ["/next" * NESTING_MAX]) == body
    with pytest.raises(SowlineError, match="at most 500 levels"):
        _read(NODE, b"\2" + deepest)
    too_deep = b'{"next":' + body + b"}"
    for write in (codec.write, codec.write_delta, codec.completed, codec.upgraded):
        with pytest.raises(SowlineError) as caught:
            write(too_deep)
        assert caught.value.reason == "bad message"


def _at_depth(frames: int, call: Callable[[], bytes]) -> bytes:
    return _at_depth(frames - 1, call) if frames else call()


def test_the_callers_stack_does_not_matter() -> None:
    """A deep record reads the same where little of Python's stack is left."""
    deepest = b"\2" * (NESTING_MAX - 1) + b"\0"
    codec = AvroCodec(_schema(NODE))
    body = codec.read(MessagePayload(deepest), _schema(NODE))
    used = 0
    frame: Any = sys._getframe()
    while frame is not None:
        used, frame = used + 1, frame.f_back
    left = sys.getrecursionlimit() - used - 60
    assert _at_depth(left, lambda: codec.read(MessagePayload(deepest), _schema(NODE))) == body
    assert _at_depth(left, lambda: codec.completed(body)) == body
    assert _at_depth(left, lambda: codec.write(body)) == deepest


def test_a_path_leads_through_records_of_any_depth() -> None:
    """What is wrong deep inside is found, though the converters do not recurse."""
    kind = {
        "type": "record",
        "name": "Node",
        "fields": [
            {"name": "next", "type": {"type": "array", "items": "Node"}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        ],
    }
    wrong = b"\2" * 30 + b"\0" + b"\xff\xff\xff\xff\x0f" + b"\0\0" * 30
    with pytest.raises(SowlineError) as caught:
        _read(kind, wrong)
    assert caught.value.message.startswith("/next[0]" * 30 + "/day: expected a date")


def test_arrays_of_nulls_are_read() -> None:
    """A few thousand items without bytes are no attack."""
    body = _read({"type": "array", "items": "null"}, varint(4000) + b"\0")
    assert orjson.loads(body) == {"a": [None] * 4000}


def test_blocks_with_sizes_are_read() -> None:
    """A block may give its size in bytes, as its count is negative: with and without the check before decoding."""
    assert (
        _read({"type": "array", "items": "int"}, varint(-2) + varint(2) + b"\2\4" + b"\0") == b'{"a":[1,2]}'
    )
    assert _read(TREE, varint(-2) + varint(2) + b"\0\0" + b"\0") == b'{"below":[{"below":[]},{"below":[]}]}'


def test_records_without_bytes_that_double_at_each_level_are_refused() -> None:
    """Sixty records that mention the next one twice would make 2^60 values of no bytes."""
    texts = [("R0", json.dumps({"type": "record", "name": "R0", "fields": []}))]
    for level in range(1, 60):
        fields = [{"name": name, "type": f"R{level - 1}"} for name in "ab"]
        texts.append((f"R{level}", json.dumps({"type": "record", "name": f"R{level}", "fields": fields})))
    schema = Schema(AVRO, '"R59"', tuple(texts))
    with pytest.raises(SowlineError, match="expected at most 10 values for each byte"):
        AvroCodec(schema).read(MessagePayload(b""), schema)


def test_bytes_after_the_record_are_refused() -> None:
    """A message is one record and nothing else."""
    with pytest.raises(
        SowlineError, match="expected an Avro record in 2 bytes, got 1 bytes after the record"
    ):
        read(record(("a", "int")), b"\2\0")


EVERY = {
    "type": "record",
    "name": "Every",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "small", "type": "float"},
        {"name": "large", "type": "double"},
        {"name": "side", "type": {"type": "enum", "name": "Side", "symbols": ["BUY", "SELL"]}},
        {"name": "id", "type": {"type": "fixed", "name": "Id", "size": 2}},
        {"name": "tags", "type": {"type": "map", "values": "long"}},
        {"name": "texts", "type": {"type": "array", "items": "bytes"}},
        {"name": "any", "type": ["null", "string", "Every"]},
    ],
}
EVERY_BYTES = (
    b"\1" + struct.pack("<fd", 0.5, 0.25) + b"\2" + b"ab" + b"\2\2x\6\0" + b"\2\4\xff\xfe\0" + b"\2\4hi"
)


def test_plain_values_are_those_of_the_bytes() -> None:
    """An enum is a number. A value of a union of several types stands under the number of its branch."""
    types = load_types(_schema(EVERY))
    expected = {
        "flag": True,
        "small": 0.5,
        "large": 0.25,
        "side": 1,
        "id": b"ab",
        "tags": {"x": 3},
        "texts": [b"\xff\xfe"],
        "any": {"1": "hi"},
    }
    assert WireReader(types).read(EVERY_BYTES) == expected
    inner = EVERY_BYTES[:-4] + b"\4" + EVERY_BYTES
    assert WireReader(types).read(inner) == {**expected, "any": {"2": expected}}
    assert WireReader(types).read(EVERY_BYTES[:-4] + b"\0") == {**expected, "any": None}


def test_each_truncated_record_is_refused() -> None:
    """At each byte, by the check that comes before the decoding."""
    root = load_types(_schema(EVERY)).root
    check_bytes(root, EVERY_BYTES)
    for size in range(len(EVERY_BYTES)):
        with pytest.raises(SchemaMisfit):
            check_bytes(root, EVERY_BYTES[:size])


def test_records_below_are_found_with_those_that_they_mention() -> None:
    """In arrays, maps and unions, too."""
    leg = record(("next", ["null", "Leg"]), name="Leg")
    root = load_types(_schema(record(("legs", {"type": "map", "values": leg})))).root
    uses = {
        record.name: {used.name for used in mentioned} for record, mentioned in records_below(root).items()
    }
    assert uses == {"Order": {"Leg"}, "Leg": {"Leg"}}
