"""BSON's codec: what is kept, what is refused, and hostile bytes."""

import struct
import tracemalloc

import bson
import pytest
from bson.code import Code
from bson.regex import Regex

from sowline.codecs.bson import BsonCodec
from sowline.codecs.codec import codec_of
from sowline.codecs.schema import MessagePayload
from sowline.errors import SowlineError
from sowline.model.nesting import NESTING_MAX
from tests.unit.sowline.codecs.bson.messages import CODEC, READER, read


def document(*members: bytes) -> bytes:
    """Return a document of members that are bytes already."""
    inside = b"".join(members)
    return struct.pack("<i", len(inside) + 5) + inside + b"\0"


def member(kind: int, data: bytes, name: bytes = b"a") -> bytes:
    """Return a member."""
    return bytes([kind]) + name + b"\0" + data


def text(value: bytes) -> bytes:
    """Return a text with its size."""
    return struct.pack("<i", len(value) + 1) + value + b"\0"


def test_the_codec_of_bson_is_found() -> None:
    """The message type leads to this codec."""
    assert isinstance(codec_of(READER), BsonCodec)


def test_the_order_of_members_is_kept() -> None:
    """Also that of `_id` in a record, which drivers move to the front."""
    message = document(member(10, b"", b"z"), member(10, b"", b"_id"))
    assert read(message) == b'{"z":null,"_id":null}'
    assert CODEC.write(read(message)) == message


def test_the_top_level_is_never_a_value() -> None:
    """A record whose one field is called like a value is a record."""
    assert read(bson.encode({"$oid": "x"})) == b'{"$oid":"x"}'
    assert CODEC.write(b'{"$oid":"x"}') == bson.encode({"$oid": "x"})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (member(18, struct.pack("<q", 5)), member(16, struct.pack("<i", 5))),
        (member(1, struct.pack("<Q", 0xFFF8000000000001)), member(1, struct.pack("<Q", 0x7FF8000000000000))),
        (member(11, b"^a\0xqi\0"), member(11, b"^a\0ix\0")),
        (member(14, text(b"x")), member(2, text(b"x"))),
        (member(6, b""), member(10, b"")),
        (
            member(12, text(b"c") + bytes(12)),
            member(3, document(member(2, text(b"c"), b"$ref"), member(7, bytes(12), b"$id"))),
        ),
        (member(4, document(member(10, b"", b"7"))), member(4, document(member(10, b"", b"0")))),
        (
            member(3, document(member(10, b"", b"$id"), member(2, text(b"c"), b"$ref"))),
            member(3, document(member(2, text(b"c"), b"$ref"), member(10, b"", b"$id"))),
        ),
        (member(10, b"") + member(8, b"\1"), member(8, b"\1")),
    ],
    ids=["int64", "NaN", "options", "symbol", "undefined", "DBPointer", "array", "DBRef", "repeated name"],
)
def test_what_is_not_kept(before: bytes, after: bytes) -> None:
    """Small integers of 64 bits, deprecated types, orders that mean nothing, all but the last of a repeated name."""
    assert CODEC.write(read(document(before))) == document(after)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b'{"a":9223372036854775808}', "expected integers of 64 bits, got a larger one"),
        (b'{"a\\u0000b":1}', "expected what BSON can express, got .*NULL"),
        (b"[]", "expected a JSON object, got an array"),
        (b"{", "expected a JSON object"),
    ],
)
def test_json_that_bson_lacks_is_refused(body: bytes, complaint: str) -> None:
    """The sentence says what is wrong."""
    for write in (CODEC.write, CODEC.write_delta, CODEC.completed):
        with pytest.raises(SowlineError, match=complaint) as caught:
            write(body)
        assert caught.value.reason == "bad message"


WHOLE = bson.encode(
    {"a": [1, 1 << 40, 5.5], "b": {"c": b"12", "d": "x" * 9}, "e": Code("x", {}), "f": Regex("a")}
)


@pytest.mark.parametrize("size", range(len(WHOLE)))
def test_every_truncated_message_is_refused(size: int) -> None:
    """At whatever byte it ends, also if the size of the document is that of what is there."""
    for data in (WHOLE[:size], struct.pack("<i", size) + WHOLE[4:size]):
        with pytest.raises(SowlineError, match="expected one BSON document in") as caught:
            read(data)
        assert caught.value.reason == "bad message"


@pytest.mark.parametrize(
    "data",
    [
        WHOLE + b"\0",
        document(member(2, b"\xff\xff\xff\x7fx\0")),
        document(member(2, b"\xff\xff\xff\xffx\0")),
        document(member(5, b"\xff\xff\xff\x7f\0x")),
        document(member(5, b"\3\0\0\0\2abc")),
        document(member(3, b"\xff\xff\xff\x7f\0")),
        document(member(4, b"\xff\xff\xff\x7f\0")),
        document(member(15, b"\xff\xff\xff\x7f" + text(b"x") + document())),
        document(member(2, text(b"\xff"))),
        document(member(10, b"", b"\xff")),
        document(member(8, b"\2")),
        document(member(32, b"")),
        b"\xff\xff\xff\x7f\0",
    ],
)
def test_hostile_bytes_are_refused(data: bytes) -> None:
    """Sizes of 2 GB cost no memory."""
    tracemalloc.start()
    try:
        with pytest.raises(SowlineError) as caught:
            read(data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert caught.value.reason == "bad message"


@pytest.mark.parametrize(("kind", "levels"), [(3, NESTING_MAX), (4, NESTING_MAX), (15, 254)])
def test_the_depth_is_limited(kind: int, levels: int) -> None:
    """Records have as many levels as those of JSON, and fewer in the scopes of code; more are `too deep`."""
    for depth in (levels // 2 - 1, 1000, 20_000):
        data = document()
        for _ in range(depth):
            inside = struct.pack("<i", 4 + len(text(b"x") + data)) + text(b"x") + data if kind == 15 else data
            data = document(member(kind, inside, b"0"))
        if depth < NESTING_MAX:
            assert CODEC.write(read(data)) == data
            continue
        with pytest.raises(SowlineError) as caught:
            read(data)
        assert caught.value.reason == "too deep"


def test_the_depth_of_json_is_limited() -> None:
    """The limit is exact, and the same for reading and for writing."""
    deepest = b'{"a":' * (NESTING_MAX - 1) + b"{}" + b"}" * (NESTING_MAX - 1)
    assert CODEC.completed(deepest) == deepest
    for body in (b'{"a":' + deepest + b"}", b'{"a":' * 900 + b"5" + b"}" * 900):
        for write in (CODEC.write, CODEC.completed):
            with pytest.raises(SowlineError) as caught:
                write(body)
            assert caught.value.reason == "too deep"
    scopes = b'{"a":' + b'{"$code":"x","$scope":{"a":' * 120 + b"1" + b"}}" * 120 + b"}"
    assert CODEC.completed(scopes) == scopes


def test_deltas_replace_values_and_have_no_paths() -> None:
    """A date is no object to be merged."""
    before = b'{"a":{"b":{"$date":"2026-11-26T12:34:56.789Z"},"c":1}}'
    assert CODEC.merged(before, b'{"a":{"b":{"$minKey":1}}}') == b'{"a":{"b":{"$minKey":1},"c":1}}'
    assert CODEC.merged(before, b'{"a":{"b":{"d":1}}}') == b'{"a":{"b":{"d":1},"c":1}}'
    with pytest.raises(SowlineError, match=r"expected no sow\.fields") as caught:
        CODEC.read_delta(MessagePayload(WHOLE), READER, ["/a"])
    assert caught.value.reason == "bad header"
