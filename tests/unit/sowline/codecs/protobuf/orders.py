"""Orders in Protobuf, with a field of each kind, for the tests of the codec and its parts."""

from collections.abc import Callable

import orjson
import pytest

from sowline.codecs.codec import Codec
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
PROTO2 = Schema(
    "protobuf",
    'syntax = "proto2"; message P { required int32 id = 1; optional string text = 2; repeated string texts = 3;'
    " map<string, string> named = 4; optional P inner = 5; optional group G = 6 { optional int32 x = 1; } extensions"
    " 100 to 199; } extend P { optional int32 extended = 100; }",
)
"""A message with presence, a group and extensions."""

DELTAS = Schema(
    "protobuf",
    'syntax = "proto3"; message Order { message Leg { int32 qty = 1; optional string venue = 2; Leg next = 3; }'
    " message Nothing {} int32 id = 1; optional string note = 2; Leg leg = 3; repeated Leg legs = 4;"
    " map<string, Leg> by_name = 5; oneof party { string trader = 6; Leg broker = 7; int32 desk = 8; }"
    " Nothing nothing = 9; }",
)
"""Orders with a field of each kind that a delta can change."""

CLOSED = Schema(
    "protobuf",
    'syntax = "proto2"; enum Side { BUY = 1; SELL = 2; } message Leg { optional Side side = 1; } message Order {'
    " optional int32 id = 1; optional Side side = 3; repeated Side sides = 4 [packed = false]; optional Leg leg = 5;"
    " oneof party { string trader = 7; Side desk = 8; } }",
    (),
    "Order",
)
"""The enum lacks a symbol 7: it is `GAc=` in `side`, `IAc=` in `sides`, `CAc=` in `leg.side`, `QAc=` in `desk`."""
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

WIRE: list[tuple[bytes, dict[str, object]]] = [
    (b"", {}),
    (b"\x08\x96\x01", {"id": 150}),
    (b"\x11\x00\x00\x00\x00\x00\x00\xf8\x3f", {"price": 1.5}),
    (b"\x1d\x00\x00\x80\x7f", {"rate": "Infinity"}),
    (b"\x22\x02\x01\x02", {"raw": "AQI="}),
    (b"\x28\x01", {"side": "SELL"}),
    (b"\x28\x07", {"side": 7}),
    (b"\x32\x02\x08\x01\x32\x00", {"legs": [{"qty": 1}, {"qty": 0}]}),
    (b"\x3a\x06\x08\x09\x12\x02\x08\x02", {"by_number": {"9": {"qty": 2}}}),
    (b"\x42\x05\x08\x01\x12\x01x", {"flags": {"true": "x"}}),
    (b"\x48\x00", {"camelCase": 0}),
    (b"\x52\x00", {"trader": ""}),
    (b"\x5a\x00", {"broker": {"qty": 0}}),
    (b"\x62\x02\x08\x00", {"other": None}),
    (b"\x6a\x02\x08\x01", {"time": "1970-01-01T00:00:01Z"}),
    (b"\xca\x01\x02\x08\x02", {"parent": {**DEFAULTS, "id": 2}}),
    (b"\xd2\x01\x02\x01\x02", {"ints": [1, 2]}),
    (b"\xda\x01\x02\x08\x01", {"times": ["1970-01-01T00:00:01Z"]}),
    (b"\xe0\x01\x01", {"open": True}),
    (b"\xa0\x06\x01", {"@unknown": {"100": "oAYB"}}),
]
"""The bytes of orders, and their JSON without the defaults."""


def read_as_json(codec: Codec, data: bytes, schema: Schema = SCHEMA) -> object:
    """Return the JSON of a message, parsed."""
    return orjson.loads(codec.read(MessagePayload(data), schema))


def without_defaults(read: object) -> dict[str, object]:
    """Return the members of an order that differ from its defaults."""
    assert isinstance(read, dict)
    return {name: value for name, value in read.items() if name not in DEFAULTS or value != DEFAULTS[name]}


def written_again(codec: Codec, **members: object) -> dict[str, object]:
    """Return what is read of a record that was written with some members, without its defaults."""
    return without_defaults(read_as_json(codec, codec.write(orjson.dumps(members))))


def refusal_of(convert: Callable[[bytes], object], data: bytes) -> str:
    """Return the message with which data is refused as a `bad message`."""
    with pytest.raises(SowlineError) as caught:
        convert(data)
    assert caught.value.reason == "bad message"
    return caught.value.message


def nested_orders(levels: int, tag: bytes = b"\xca\x01") -> bytes:
    """Return the bytes of an order in an order, so many levels deep."""
    data = b""
    for _ in range(levels):
        length, size = len(data), b""
        while length > 127:
            size += bytes([length & 127 | 128])
            length >>= 7
        data = tag + size + bytes([length]) + data
    return data
