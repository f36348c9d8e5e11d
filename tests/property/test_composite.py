"""Composite messages made at random: parts come back, deltas change parts, and no bytes do harm."""

import struct
from base64 import b64encode
from typing import Any

import bson
import msgspec
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.codecs.composite import CompositeGlobalCodec, CompositeLocalCodec
from sowline.codecs.schema import COMPOSITE_GLOBAL, COMPOSITE_LOCAL, MessagePayload, Schema
from sowline.errors import SowlineError
from sowline.model.body import read_object
from tests.property.value_objects import any_json, check_any_json, check_hostile, merged_by_the_rules

TYPES = ["json", "msgpack", "bson", "binary"]
OPTIONS = orjson.dumps({"parts": [{"type": name} for name in TYPES]}).decode()
LOCAL = CompositeLocalCodec(Schema(COMPOSITE_LOCAL, OPTIONS))
GLOBAL = CompositeGlobalCodec(Schema(COMPOSITE_GLOBAL, OPTIONS))

NAMES = st.sampled_from(["a", "b", "é", "data", "#parts", "$x"])
SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([0.5, 2.0]) | st.text(max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.dictionaries(NAMES, VALUES, max_size=3)
DATA = st.binary(min_size=1, max_size=9)
PARTS = st.tuples(
    st.none() | FIELDS,
    st.none() | FIELDS,
    st.none() | FIELDS,
    st.none() | DATA.map(lambda data: {"data": data}),
)
"""What each part has; None for a part of no bytes."""

Parts = tuple[Any, Any, Any, Any]


def message_of(parts: Parts) -> bytes:
    """Return the bytes of a message with these parts."""
    first, second, third, fourth = parts
    texts = [
        b"" if first is None else orjson.dumps(first),
        b"" if second is None else msgspec.msgpack.encode(second),
        b"" if third is None else bson.encode(third),
        b"" if fourth is None else fourth["data"],
    ]
    return b"".join(struct.pack(">I", len(text)) + text for text in texts)


def json_of(parts: Parts) -> list[Any]:
    """Return the parsed JSON of each part."""
    *others, data = parts
    return [*others, None if data is None else {"data": b64encode(data["data"]).decode()}]


def local(parts: Parts) -> dict[str, Any]:
    """Return the parsed JSON of a `composite-local` record."""
    return {str(number): part for number, part in enumerate(json_of(parts)) if part is not None}


def read(codec: CompositeLocalCodec | CompositeGlobalCodec, message: bytes) -> bytes:
    """Return the canonical JSON of a message."""
    body = codec.read(MessagePayload(message), codec.reader)
    read_object(body)
    return body


@given(PARTS)
def test_a_local_record_has_its_parts(parts: Parts) -> None:
    """Each part is there by its number, and all bytes come back."""
    message = message_of(parts)
    body = read(LOCAL, message)
    assert orjson.loads(body) == local(parts)
    assert list(orjson.loads(body)) == sorted(orjson.loads(body))
    assert LOCAL.write(body) == message
    assert LOCAL.completed(body) == body
    assert LOCAL.upgraded(body) == body


@given(PARTS)
@example(({"a": 1}, None, {"a": 2}, None))
@example(({"data": 1}, None, None, {"data": b"1"}))
@example((None, {"#parts": 1}, None, None))
def test_a_global_record_has_all_fields(parts: Parts) -> None:
    """The fields of all parts are side by side, all bytes come back, and fields in common are refused."""
    message = message_of(parts)
    names = [name for part in parts if part is not None for name in part]
    if len(set(names)) < len(names) or "#parts" in names:
        with pytest.raises(SowlineError, match="expected fields that no other part has") as caught:
            read(GLOBAL, message)
        assert caught.value.reason == "bad message"
        return
    body = read(GLOBAL, message)
    fields = orjson.loads(body)
    assert len(fields.pop("#parts")) == len(TYPES)
    assert fields == {name: value for part in json_of(parts) if part for name, value in part.items()}
    assert GLOBAL.write(body) == message
    assert GLOBAL.completed(body) == body
    assert GLOBAL.read_delta(MessagePayload(GLOBAL.write_delta(body)[0]), GLOBAL.reader, None) == body


@given(PARTS, PARTS)
@example(({"a": {"b": 1}}, None, None, {"data": b"1"}), ({"a": {"c": 2}}, {"a": 1}, None, {"data": b"2"}))
def test_a_delta_changes_the_parts_that_it_has(record: Parts, delta: Parts) -> None:
    """A part of no bytes stays; objects are merged, bytes are replaced; a new part is added."""
    before, message = read(LOCAL, message_of(record)), message_of(delta)
    changes = LOCAL.read_delta(MessagePayload(message), LOCAL.reader, None)
    assert LOCAL.write_delta(changes) == (message, ())
    after = LOCAL.completed(LOCAL.merged(before, changes))
    assert orjson.loads(after) == merged_by_the_rules(local(record), local(delta), [])


@given(PARTS, PARTS)
def test_a_delta_of_global_fields_replaces_the_record(record: Parts, delta: Parts) -> None:
    """Only the delta remains."""
    bodies = []
    for parts in (record, delta):
        try:
            bodies.append(read(GLOBAL, message_of(parts)))
        except SowlineError:
            return
    assert GLOBAL.merged(*bodies) == bodies[1]


@given(any_json(st.sampled_from(["0", "1", "3", "data", "$ext", "a", "00", "4"]), {"data": "AAE="}, {"a": 5}))
@example(b'{"1":{"a":{"$ext":[5,"AAE="]}},"0":  {"a":1.50} }')
@example(b'{"3":{"data":""}}')
@example(b'{"0":null}')
def test_any_json_is_written_as_local_parts_or_refused(body: bytes) -> None:
    """What clients may publish is refused with a sentence, or read as `completed` says."""
    check_any_json(LOCAL, LOCAL.reader, body)


@given(
    any_json(st.sampled_from(["data", "a", "$ext"])),
    st.lists(
        st.none() | st.just("*") | st.lists(st.sampled_from(["a", "data", "$ext"]), max_size=2),
        min_size=3,
        max_size=5,
    ),
)
@example(b'{"data":"AAE=","a":1}', ["*", None, None, ["data"]])
@example(b'{"data":"AAE=","a":1}', [["a"], [], [], "*"])
@example(b'{"data":"AAE=","a":1}', [["a"], ["a"], [], "*"])
@example(b'{"data":"AAE=","a":1}', [["a"], [], [], []])
@example(b'{"data":"AAE=","a":1}', ["*", "*", [], ["data"]])
@example(b'{"a":1}', ["*", None, None, ["data"]])
def test_any_json_is_written_as_global_fields_or_refused(body: bytes, names: list[Any]) -> None:
    """With or without `#parts`."""
    check_any_json(GLOBAL, GLOBAL.reader, body)
    check_any_json(GLOBAL, GLOBAL.reader, orjson.dumps(orjson.loads(body) | {"#parts": names}))


@given(PARTS.map(message_of), st.data())
def test_any_bytes_are_a_record_or_refused(message: bytes, data: st.DataObject) -> None:
    """Random bytes, and messages with some bytes changed."""
    codec = data.draw(st.sampled_from([LOCAL, GLOBAL]))
    check_hostile(codec, codec.reader, message, data)
