"""MessagePack's codec: canonical JSON of each type, what is refused, and hostile bytes."""

import tracemalloc
from typing import Any

import msgspec
import orjson
import pytest
from msgspec.msgpack import Ext

from sowline.codecs.codec import codec_of
from sowline.codecs.msgpack import MsgpackCodec
from sowline.codecs.schema import BSON, MSGPACK, MessagePayload, Schema
from sowline.errors import SowlineError
from sowline.model.merge import DEPTH_MAX
from sowline.model.nesting import NESTING_MAX

READER = Schema(MSGPACK, "{}")
CODEC = MsgpackCodec(READER)


def read(data: bytes) -> bytes:
    """Return the canonical JSON of a message."""
    return CODEC.read(MessagePayload(data), READER)


def of(value: bytes) -> bytes:
    """Return a message with one key, `a`, and the bytes of its value."""
    return b"\x81\xa1a" + value


def test_the_codec_of_messagepack_is_found() -> None:
    """The message type leads to this codec."""
    assert isinstance(codec_of(READER), MsgpackCodec)


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        (None, "null"),
        (True, "true"),
        ((1 << 64) - 1, "18446744073709551615"),
        (-(1 << 63), "-9223372036854775808"),
        (5.0, "5.0"),
        (-0.0, "-0.0"),
        (1e-7, "1e-7"),
        (float("nan"), '{"$float":"NaN"}'),
        (float("inf"), '{"$float":"Infinity"}'),
        (float("-inf"), '{"$float":"-Infinity"}'),
        ([1, None, float("inf")], '[1,null,{"$float":"Infinity"}]'),
        ("é\0$", '"é\\u0000$"'),
        (b"", '{"$binary":""}'),
        (b"\xff\0", '{"$binary":"/wA="}'),
        (Ext(0, b""), '{"$ext":[0,""]}'),
        (Ext(-128, b"ab"), '{"$ext":[-128,"YWI="]}'),
        (Ext(-1, bytes(4)), '{"$timestamp":"1970-01-01T00:00:00.000000000Z"}'),
        (Ext(-1, b"\xff" * 4), '{"$timestamp":"2106-02-07T06:28:15.000000000Z"}'),
        (Ext(-1, bytes.fromhex("0000000400000000")), '{"$timestamp":"1970-01-01T00:00:00.000000001Z"}'),
        (
            Ext(-1, bytes.fromhex("3b9ac9ffffffffffffffffff")),
            '{"$timestamp":"1969-12-31T23:59:59.999999999Z"}',
        ),
        (
            Ext(-1, bytes.fromhex("00000000fffffff1886e0900")),
            '{"$timestamp":"0001-01-01T00:00:00.000000000Z"}',
        ),
        (Ext(-1, bytes.fromhex("00000000fffffff1886e08ff")), '{"$timestamp":[-62135596801,0]}'),
        (Ext(-1, bytes.fromhex("000000053fffffffffffffff")), '{"$timestamp":[4611686018427387903,5]}'),
        # not what the format calls a timestamp
        (Ext(-1, b"\xff" * 8), '{"$ext":[-1,"//////////8="]}'),
        (Ext(-1, b"abc"), '{"$ext":[-1,"YWJj"]}'),
        ({"$gt": 5}, '{"$gt":5}'),
        ({"$binary": 5, "b": 6}, '{"$binary":5,"b":6}'),
    ],
)
def test_a_value_has_one_canonical_form(value: Any, canonical: str) -> None:
    """It is read as that JSON, and that JSON is written as the same bytes."""
    message = msgspec.msgpack.encode({"a": value})
    body = f'{{"a":{canonical}}}'.encode()
    assert read(message) == body
    assert CODEC.write(body) == message


def test_the_top_level_is_never_a_value() -> None:
    """A record whose one field is called like a value is a record."""
    assert read(msgspec.msgpack.encode({"$binary": "AA=="})) == b'{"$binary":"AA=="}'
    assert CODEC.write(b'{"$binary":"AA=="}') == msgspec.msgpack.encode({"$binary": "AA=="})


def test_what_is_not_kept() -> None:
    """Widths, floats of 32 bits, the bits of NaN, repeated keys: the last value of a key counts, as in JSON."""
    for message, kept in [
        (of(b"\xcd\0\5"), of(b"\5")),
        (of(b"\xca\x3e\x80\0\0"), of(b"\xcb\x3f\xd0\0\0\0\0\0\0")),
        (of(b"\xca\xff\xc0\0\1"), of(b"\xcb\x7f\xf8\0\0\0\0\0\0")),
        (of(b"\xc7\x08\xff\0\0\0\0\0\0\0\1"), of(b"\xd6\xff\0\0\0\1")),
        (b"\xde\0\2\xa1a\1\xa1a\2", of(b"\2")),
    ]:
        assert CODEC.write(read(message)) == kept


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"$binary": 5}, "expected bytes as base64 text"),
        ({"$binary": "AAE"}, "expected bytes as base64 text"),
        ({"$float": "nan"}, "expected NaN, Infinity or -Infinity as text"),
        ({"$float": 5}, "expected NaN, Infinity or -Infinity as text"),
        ({"$ext": [128, ""]}, "expected an array of the extension's type from -128 to 127"),
        ({"$ext": [True, ""]}, "expected an array of the extension's type"),
        ({"$ext": [1]}, "expected an array of the extension's type"),
        ({"$ext": [1, "?"]}, "expected bytes as base64 text"),
        ({"$timestamp": 5}, "expected a time like 2026-11-26T12:34:56.789789789Z"),
        ({"$timestamp": "2026-02-30T00:00:00Z"}, "expected a time like"),
        ({"$timestamp": "2026-11-26T12:34:56.1234567890Z"}, "expected a time like"),
        ({"$timestamp": [1, 10**9]}, "expected an array of the seconds since 1970 and the nanoseconds"),
        ({"$timestamp": [1 << 63, 0]}, "expected an array of the seconds since 1970"),
        ({"$timestamp": [1, 1.5]}, "expected an array of the seconds since 1970"),
    ],
)
def test_what_looks_like_a_value_and_is_none_is_refused(value: Any, complaint: str) -> None:
    """Neither JSON with it is written, nor a map with it read: it would come back as something else, or never."""
    with pytest.raises(SowlineError) as caught:
        CODEC.write(orjson.dumps({"b": [value]}))
    assert caught.value.reason == "bad message"
    assert caught.value.message.startswith(complaint)
    assert f"got {orjson.dumps(value).decode()}" in caught.value.message
    with pytest.raises(SowlineError, match="expected no map whose only names are \\$") as caught:
        read(msgspec.msgpack.encode({"b": [value]}))
    assert caught.value.reason == "bad message"


def test_times_may_have_fewer_digits() -> None:
    """A client's time without a fraction is the same time."""
    body = b'{"a":{"$timestamp":"2026-11-26T12:34:56.5Z"},"b":{"$timestamp":"2026-11-26T12:34:56Z"}}'
    assert orjson.loads(CODEC.completed(body)) == {
        "a": {"$timestamp": "2026-11-26T12:34:56.500000000Z"},
        "b": {"$timestamp": "2026-11-26T12:34:56.000000000Z"},
    }


WHOLE = msgspec.msgpack.encode(
    {"a": [1, 300, 70000, 1 << 40, -1, -300, 5.5], "b": {"c": b"12", "d": "x" * 40}, "e": Ext(-1, bytes(12))}
)


@pytest.mark.parametrize("size", range(len(WHOLE)))
def test_every_truncated_message_is_refused(size: int) -> None:
    """At whatever byte it ends."""
    with pytest.raises(SowlineError, match=f"expected one map of MessagePack .* in {size} bytes") as caught:
        read(WHOLE[:size])
    assert caught.value.reason == "bad message"


@pytest.mark.parametrize(
    "data",
    [
        b"\1",
        b"\x90",
        b"\xa1a",
        b"\xc1",
        WHOLE + b"\0",
        WHOLE + WHOLE,
        b"\x81\1\2",  # a key that is no text
        b"\x81\xc4\1a\1",
        b"\x81\xa1\xff\1",  # no UTF-8
        of(b"\xa3\xed\xa0\x80"),  # half of a surrogate pair
        of(b"\xdd\xff\xff\xff\xff"),
        of(b"\xdf\xff\xff\xff\xff"),
        of(b"\xc6\xff\xff\xff\xff"),
        of(b"\xdb\xff\xff\xff\xff"),
        of(b"\xc9\xff\xff\xff\xff\5"),
        of(b"\xdd\0\x0f\xff\xff" * 100),
        b"\xdf\xff\xff\xff\xff",
    ],
)
def test_hostile_bytes_are_refused(data: bytes) -> None:
    """Sizes of 4 GB cost no memory."""
    tracemalloc.start()
    try:
        with pytest.raises(SowlineError) as caught:
            read(data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert caught.value.reason == "bad message"


def test_the_depth_is_limited() -> None:
    """Records have as many levels as those of JSON, whatever the values; more are `too deep` on every way."""
    for value in (b"", b"\xc0"):
        levels = NESTING_MAX - (1 if value else 2)
        message = of(b"\x91" * levels + (value or b"\xc4\0"))
        body = read(message)
        assert CODEC.write(body) == message
        assert CODEC.completed(body) == body
        for deeper in (levels + 1, 1000, 1030, 100_000):
            with pytest.raises(SowlineError) as caught:
                read(of(b"\x91" * deeper + (value or b"\xc4\0")))
            assert caught.value.reason == "too deep"
    for levels in (NESTING_MAX + 1, 700, 900):
        with pytest.raises(SowlineError) as caught:
            CODEC.write(b'{"a":' * levels + b"5" + b"}" * levels)
        assert caught.value.reason == "too deep"


def test_merging_has_a_depth() -> None:
    """As for JSON, also where values are merged."""
    deep = b'{"a":' * (DEPTH_MAX + 1) + b'{"$binary":"AA=="}' + b"}" * (DEPTH_MAX + 1)
    with pytest.raises(SowlineError) as caught:
        CODEC.merged(deep, deep)
    assert caught.value.reason == "too deep"
    less = b'{"a":' * DEPTH_MAX + b'{"$binary":"AA=="}' + b"}" * DEPTH_MAX
    assert CODEC.merged(less, less.replace(b"AA==", b"AAE=")) == less.replace(b"AA==", b"AAE=")


def test_deltas_have_no_paths() -> None:
    """The message shows what it changes."""
    with pytest.raises(SowlineError, match=r"expected no sow\.fields") as caught:
        CODEC.read_delta(MessagePayload(WHOLE), READER, ["/a"])
    assert caught.value.reason == "bad header"


def test_there_are_no_options() -> None:
    """A typing error in topics.yaml is found."""
    with pytest.raises(
        SowlineError, match="expected no message_format for topics of message type msgpack"
    ) as caught:
        codec_of(Schema(MSGPACK, '{"separator":"|"}'))
    assert caught.value.reason == "bad schema"


def test_records_of_another_type_are_not_read() -> None:
    """Those of this one always are."""
    CODEC.check_reads(READER)
    with pytest.raises(SowlineError, match="expected records of message type msgpack, got bson") as caught:
        CODEC.check_reads(Schema(BSON, "{}"))
    assert caught.value.reason == "incompatible schema"


def test_records_are_described_as_objects() -> None:
    """Nothing else is known of them."""
    assert CODEC.described()["type"] == "object"
