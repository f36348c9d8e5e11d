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


def read_as_json(codec: Codec, data: bytes, schema: Schema = SCHEMA) -> object:
    """Return the JSON of a message, parsed."""
    return orjson.loads(codec.read(MessagePayload(data), schema))


def written_again(codec: Codec, **members: object) -> object:
    """Return what is read of a record that was written with some members, without its defaults."""
    read = read_as_json(codec, codec.write(orjson.dumps(members)))
    assert isinstance(read, dict)
    return {name: value for name, value in read.items() if name not in DEFAULTS or value != DEFAULTS[name]}


def refusal_of(convert: Callable[[bytes], object], data: bytes) -> str:
    """Return the message with which data is refused as a `bad message`."""
    with pytest.raises(SowlineError) as caught:
        convert(data)
    assert caught.value.reason == "bad message"
    return caught.value.message
