"""The JSON form of Protobuf messages, how JSON is written, and what is refused."""

import threading
from base64 import b64encode

import orjson
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from sowline.codecs.codec import Codec, codec_of
from sowline.codecs.schema import MessagePayload, Schema
from sowline.errors import SowlineError

ORDER = """
syntax = "proto3"; package shop;
import "google/protobuf/any.proto"; import "google/protobuf/duration.proto"; import "google/protobuf/empty.proto";
import "google/protobuf/field_mask.proto"; import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
message Order {
  message Leg { int32 qty = 1; optional string venueName = 2; }
  enum Side { BUY = 0; SELL = 1; }
  uint64 id = 1; double price = 2; float rate = 3; bytes raw = 4; Side side = 5; repeated Leg legs = 6;
  map<int32, Leg> by_number = 7; map<bool, string> flags = 8; optional int32 camelCase = 9;
  oneof party { string trader = 10; Leg broker = 11; google.protobuf.Value other = 12; }
  google.protobuf.Timestamp time = 13; google.protobuf.Duration delay = 14; google.protobuf.Int64Value limit = 15;
  google.protobuf.Struct struct = 16; google.protobuf.FieldMask mask = 17; google.protobuf.Empty empty = 18;
  google.protobuf.Any any = 19; google.protobuf.Value value = 20; google.protobuf.ListValue list = 21;
  int32 HasField = 22; int32 SerializeToString = 23; int32 __class__ = 24; Order parent = 25;
  repeated int32 ints = 26; repeated google.protobuf.Timestamp times = 27; bool open = 28;
}
"""
SCHEMA = Schema("protobuf", ORDER)
DEFAULTS = {
    "id": 0,
    "price": 0.0,
    "rate": 0.0,
    "raw": "",
    "side": "BUY",
    "legs": [],
    "by_number": {},
    "flags": {},
}
DEFAULTS |= {"HasField": 0, "SerializeToString": 0, "__class__": 0, "ints": [], "times": [], "open": False}

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


def _read(codec: Codec, data: bytes, schema: Schema = SCHEMA) -> object:
    return orjson.loads(codec.read(MessagePayload(data), schema))


def _time(seconds: int = 0, nanos: int = 0) -> bytes:
    content = Timestamp(seconds=seconds, nanos=nanos).SerializeToString()
    return b"\x6a" + bytes([len(content)]) + content


def _delay(seconds: int = 0, nanos: int = 0) -> bytes:
    content = Duration(seconds=seconds, nanos=nanos).SerializeToString()
    return b"\x72" + bytes([len(content)]) + content


def _again(codec: Codec, **members: object) -> object:
    """Return what is read of a record that was written with some members, without its defaults."""
    read = _read(codec, codec.write(orjson.dumps(members)))
    assert isinstance(read, dict)
    return {name: value for name, value in read.items() if name not in DEFAULTS or value != DEFAULTS[name]}


def test_fields_without_presence_are_always_there(codec: Codec) -> None:
    """An empty message is a record of defaults."""
    assert codec.read(MessagePayload(b""), SCHEMA) == codec.completed(b"{}")
    assert _read(codec, b"") == DEFAULTS


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
        {"time": "0001-01-01T00:00:00Z"},
        {"time": "9999-12-31T23:59:59.999999999Z"},
        {"time": "1969-12-31T23:59:59.900Z"},
        {"time": "2026-11-26T12:34:56.000001Z"},
        {"delay": "1.500s"},
        {"delay": "-0.000000001s"},
        {"delay": "-315576000000.999s"},
        {"limit": 0},
        {"ints": [0, -1], "times": ["2026-11-26T12:34:56Z"], "open": True},
        {"limit": -(2**63)},
        {"struct": {"a": [None, 1.0, "x", True, {}, []], "b": {"c": None}}},
        {"mask": ""},
        {"mask": "a,b_c.d"},
        {"empty": {}},
        {"any": {"@type": "type.googleapis.com/shop.Order", "value": "CAE="}},
        {"value": None},
        {"value": [[{"a": None}]]},
        {"list": []},
        {"HasField": 1, "SerializeToString": 2, "__class__": 3},
        {"parent": {**DEFAULTS, "id": 2, "parent": DEFAULTS, "@unknown": {"100": "oAYB"}}},
        {"@unknown": {"1": "CgA=", "99": "mAYC", "100": "oAYBoAYC", "536870911": "+P///w8B"}},
    ],
    ids=str,
)
def test_canonical_json_is_written_and_read(codec: Codec, members: dict[str, object]) -> None:
    """Every JSON form comes back as it was."""
    assert _again(codec, **members) == members


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ({"price": 1, "rate": 16777217}, {"price": 1.0, "rate": 16777216.0}),
        ({"rate": 0.1234567890123}, {"rate": 0.12345679}),
        ({"side": 1}, {"side": "SELL"}),
        ({"time": "2026-11-26t14:34:56.5+02:00"}, {"time": "2026-11-26T12:34:56.500Z"}),
        ({"delay": "1.5s"}, {"delay": "1.500s"}),
        ({"delay": "-0s"}, {"delay": "0s"}),
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
    assert _again(codec, **given) == canonical


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
        ({"time": "2026-02-30T00:00:00Z"}, "expected a time like 2026-11-26T12:34:56.789Z in /time"),
        ({"time": "0001-01-01T00:00:00+01:00"}, "expected a time like"),
        ({"time": 5}, "expected a time like"),
        ({"delay": "315576000001s"}, "expected a duration like 1.500s in /delay"),
        ({"delay": "1.5"}, "expected a duration like"),
        ({"ints": [1, "x"]}, "in /ints[1], got 'x'"),
        ({"ints": [None]}, "in /ints[0], got None"),
        ({"times": ["2026-11-26T12:34:56Z", "x"]}, "in /times[1], got 'x'"),
        ({"open": 1}, "expected true or false in /open, got 1"),
        ({"limit": "x" * 100}, "in /limit, got 'xxx"),
        ({"mask": "a,,b"}, "expected paths with commas between them in /mask"),
        ({"any": {"@type": "x"}}, "expected an object with @type and value, both texts in /any"),
        ({"struct": []}, "expected an object in /struct, got an array"),
        ({"list": {}}, "expected an array in /list, got an object"),
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
        with pytest.raises(SowlineError) as caught:
            convert(orjson.dumps(members))
        assert caught.value.reason == "bad message"
        assert message in caught.value.message


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
        (_time(seconds=-62135596801), "expected a timestamp of the years 1 to 9999 in shop.Order.time"),
        (_time(seconds=253402300800), "expected a timestamp of the years 1 to 9999 in shop.Order.time"),
        (_time(nanos=-1), "expected a timestamp"),
        (_time(nanos=10**9), "expected a timestamp"),
        (_delay(seconds=315576000001), "expected a duration of at most 10,000 years in shop.Order.delay"),
        (_delay(seconds=1, nanos=-1), "expected a duration"),
        (_delay(seconds=-1, nanos=1), "expected a duration"),
        (_delay(nanos=10**9), "expected a duration"),
        (b"\x6a\x02\x18\x01", "expected a well-known type without unknown fields in shop.Order.time"),
        (b"\x8a\x01\x05\x0a\x03a,b", "expected paths of a field mask without commas in shop.Order.mask"),
        (b"\xa2\x01\x00", "expected a JSON value in shop.Order.value, got none"),
        (b"\xa2\x01\x09\x11\x00\x00\x00\x00\x00\x00\xf8\x7f", "expected a JSON value in shop.Order.value"),
        (b"\xaa\x01\x02\x0a\x00", "expected a JSON value in a google.protobuf.Value"),
    ],
    ids=repr,
)
def test_bytes_that_have_no_json_are_refused(codec: Codec, data: bytes, message: str) -> None:
    """Broken bytes, and values that a JSON form can't have."""
    with pytest.raises(SowlineError) as caught:
        codec.read(MessagePayload(data), SCHEMA)
    assert caught.value.reason == "bad message"
    assert message in caught.value.message


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
    read = _read(codec, data)
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
