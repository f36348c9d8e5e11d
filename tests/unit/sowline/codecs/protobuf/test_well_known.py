"""The JSON forms of Protobuf's well-known types: times, durations, wrappers, JSON values and others."""

from functools import partial

import orjson
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from sowline.codecs.codec import Codec, codec_of
from tests.unit.sowline.codecs.protobuf.orders import SCHEMA, read_as_json, refusal_of, written_again


@pytest.fixture
def codec() -> Codec:
    """The codec of an order."""
    return codec_of(SCHEMA)


def _time(seconds: int = 0, nanos: int = 0) -> bytes:
    content = Timestamp(seconds=seconds, nanos=nanos).SerializeToString()
    return b"\x6a" + bytes([len(content)]) + content


def _delay(seconds: int = 0, nanos: int = 0) -> bytes:
    content = Duration(seconds=seconds, nanos=nanos).SerializeToString()
    return b"\x72" + bytes([len(content)]) + content


@pytest.mark.parametrize(
    "members",
    [
        {"time": "0001-01-01T00:00:00Z"},
        {"time": "9999-12-31T23:59:59.999999999Z"},
        {"time": "1969-12-31T23:59:59.900Z"},
        {"time": "2026-11-26T12:34:56.000001Z"},
        {"delay": "1.500s"},
        {"delay": "-0.000000001s"},
        {"delay": "-315576000000.999s"},
        {"limit": 0},
        {"limit": -(2**63)},
        {"struct": {"a": [None, 1.0, "x", True, {}, []], "b": {"c": None}}},
        {"mask": ""},
        {"mask": "a,b_c.d"},
        {"empty": {}},
        {"any": {"@type": "type.googleapis.com/shop.Order", "value": "CAE="}},
        {"value": None},
        {"value": [[{"a": None}]]},
        {"list": []},
    ],
    ids=str,
)
def test_a_canonical_form_comes_back(codec: Codec, members: dict[str, object]) -> None:
    """As it was."""
    assert written_again(codec, **members) == members


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ({"time": "2026-11-26t14:34:56.5+02:00"}, {"time": "2026-11-26T12:34:56.500Z"}),
        ({"delay": "1.5s"}, {"delay": "1.500s"}),
        ({"delay": "-0s"}, {"delay": "0s"}),
    ],
    ids=str,
)
def test_a_form_need_not_be_canonical(
    codec: Codec, given: dict[str, object], canonical: dict[str, object]
) -> None:
    """Times may have an offset, and durations fewer digits."""
    assert written_again(codec, **given) == canonical


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"time": "2026-02-30T00:00:00Z"}, "expected a time like 2026-11-26T12:34:56.789Z in /time"),
        ({"time": "0001-01-01T00:00:00+01:00"}, "expected a time like"),
        ({"time": 5}, "expected a time like"),
        ({"delay": "315576000001s"}, "expected a duration like 1.500s in /delay"),
        ({"delay": "1.5"}, "expected a duration like"),
        ({"limit": "x" * 100}, "in /limit, got 'xxx"),
        ({"mask": "a,,b"}, "expected paths with commas between them in /mask"),
        ({"any": {"@type": "x"}}, "expected an object with @type and value, both texts in /any"),
        ({"struct": []}, "expected an object in /struct, got an array"),
        ({"list": {}}, "expected an array in /list, got an object"),
    ],
    ids=str,
)
def test_another_form_is_refused(codec: Codec, members: dict[str, object], message: str) -> None:
    """The message names the path and what was expected."""
    assert message in refusal_of(codec.write, orjson.dumps(members))


@pytest.mark.parametrize(
    ("data", "message"),
    [
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
def test_a_value_without_a_json_form_is_refused(codec: Codec, data: bytes, message: str) -> None:
    """Protobuf takes it."""
    assert message in refusal_of(partial(read_as_json, codec), data)
