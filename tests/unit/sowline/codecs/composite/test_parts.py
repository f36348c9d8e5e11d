"""The parts of composite messages: options, lengths, depth, and hostile bytes."""

from typing import Any

import orjson
import pytest

from sowline.codecs.codec import codec_of
from sowline.codecs.composite import CompositeGlobalCodec, CompositeLocalCodec
from sowline.codecs.schema import COMPOSITE_GLOBAL, COMPOSITE_LOCAL, CodecType, Schema
from sowline.errors import SowlineError
from sowline.model.nesting import NESTING_MAX
from tests.unit.sowline.codecs.composite.messages import (
    BOTH,
    GLOBAL,
    LOCAL,
    WHOLE,
    message,
    packed,
    read,
    schema,
)


def test_the_codecs_of_composites_are_found() -> None:
    """The message types lead to these codecs."""
    assert isinstance(codec_of(LOCAL.reader), CompositeLocalCodec)
    assert isinstance(codec_of(GLOBAL.reader), CompositeGlobalCodec)


@pytest.mark.parametrize(
    ("parts", "local", "all_fields"),
    [
        ((b"", b"", b""), {}, {"#parts": [None, None, None]}),
        ((b"{}", b"", b""), {"0": {}}, {"#parts": ["*", None, None]}),
        (
            (b"", packed(), b"1"),
            {"1": {}, "2": {"data": "MQ=="}},
            {"data": "MQ==", "#parts": [None, "*", ["data"]]},
        ),
    ],
)
def test_parts_of_no_bytes_are_absent(parts: tuple[bytes, ...], local: Any, all_fields: Any) -> None:
    """And come back as such; an object without fields is another thing."""
    data = message(*parts)
    for codec, expected in zip(BOTH, (local, all_fields), strict=True):
        assert orjson.loads(read(codec, data)) == expected
        assert codec.write(read(codec, data)) == data


def test_blanks_around_json_are_not_kept() -> None:
    """All others are, in `composite-local`; `composite-global` keeps those within values."""
    data = message(b' \n{ "a" : [1, 2] }\r\n', b"", b"")
    assert LOCAL.write(read(LOCAL, data)) == message(b'{ "a" : [1, 2] }', b"", b"")
    assert GLOBAL.write(read(GLOBAL, data)) == message(b'{"a":[1, 2]}', b"", b"")


@pytest.mark.parametrize("codec", BOTH)
def test_every_truncated_message_is_refused(codec: CompositeLocalCodec | CompositeGlobalCodec) -> None:
    """At whatever byte it ends."""
    for size in range(len(WHOLE)):
        with pytest.raises(
            SowlineError, match="expected 3 parts, each after its length in 4 bytes"
        ) as caught:
            read(codec, WHOLE[:size])
        assert caught.value.reason == "bad message"


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (WHOLE + b"\0", "expected 3 parts, got 1 bytes after them"),
        (WHOLE + message(b""), "expected 3 parts, got 4 bytes after them"),
        (b"\xff\xff\xff\xff{}", "expected 3 parts, .* with part 0 at byte 0 of 4294967295 bytes"),
        (message(b"{", b"", b""), "part 0: expected a JSON object"),
        (message(b"[]", b"", b""), "part 0: expected a JSON object, got an array"),
        (message(b"{}", b"\xc1", b""), "part 1: expected one map of MessagePack"),
    ],
)
def test_hostile_bytes_are_refused(data: bytes, complaint: str) -> None:
    """Lengths are compared with what is there."""
    for codec in BOTH:
        with pytest.raises(SowlineError, match=complaint) as caught:
            read(codec, data)
        assert caught.value.reason == "bad message"


def test_the_depth_is_limited() -> None:
    """In `composite-local`, a part is one level further down."""
    deepest = b'{"a":' * (NESTING_MAX - 1) + b"{}" + b"}" * (NESTING_MAX - 1)
    body = read(GLOBAL, message(deepest, b"", b""))
    assert GLOBAL.completed(body) == body
    with pytest.raises(SowlineError) as caught:
        read(LOCAL, message(deepest, b"", b""))
    assert caught.value.reason == "too deep"
    less = deepest.replace(b'{"a":', b"", 1)[:-1]
    body = read(LOCAL, message(less, b"", b""))
    assert LOCAL.completed(body) == body
    for codec in BOTH:
        with pytest.raises(SowlineError) as caught:
            read(codec, message(b'{"a":' + deepest + b"}", b"", b""))
        assert caught.value.reason == "too deep"
    with pytest.raises(SowlineError, match="part 1: expected at most 500 levels"):
        read(LOCAL, message(b"", b"\x81\xa1a" + b"\x91" * 600 + b"\xc0", b""))


@pytest.mark.parametrize(
    ("type", "text", "complaint"),
    [
        (COMPOSITE_LOCAL, "{}", "expected a message_format like"),
        (COMPOSITE_LOCAL, '{"parts":[]}', "expected a message_format like"),
        (
            COMPOSITE_LOCAL,
            orjson.dumps({"parts": [{"type": "json"}] * 101}).decode(),
            "expected a message_format",
        ),
        (COMPOSITE_LOCAL, '{"parts":[{"type":"avro"}]}', "expected a message_format like"),
        (COMPOSITE_LOCAL, '{"parts":[{"type":"composite-local"}]}', "expected a message_format like"),
        (COMPOSITE_LOCAL, '{"parts":[{"type":"json"}],"names":{}}', "expected a message_format like"),
        (
            COMPOSITE_GLOBAL,
            '{"parts":[{"type":"json"},{"type":"bson","format":{"a":1}}]}',
            "part 1: expected no",
        ),
        (
            COMPOSITE_GLOBAL,
            '{"parts":[{"type":"binary"},{"type":"binary"}]}',
            "expected at most one part of type",
        ),
    ],
)
def test_wrong_options_are_refused(type: CodecType, text: str, complaint: str) -> None:
    """When a topic is defined."""
    with pytest.raises(SowlineError, match=complaint) as caught:
        codec_of(Schema(type, text))
    assert caught.value.reason == "bad schema"


def test_parts_stay_as_they_are() -> None:
    """Records of the same parts are read, others are not."""
    LOCAL.check_reads(schema(COMPOSITE_LOCAL, "json", "msgpack", "binary"))
    GLOBAL.check_reads(schema(COMPOSITE_GLOBAL, "json", "msgpack", "binary"))
    for parts in (["json", "msgpack"], ["json", "bson", "binary"], ["msgpack", "json", "binary"]):
        with pytest.raises(SowlineError, match=f"expected the parts {', '.join(parts)}, as in") as caught:
            LOCAL.check_reads(schema(COMPOSITE_LOCAL, *parts))
        assert caught.value.reason == "incompatible schema"
    with pytest.raises(
        SowlineError, match="expected records of message type composite-local, got composite-global"
    ):
        LOCAL.check_reads(GLOBAL.reader)
