"""Records of random Protobuf schemas keep all that they are; hostile bytes and JSON are refused."""

from collections.abc import Callable
from typing import Any

import jsonschema
import orjson
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from sowline.codecs.codec import codec_of
from sowline.codecs.protobuf import ProtobufCodec
from sowline.codecs.schema import MessagePayload, Schema
from sowline.errors import SowlineError
from sowline.model.merge import merge
from tests.property.proto_schemas import (
    ProtoFile,
    Record,
    canonical,
    changed,
    changed_files,
    older_files,
    proto_files,
    records,
    seen_present,
)

pytestmark = pytest.mark.slow


@given(st.data())
def test_what_is_written_is_read(data: st.DataObject) -> None:
    """Canonical JSON is what the model says, and every step keeps it; its description fits."""
    file = data.draw(proto_files())
    codec = ProtobufCodec(file.schema)
    described = codec.described()
    jsonschema.Draft202012Validator.check_schema(described)
    for record in data.draw(st.lists(records(file), min_size=1, max_size=5)):
        body = orjson.dumps(canonical(file, record))
        written = codec.write(orjson.dumps(record))
        assert codec.read(MessagePayload(written), file.schema) == body
        assert codec.read(MessagePayload(written, (0,)), file.schema) == body
        assert codec.write(body) == written
        assert codec.completed(orjson.dumps(record)) == codec.completed(body) == codec.upgraded(body) == body
        jsonschema.validate(orjson.loads(body), described, jsonschema.Draft202012Validator)


@given(st.data())
def test_unknown_fields_are_kept(data: st.DataObject) -> None:
    """A reader with an older schema loses nothing, and a newer one gets it all back, from bytes and from JSON."""
    newer = data.draw(proto_files())
    older = data.draw(older_files(newer))
    new_codec, old_codec = ProtobufCodec(newer.schema), ProtobufCodec(older.schema)
    new_codec.check_reads(older.schema)
    for record in data.draw(st.lists(records(newer), min_size=1, max_size=5)):
        body = orjson.dumps(canonical(newer, record))
        seen = old_codec.read(MessagePayload(new_codec.write(body)), newer.schema)
        written = MessagePayload(old_codec.write(seen))
        assert old_codec.read(written, older.schema) == old_codec.completed(seen) == seen
        assert new_codec.read(written, older.schema) == new_codec.upgraded(seen) == body
        delta = old_codec.read_delta(written, older.schema, None)
        assert old_codec.completed(merge(seen, delta)) == seen


@given(st.data())
def test_what_passes_the_check_is_upgraded(data: st.DataObject) -> None:
    """All JSON of an earlier reader schema that passes becomes what the later one reads from the bytes."""
    earlier = data.draw(proto_files())
    later = data.draw(changed_files(earlier))
    old_codec, new_codec = ProtobufCodec(earlier.schema), ProtobufCodec(later.schema)
    try:
        new_codec.check_reads(earlier.schema)
    except SowlineError as error:
        event(error.reason)
        if error.reason != "incompatible schema":
            raise
        return
    event("passes")
    for record in data.draw(st.lists(records(earlier), min_size=1, max_size=5)):
        body = orjson.dumps(canonical(earlier, record))
        read = new_codec.read(MessagePayload(old_codec.write(body)), earlier.schema)
        # Bytes of fields that the later schema lacks are unknown fields; their JSON is dropped.
        assert new_codec.upgraded(body) == orjson.dumps(_known(orjson.loads(read)))
        assert new_codec.upgraded(read) == read


def _known(value: Any) -> Any:
    if type(value) is list:
        return [_known(one) for one in value]
    if type(value) is dict:
        return {name: _known(one) for name, one in value.items() if name != "@unknown"}
    return value


@given(st.data())
def test_deltas_change_what_they_name(data: st.DataObject) -> None:
    """A delta with paths changes exactly these fields; one without, what is present."""
    file = data.draw(proto_files())
    codec = ProtobufCodec(file.schema)
    for _ in range(5):
        before = canonical(file, data.draw(records(file)))
        delta = data.draw(records(file, is_delta=True))
        written, paths = codec.write_delta(orjson.dumps(delta))
        for fields, change in ((paths, delta), (None, seen_present(file, delta))):
            read = codec.read_delta(MessagePayload(written), file.schema, fields)
            _check_merged(codec, file, before, change, read)
        assert codec.write_delta(codec.read_delta(MessagePayload(written), file.schema, paths))[0] == written


def _check_merged(codec: ProtobufCodec, file: ProtoFile, before: Record, change: Record, read: bytes) -> None:
    after = canonical(file, changed(file, before, change))
    merged = merge(orjson.dumps(before), read)
    expected = orjson.dumps(after)
    assert _outcome(lambda: codec.completed(merged)) == _outcome(lambda: codec.completed(expected))
    assert _outcome(lambda: codec.completed(merged)) in (expected, "incomplete record")


def _outcome(convert: Callable[[], bytes]) -> bytes | str:
    """Return what a conversion gives: bytes, or the reason why not."""
    try:
        return convert()
    except SowlineError as error:
        return error.reason


EVERYTHING = """
import "google/protobuf/any.proto"; import "google/protobuf/duration.proto"; import "google/protobuf/empty.proto";
import "google/protobuf/field_mask.proto"; import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
message Record {
  Record again = 1; repeated Record all = 2; map<string, Record> named = 3; map<int64, E> numbers = 4;
  oneof choice { google.protobuf.Value value = 5; string text = 6; Record one = 7; }
  repeated google.protobuf.Struct structs = 8; google.protobuf.Any any = 9; google.protobuf.Duration duration = 10;
  google.protobuf.FieldMask mask = 11; google.protobuf.Timestamp time = 12; google.protobuf.Empty empty = 13;
  google.protobuf.BytesValue bytes = 14; google.protobuf.FloatValue float = 15; repeated sint32 ints = 16;
  repeated bool bools = 17; repeated E symbols = 18; repeated double doubles = 19; repeated string texts = 20;
}
"""
OPEN = Schema("protobuf", f'syntax = "proto3"; {EVERYTHING} enum E {{ A = 0; B = 1; }}')
CLOSED = Schema(
    "protobuf",
    'edition = "2023"; option features.enum_type = CLOSED; option features.utf8_validation = NONE;'
    f" {EVERYTHING} enum E {{ A = 0; B = 1; }}",
)


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint(number >> 7)


def _prefixed(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


_numbers = st.integers(1, 22)
_garbage = st.binary(max_size=4) | st.sampled_from([b"\xff" * 9 + b"\x01", b"\x80", b"\xff" * 5, b"\x0b\x0c"])
_leaves = (
    st.builds(
        lambda number, value: _varint(number << 3) + _varint(value), _numbers, st.integers(0, 2**64 - 1)
    )
    | st.builds(
        lambda number, value: _varint(number << 3 | 1) + value, _numbers, st.binary(min_size=8, max_size=8)
    )
    | st.builds(
        lambda number, value: _varint(number << 3 | 5) + value, _numbers, st.binary(min_size=4, max_size=4)
    )
    | st.builds(_prefixed, _numbers, st.binary(max_size=3))
)
_well_formed = st.recursive(
    _leaves,
    lambda inner: st.builds(_prefixed, _numbers, st.lists(inner, max_size=4).map(b"".join)),
    max_leaves=12,
)
hostile_bytes = st.lists(_well_formed | _garbage, max_size=6).map(b"".join) | st.lists(_well_formed).map(
    b"".join
)


@pytest.mark.parametrize("schema", [OPEN, CLOSED], ids=["open", "closed"])
@given(data=hostile_bytes)
def test_any_bytes_are_read_or_refused(schema: Schema, data: bytes) -> None:
    """What is read is canonical: writing it loses nothing. All else is a bad message."""
    codec = codec_of(schema)
    payload = MessagePayload(data)
    _read_or_refused(lambda: codec.read_delta(payload, schema, None))
    paths = ["/again/again", "/again/@unknown/22", "/text", "/one", "/@unknown"]
    _read_or_refused(lambda: codec.read_delta(payload, schema, paths))
    body = _read_or_refused(lambda: codec.read(payload, schema))
    if body is not None:
        assert codec.read(MessagePayload(codec.write(body)), schema) == codec.completed(body) == body
        assert codec.upgraded(body) == body


def _read_or_refused(convert: Callable[[], bytes]) -> bytes | None:
    outcome = _outcome(convert)
    if isinstance(outcome, bytes):
        return outcome
    assert outcome == "bad message"
    return None


_members = [
    "again",
    "all",
    "named",
    "numbers",
    "value",
    "text",
    "one",
    "structs",
    "any",
    "duration",
    "mask",
    "time",
]
_members += [
    "empty",
    "bytes",
    "float",
    "ints",
    "bools",
    "symbols",
    "doubles",
    "texts",
    "@unknown",
    "@type",
    "1",
    "22",
    "x",
]
_texts = st.sampled_from(["", "A", "NaN", "AA==", "1s", "2026-02-30T00:00:00Z", "a,b", "\0", "CAE=", "sAEB"])
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_members), inner, max_size=4),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(_members), _json, max_size=4).map(orjson.dumps) | _json.map(orjson.dumps)
)
def test_any_json_is_written_or_refused(body: bytes) -> None:
    """What is written can be read, and is what `completed` says. All else is a bad message."""
    codec = codec_of(OPEN)
    written = _read_or_refused(lambda: codec.write(body))
    completed = _read_or_refused(lambda: codec.completed(body))
    assert (written is None) == (completed is None)
    if written is not None:
        assert codec.read(MessagePayload(written), OPEN) == completed
    _read_or_refused(lambda: codec.write_delta(body)[0])
    _read_or_refused(lambda: codec.upgraded(body))
