"""The JSON form of Protobuf messages, how JSON is written, and what is refused."""

import threading
from base64 import b64encode
from functools import partial

import orjson
import pytest

from sowline.codecs.codec import Codec, codec_of
from sowline.codecs.schema import MessagePayload, Schema
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.protobuf.orders import (
    DEFAULTS,
    SCHEMA,
    read_as_json,
    refusal_of,
    written_again,
)

PROTO2 = Schema(
    "protobuf",
    'syntax = "proto2"; message P { required int32 id = 1; optional string text = 2; repeated string texts = 3;'
    " map<string, string> named = 4; optional P inner = 5; optional group G = 6 { optional int32 x = 1; } extensions"
    " 100 to 199; } extend P { optional int32 extended = 100; }",
)


@pytest.fixture
def codec() -> Codec:
    """The codec of an order."""
    return codec_of(SCHEMA)


def test_fields_without_presence_are_always_there(codec: Codec) -> None:
    """An empty message is a record of defaults."""
    assert codec.read(MessagePayload(b""), SCHEMA) == codec.completed(b"{}")
    assert read_as_json(codec, b"") == DEFAULTS


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


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ({"price": 1, "rate": 16777217}, {"price": 1.0, "rate": 16777216.0}),
        ({"rate": 0.1234567890123}, {"rate": 0.12345679}),
        ({"side": 1}, {"side": "SELL"}),
        ({"legs": None, "id": None, "camelCase": None}, {}),
        ({"trader": None, "broker": {}}, {"broker": {"qty": 0}}),
        ({"other": None, "trader": "x"}, {"trader": "x"}),
        (
            {"@unknown": {"100": "oAYB", "99": "mAYC", "98": None}},
            {"@unknown": {"99": "mAYC", "100": "oAYB"}},
        ),
        ({"@unknown": {}, "parent": {"@unknown": None}}, {"parent": DEFAULTS}),
    ],
    ids=str,
)
def test_json_need_not_be_canonical(
    codec: Codec, given: dict[str, object], canonical: dict[str, object]
) -> None:
    """Integers stand for doubles, nulls for what is not set, and times may have an offset."""
    assert written_again(codec, **given) == canonical


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"color": 1}, "expected a field of shop.Order, got /color"),
        ({"legs": [{}, {"camelCase": 1}]}, "expected a field of shop.Order.Leg, got /legs[1]/camelCase"),
        ({"parent": {"Id": 1}}, "got /parent/Id"),
        ({"id": -1}, "expected an integer from 0 to 18446744073709551615 in /id, got -1"),
        ({"id": "1"}, "in /id, got '1'"),
        ({"id": True}, "in /id, got True"),
        ({"id": 1.0}, "in /id, got 1.0"),
        ({"price": "nan"}, "in /price, got 'nan'"),
        ({"price": True}, "expected a number, NaN, Infinity or -Infinity in /price"),
        ({"rate": 3.5e38}, "expected a number that fits into 32 bits in /rate"),
        ({"raw": "AQI"}, "expected base64 text in /raw"),
        ({"raw": "ä"}, "expected base64 text in /raw"),
        ({"side": "LEND"}, "expected a symbol of shop.Order.Side in /side, got 'LEND'"),
        ({"side": 2**31}, "expected a symbol of shop.Order.Side in /side"),
        ({"legs": {}}, "expected an array in /legs, got an object"),
        ({"legs": [None]}, "expected an object with the fields of shop.Order.Leg in /legs[0], got None"),
        ({"legs": [{}, {"qty": "x"}]}, "in /legs[1]/qty, got 'x'"),
        ({"by_number": {"01": {}}}, "expected a key that is an integer from -2147483648 to 2147483647"),
        ({"by_number": {"9" * 5000: {}}}, "expected a key that is an integer"),
        (
            {"by_number": {"2": {"qty": None, "venueName": 3}}},
            "expected a string in /by_number/2/venueName, got 3",
        ),
        ({"by_number": {"2": None}}, "in /by_number/2, got None"),
        ({"flags": {"yes": "x"}}, "expected the key true or false in /flags/yes"),
        ({"flags": {"true": None}}, "expected a string in /flags/true, got None"),
        (
            {"trader": "x", "broker": {}},
            "expected one of the fields trader, broker, other in /, got trader and broker",
        ),
        ({"ints": [1, "x"]}, "in /ints[1], got 'x'"),
        ({"ints": [None]}, "in /ints[0], got None"),
        ({"times": ["2026-11-26T12:34:56Z", "x"]}, "in /times[1], got 'x'"),
        ({"open": 1}, "expected true or false in /open, got 1"),
        ({"@unknown": "oAYB"}, "expected an object with unknown fields by number in /@unknown, got 'oAYB'"),
        ({"@unknown": {"100": "!"}}, "expected base64 text of field 100 in /@unknown/100, got '!'"),
        ({"@unknown": {"100": ""}}, "expected base64 text of field 100 in /@unknown/100"),
        ({"@unknown": {"100": "mAYC"}}, "expected base64 text of field 100 in /@unknown/100"),
        ({"@unknown": {"100": "oAYBmAYC"}}, "expected base64 text of field 100 in /@unknown/100"),
        ({"@unknown": {"100": "owakBqQG"}}, "expected base64 text of field 100 in /@unknown/100"),
        ({"parent": {"@unknown": {"1": "CP8="}}}, "expected base64 text of field 1 in /parent/@unknown/1"),
        ({"@unknown": {"0100": "oAYB"}}, "expected field numbers in /@unknown, got '0100'"),
        ({"@unknown": {"": "oAYB"}}, "expected field numbers in /@unknown"),
        ({"@unknown": {"²": "oAYB"}}, "expected field numbers in /@unknown"),
        ({"@unknown": {"536870912": "oAYB"}}, "expected field numbers in /@unknown"),
    ],
    ids=str,
)
def test_json_that_the_schema_does_not_describe_is_refused(
    codec: Codec, members: dict[str, object], message: str
) -> None:
    """The message names the path and what was expected."""
    for convert in (codec.write, codec.write_delta, codec.completed):
        assert message in refusal_of(convert, orjson.dumps(members))


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b"{", b'{"id":1}x', b'"\xff"', b"[" * 5000])
def test_json_that_is_no_object_is_refused(codec: Codec, body: bytes) -> None:
    """All methods that take JSON say so."""
    for convert in (codec.write, codec.write_delta, codec.completed, codec.upgraded):
        with pytest.raises(SowlineError, match="expected a JSON object"):
            convert(body)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x08", "expected the bytes of a shop.Order"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "expected the bytes of a shop.Order"),
        (b"\x22\xff\xff\xff\xff\x0f", "expected the bytes of a shop.Order"),
        (b"\x00\x00", "expected the bytes of a shop.Order"),
        (b"\x92\x01\x03\x80\x00\x01", "expected field numbers from 1 in /@unknown, got 0"),
        (b"\x0b", "expected the bytes of a shop.Order"),
        (b"\x52\x01\xff", "UTF-8"),
    ],
    ids=repr,
)
def test_bytes_that_have_no_json_are_refused(codec: Codec, data: bytes, message: str) -> None:
    """Broken bytes, and values that a JSON form can't have."""
    assert message in refusal_of(partial(read_as_json, codec), data)


def _nested(levels: int, tag: bytes = b"\xca\x01") -> bytes:
    data = b""
    for _ in range(levels):
        length, size = len(data), b""
        while length > 127:
            size += bytes([length & 127 | 128])
            length >>= 7
        data = tag + size + bytes([length]) + data
    return data


def test_messages_nest_100_levels(codec: Codec) -> None:
    """The limit is the same for bytes and JSON, for known and unknown fields; nothing depends on the stack."""
    body = codec.read(MessagePayload(_nested(100)), SCHEMA)
    assert (
        codec.read(MessagePayload(codec.write(body)), SCHEMA)
        == codec.completed(body)
        == codec.upgraded(body)
        == body
    )
    for data in (_nested(101), _nested(10_000), b"\xd3\x01" * 101 + b"\xd4\x01" * 101):
        with pytest.raises(SowlineError, match=r"expected the bytes of a shop\.Order"):
            codec.read(MessagePayload(data), SCHEMA)
    with pytest.raises(SowlineError, match="expected at most 100 levels of messages"):
        codec.write(b'{"parent":' * 101 + b"{}" + b"}" * 101)
    groups = orjson.dumps({"@unknown": {"26": "0wHUAQ=="}})
    inside = b'{"parent":' * 100
    with pytest.raises(SowlineError, match="expected the bytes"):
        codec.completed(inside + groups + b"}" * 100)


def test_json_values_nest_as_deep_as_their_messages(codec: Codec) -> None:
    """An array in a google.protobuf.Value takes two levels of messages."""
    assert codec.write(b'{"value":' + b"[" * 49 + b"]" * 49 + b"}")
    for levels in (51, 100, 200, 900):
        with pytest.raises(SowlineError, match="expected"):
            codec.write(b'{"value":' + b"[" * levels + b"]" * levels + b"}")


def test_depth_does_not_depend_on_the_caller(codec: Codec) -> None:
    """A record that is as deep as allowed is read with little stack left."""
    data = _nested(100)
    bodies = []

    def deep(levels: int) -> bytes:
        return deep(levels - 1) if levels else codec.completed(codec.read(MessagePayload(data), SCHEMA))

    thread = threading.Thread(target=lambda: bodies.append(deep(950)))
    thread.start()
    thread.join()
    assert bodies == [codec.read(MessagePayload(data), SCHEMA)]


def test_the_number_of_fields_is_limited() -> None:
    """Two bytes of an empty message become all its defaults; what a record becomes in total is bounded."""
    fields = " ".join(f"int32 f{number} = {number};" for number in range(2, 1000))
    schema = Schema("protobuf", f'syntax = "proto3"; message A {{ repeated A a = 1; {fields} }}')
    codec = codec_of(schema)
    assert codec.read(MessagePayload(b"\x0a\x00" * 990), schema)
    with pytest.raises(SowlineError, match="expected at most 1000000 fields") as caught:
        codec.read(MessagePayload(b"\x0a\x00" * 1000), schema)
    assert caught.value.reason == "bad message"


def test_unknown_fields_are_kept_where_they_are(codec: Codec) -> None:
    """By number, with all occurrences; groups, too."""
    inner = b"\xa3\x06\x0b\x08\x01\x0c\xa4\x06\xa8\x06\x05"
    fields = [b"\xa0\x06\x81\x00", b"\xa2\x06\x81\x00x", b"\xa1\x06" + b"8" * 8, b"\xa5\x06" + b"4" * 4]
    first, second = b"".join(fields[:2]), b"".join(fields[2:])
    data = first + b"\xca\x01" + bytes([len(inner)]) + inner + b"\x98\x06\x02" + second
    read = read_as_json(codec, data)
    assert isinstance(read, dict)
    assert read["@unknown"] == {"99": "mAYC", "100": b64encode(first + second).decode()}
    assert read["parent"]["@unknown"] == {"100": "owYLCAEMpAY=", "101": "qAYF"}
    assert (
        codec.write(orjson.dumps(read))
        == b"\xca\x01" + bytes([len(inner)]) + inner + b"\x98\x06\x02" + first + second
    )


def test_negative_zero_is_not_the_default(codec: Codec) -> None:
    """It has bytes of its own."""
    written = codec.write(b'{"price":-0.0,"rate":-0.0}')
    assert codec.read(MessagePayload(written), SCHEMA).startswith(b'{"id":0,"price":-0.0,"rate":-0.0,')


def test_proto2_fields_have_presence() -> None:
    """What is set is there, groups are objects, and extensions are unknown fields."""
    codec = codec_of(PROTO2)
    data = b"\x08\x00\x12\x00\x33\x08\x01\x34\xa0\x06\x07"
    assert codec.read(MessagePayload(data), PROTO2) == (
        b'{"id":0,"text":"","texts":[],"named":{},"g":{"x":1},"@unknown":{"100":"oAYH"}}'
    )
    assert codec.write(codec.read(MessagePayload(data), PROTO2)) == data


@pytest.mark.parametrize(
    "data", [b"\x12\x01\xff", b"\x1a\x01\xff", b"\x22\x03\x0a\x01\xff", b"\x22\x03\x12\x01\xff"]
)
def test_proto2_texts_are_utf_8(data: bytes) -> None:
    """Protobuf does not check them, so we do."""
    codec = codec_of(PROTO2)
    with pytest.raises(SowlineError, match="UTF-8") as caught:
        codec.read(MessagePayload(b"\x08\x01" + data), PROTO2)
    assert caught.value.reason == "bad message"


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
