"""The codec of Protobuf: records and deltas there and back, and which schemas and messages it takes."""

from typing import Any

import orjson
import pytest

from sowline.codecs.codec import Codec, CompilerAway, codec_of
from sowline.codecs.protobuf import ProtobufCodec
from sowline.codecs.schema import MessagePayload, Schema
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.protobuf.orders import (
    DEFAULTS,
    PROTO2,
    SCHEMA,
    nested_orders,
    written_again,
)
from tests.unit.sowline.codecs.protobuf.schemas import proto_schema


@pytest.fixture
def codec() -> Codec:
    """The codec of an order."""
    return codec_of(SCHEMA)


@pytest.mark.parametrize(
    "members",
    [
        {"id": 2**64 - 1},
        {"price": "NaN", "rate": "-Infinity"},
        {"price": 1e300, "rate": 3.4028235e38},
        {"rate": 0.1},
        {"raw": "AQI="},
        {"side": "SELL"},
        {"side": 7},
        {"side": -1},
        {"legs": [{"qty": 1, "venueName": ""}, {"qty": 0}]},
        {"by_number": {"-1": {"qty": 0}, "10": {"qty": 1}, "9": {"qty": 2}}},
        {"flags": {"false": "", "true": "x"}},
        {"camelCase": 0},
        {"trader": ""},
        {"broker": {"qty": 0}},
        {"other": None},
        {"ints": [0, -1], "times": ["2026-11-26T12:34:56Z"], "open": True},
        {"HasField": 1, "SerializeToString": 2, "__class__": 3},
        {"parent": {**DEFAULTS, "id": 2, "parent": DEFAULTS, "@unknown": {"100": "oAYB"}}},
        {"@unknown": {"1": "CgA=", "99": "mAYC", "100": "oAYBoAYC", "536870911": "+P///w8B"}},
    ],
    ids=str,
)
def test_canonical_json_is_written_and_read(codec: Codec, members: dict[str, object]) -> None:
    """Every JSON form comes back as it was."""
    assert written_again(codec, **members) == members


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b"{", b'{"id":1}x', b'"\xff"', b"[" * 5000])
def test_json_that_is_no_object_is_refused(codec: Codec, body: bytes) -> None:
    """All methods that take JSON say so."""
    for convert in (codec.write, codec.write_delta, codec.completed, codec.upgraded):
        with pytest.raises(SowlineError, match="expected a JSON object"):
            convert(body)


def test_messages_nest_100_levels(codec: Codec) -> None:
    """The limit is the same for bytes and JSON, for known and unknown fields; nothing depends on the stack."""
    body = codec.read(MessagePayload(nested_orders(100)), SCHEMA)
    assert (
        codec.read(MessagePayload(codec.write(body)), SCHEMA)
        == codec.completed(body)
        == codec.upgraded(body)
        == body
    )
    for data in (nested_orders(101), nested_orders(10_000), b"\xd3\x01" * 101 + b"\xd4\x01" * 101):
        with pytest.raises(SowlineError, match=r"expected the bytes of a shop\.Order"):
            codec.read(MessagePayload(data), SCHEMA)
    with pytest.raises(SowlineError, match="expected at most 100 levels of messages"):
        codec.write(b'{"parent":' * 101 + b"{}" + b"}" * 101)
    groups = orjson.dumps({"@unknown": {"26": "0wHUAQ=="}})
    inside = b'{"parent":' * 100
    with pytest.raises(SowlineError, match="expected the bytes"):
        codec.completed(inside + groups + b"}" * 100)


def test_required_fields_are_required() -> None:
    """A record without them is no message, and a merged one is incomplete; a delta need not have them."""
    codec = codec_of(PROTO2)
    for data in (b"", b"\x08\x01\x2a\x00"):
        with pytest.raises(SowlineError, match="expected the required fields of P, got none in") as caught:
            codec.read(MessagePayload(data), PROTO2)
        assert caught.value.reason == "bad message"
        assert codec.read_delta(MessagePayload(data), PROTO2, None)
    with pytest.raises(SowlineError, match="/inner/id") as caught:
        codec.write(b'{"id":1,"inner":{}}')
    assert caught.value.reason == "bad message"
    for convert in (codec.completed, codec.upgraded):
        with pytest.raises(SowlineError, match="/id") as caught:
            convert(b'{"id":null}')
        assert caught.value.reason == "incomplete record"


# schemas

NESTED = proto_schema(
    "package shop; message A {} message B { message C { int32 x = 1; } }", message="shop.B.C"
)


def test_a_message_type_is_found_in_its_file() -> None:
    """By the indexes that frames have, and by its name without the package."""
    assert codec_of(NESTED).message_type == ((1, 0), "B.C")


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        (
            proto_schema(
                'import "google/protobuf/struct.proto"; message R {}', message="google.protobuf.Value"
            ),
            "google.protobuf.Value",
        ),
        (proto_schema("message R { map<string, int32> m = 1; }", message="R.MEntry"), "R.MEntry"),
    ],
    ids=["well-known", "map entry"],
)
def test_a_record_is_a_message_with_fields(schema: Schema, name: str) -> None:
    """A type with a JSON form of its own is none, nor is the entry of a map."""
    with pytest.raises(SowlineError, match="expected") as refused:
        ProtobufCodec(schema)
    assert refused.value.reason == "bad schema"
    assert name in refused.value.message


NUMBER, TEXT = proto_schema("message R { int32 a = 1; }"), proto_schema("message R { string a = 1; }")


def test_a_message_of_a_schema_that_can_not_be_read_is_refused() -> None:
    """Each message is, with the same reason; those of other schemas are read."""
    codec = codec_of(NUMBER)
    for _ in range(2):
        with pytest.raises(SowlineError) as refused:
            codec.read(MessagePayload(b""), TEXT)
        assert refused.value.reason == "incompatible schema"
    assert codec.read(MessagePayload(b"\x08\x01"), NUMBER) == b'{"a":1}'


def test_the_frame_of_a_message_names_its_type() -> None:
    """By indexes or by name; without either, it is the type of its schema."""
    both = proto_schema("message Other { string a = 1; } message R { int32 a = 1; }", message="R")
    codec = codec_of(both)
    for payload in (
        MessagePayload(b"\x08\x01"),
        MessagePayload(b"\x08\x01", (1,)),
        MessagePayload(b"\x08\x01", None, "R"),
    ):
        assert codec.read(payload, both) == b'{"a":1}'
    with pytest.raises(SowlineError) as refused:
        codec.read(MessagePayload(b"", (0,)), both)
    assert refused.value.reason == "incompatible schema"


def test_while_the_compiler_is_away_nothing_is_refused_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says nothing about the schema: cached, it would refuse all later messages under it."""
    codec = ProtobufCodec(NUMBER)

    def be_away(schema: Schema) -> Any:
        raise CompilerAway("expected an answer in 10 seconds, got none")

    with monkeypatch.context() as patched:
        patched.setattr("sowline.codecs.protobuf.codec.compile_schema", be_away)
        with pytest.raises(CompilerAway):
            codec.read(MessagePayload(b"\x08\x01"), NUMBER)
    assert codec.read(MessagePayload(b"\x08\x01"), NUMBER) == b'{"a":1}'


def test_a_new_reader_schema_reads_what_the_earlier_one_wrote() -> None:
    """Or it is refused, before a message is."""
    codec_of(proto_schema("message R { int32 a = 1; string b = 2; }")).check_reads(NUMBER)
    with pytest.raises(SowlineError) as refused:
        codec_of(TEXT).check_reads(NUMBER)
    assert refused.value.reason == "incompatible schema"


def test_records_are_upgraded_to_a_new_reader_schema() -> None:
    """A field that was unknown comes out of `@unknown`; a member without a field is dropped."""
    codec = codec_of(proto_schema("message R { int32 a = 1; int32 b = 2; }"))
    earlier = b'{"a":1,"gone":7,"@unknown":{"2":"EAU="}}'
    assert codec.upgraded(earlier) == b'{"a":1,"b":5}'
    with pytest.raises(SowlineError, match="expected a field of R, got /gone"):
        codec.completed(earlier)


def test_a_delta_is_merged_as_json() -> None:
    """Null stays, until the record is completed: then the field is not set."""
    codec = codec_of(proto_schema("message R { optional int32 a = 1; optional int32 b = 2; }"))
    merged = codec.merged(b'{"a":1}', b'{"a":null,"b":3}')
    assert merged == b'{"a":null,"b":3}'
    assert codec.completed(merged) == b'{"b":3}'


def test_a_delta_changes_the_fields_at_its_paths() -> None:
    """Null for one that is absent; a path that the record does not have is refused."""
    codec = codec_of(proto_schema("message R { optional int32 a = 1; optional int32 b = 2; }"))
    writer = proto_schema("message R { optional int32 a = 1; optional int32 b = 2; }")
    data, paths = codec.write_delta(b'{"a":1,"b":null}')
    assert (data, paths) == (b"\x08\x01", ("/a", "/b"))
    assert codec.read_delta(MessagePayload(data), writer, paths) == b'{"a":1,"b":null}'
    with pytest.raises(SowlineError, match="got /c") as refused:
        codec.read_delta(MessagePayload(data), writer, ["/c"])
    assert refused.value.reason == "bad header"


def test_its_json_is_described() -> None:
    """As JSON Schema, for consoles and generated types."""
    described = codec_of(NUMBER).described()
    assert orjson.loads(orjson.dumps(described)) == described
    assert described["properties"]["a"]


def test_completed_json_is_that_of_the_bytes(codec: Codec) -> None:
    """A float has fewer digits than JSON: what consumers read back must equal what is stored."""
    completed = codec.completed(b'{"rate":0.1234567890123}')
    assert orjson.loads(completed)["rate"] == 0.12345679
    assert codec.read(MessagePayload(codec.write(completed)), SCHEMA) == completed
