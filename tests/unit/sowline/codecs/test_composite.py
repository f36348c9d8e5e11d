"""The codecs of composite messages: parts, options, deltas, and hostile bytes."""

import struct
from typing import Any

import jsonschema_rs
import msgspec
import orjson
import pytest

from sowline.codecs.codec import codec_of
from sowline.codecs.composite import CompositeGlobalCodec, CompositeLocalCodec
from sowline.codecs.composite.local_parts import renamed
from sowline.codecs.schema import COMPOSITE_GLOBAL, COMPOSITE_LOCAL, CodecType, MessagePayload, Schema
from sowline.errors import SowlineError
from sowline.model.nesting import NESTING_MAX


def schema(type: CodecType, *parts: str) -> Schema:
    """Return the options of a topic whose messages have parts of these types."""
    return Schema(type, orjson.dumps({"parts": [{"type": part} for part in parts]}).decode())


LOCAL = CompositeLocalCodec(schema(COMPOSITE_LOCAL, "json", "msgpack", "binary"))
GLOBAL = CompositeGlobalCodec(schema(COMPOSITE_GLOBAL, "json", "msgpack", "binary"))
BOTH: list[CompositeLocalCodec | CompositeGlobalCodec] = [LOCAL, GLOBAL]


def message(*parts: bytes) -> bytes:
    """Return the bytes of a message with these parts."""
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def packed(**fields: Any) -> bytes:
    """Return a map of MessagePack."""
    return msgspec.msgpack.encode(fields)


def read(codec: CompositeLocalCodec | CompositeGlobalCodec, data: bytes) -> bytes:
    """Return the canonical JSON of a message."""
    return codec.read(MessagePayload(data), codec.reader)


def read_delta(data: bytes) -> bytes:
    """Return the canonical JSON of a delta of parts."""
    return LOCAL.read_delta(MessagePayload(data), LOCAL.reader, None)


def test_the_codecs_of_composites_are_found() -> None:
    """The message types lead to these codecs."""
    assert isinstance(codec_of(LOCAL.reader), CompositeLocalCodec)
    assert isinstance(codec_of(GLOBAL.reader), CompositeGlobalCodec)


def test_parts_are_by_their_numbers() -> None:
    """JSON is kept byte for byte; other types are canonical."""
    data = message(b'{"id": 5, "x": 1.50}', packed(b=b"1"), b"\0")
    body = b'{"0":{"id": 5, "x": 1.50},"1":{"b":{"$binary":"MQ=="}},"2":{"data":"AA=="}}'
    assert read(LOCAL, data) == body
    assert LOCAL.write(body) == data


def test_fields_are_side_by_side() -> None:
    """`#parts` says which part has which; the values of JSON keep their text."""
    data = message(b'{"id":5,"x":1.50}', packed(b=b"1"), b"\0")
    body = b'{"id":5,"x":1.50,"b":{"$binary":"MQ=="},"data":"AA==","#parts":["*",["b"],["data"]]}'
    assert read(GLOBAL, data) == body
    assert GLOBAL.write(body) == data


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


def test_a_delta_of_one_part_leaves_the_others() -> None:
    """The chapters' case: the JSON part changes without the binary one being published again."""
    record = read(LOCAL, message(b'{"id":1,"px":5}', packed(a=b"1", b=2), b"large"))
    delta = read_delta(message(b'{"px":6}', b"", b""))
    assert LOCAL.write(LOCAL.merged(record, delta)) == message(
        b'{"id":1,"px":6}', packed(a=b"1", b=2), b"large"
    )
    delta = read_delta(message(b"", packed(a=msgspec.msgpack.Ext(5, b"")), b"new"))
    assert LOCAL.write(LOCAL.merged(record, delta)) == message(
        b'{"id":1,"px":5}', packed(a=msgspec.msgpack.Ext(5, b""), b=2), b"new"
    )


def test_a_new_part_gets_its_position() -> None:
    """Whatever the order in which parts came."""
    record = read(LOCAL, message(b"", b"", b"1"))
    merged = LOCAL.merged(record, read_delta(message(b'{"a":1}', b"", b"")))
    assert LOCAL.completed(merged) == b'{"0":{"a":1},"2":{"data":"MQ=="}}'


def test_a_delta_of_all_fields_replaces_the_record() -> None:
    """`composite-global` has no deltas."""
    assert GLOBAL.merged(b'{"a":1,"#parts":["*",null,null]}', b'{"#parts":["*",null,null]}') == (
        b'{"#parts":["*",null,null]}'
    )


def test_fields_that_are_added_are_those_of_the_rest() -> None:
    """A record that enrichment has given a field can be written."""
    body = b'{"a":1,"data":"MQ==","new":2,"#parts":["*",null,["data"]]}'
    assert GLOBAL.write(body) == message(b'{"a":1,"new":2}', b"", b"1")
    assert GLOBAL.completed(b'{"a":1,"#parts":["*",null,null],"new":2}') == (
        b'{"a":1,"new":2,"#parts":["*",null,null]}'
    )


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"[]", "expected a JSON object"),
        (b'{"3":{}}', "expected only the numbers of parts, from 0 to 2, got the field '3'"),
        (b'{"00":{}}', "expected only the numbers of parts"),
        (b'{"0":5}', "part 0: expected a JSON object, got a number"),
        (b'{"1":{"a":{"$ext":5}}}', "part 1: expected an array of the extension's type"),
        (b'{"2":{"data":""}}', "part 2: expected at least one byte, got an empty part: leave it out"),
        (b'{"2":{"text":""}}', "part 2: expected an object like"),
    ],
)
def test_other_json_is_not_written_as_parts(body: bytes, complaint: str) -> None:
    """The sentence names the part."""
    for write in (LOCAL.write, LOCAL.write_delta, LOCAL.completed):
        with pytest.raises(SowlineError) as caught:
            write(body)
        assert caught.value.reason == "bad message"
        assert caught.value.message.startswith(complaint)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"[]", "expected a JSON object"),
        (b'{"a":1}', "expected #parts as an array of 3 entries"),
        (b'{"a":1,"#parts":["*",null]}', "expected #parts as"),
        (b'{"a":1,"#parts":["*","*",null]}', "expected #parts as"),
        (b'{"a":1,"#parts":["?",null,null]}', "expected #parts as"),
        (b'{"a":1,"#parts":[["a"],["a"],null]}', "expected #parts as"),
        (b'{"a":1,"#parts":[["b"],null,null]}', "expected #parts to list all fields"),
        (b'{"a":1,"#parts":["*",["b"],null]}', "expected the fields that #parts lists, got none called 'b'"),
        (b'{"a":1,"#parts":[null,null,"*"]}', "part 2: expected an object like"),
    ],
)
def test_other_json_is_not_written_as_fields(body: bytes, complaint: str) -> None:
    """It must be clear which part each field is of."""
    for write in (GLOBAL.write, GLOBAL.write_delta, GLOBAL.completed):
        with pytest.raises(SowlineError) as caught:
            write(body)
        assert caught.value.reason == "bad message"
        assert caught.value.message.startswith(complaint)


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        (
            (b'{"a":1}', packed(a=1), b""),
            "part 1: expected fields that no other part has, got 'a', which an earlier part also has",
        ),
        (
            (b'{"#parts":1}', b"", b""),
            "part 0: expected fields that no other part has, got '#parts', which is reserved",
        ),
    ],
)
def test_fields_in_common_are_refused(parts: tuple[bytes, ...], complaint: str) -> None:
    """One of them would be lost."""
    with pytest.raises(SowlineError) as caught:
        read(GLOBAL, message(*parts))
    assert caught.value.reason == "bad message"
    assert caught.value.message.startswith(complaint)
    assert LOCAL.write(read(LOCAL, message(*parts))) == message(*parts)


WHOLE = message(b'{"a":1}', packed(b=1), b"12")


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


def test_deltas_have_no_paths() -> None:
    """The message shows what it changes."""
    for codec in BOTH:
        with pytest.raises(SowlineError, match=r"expected no sow\.fields") as caught:
            codec.read_delta(MessagePayload(WHOLE), codec.reader, ["/0/a"])
        assert caught.value.reason == "bad header"


@pytest.mark.parametrize("codec", BOTH)
def test_canonical_json_is_as_described(codec: CompositeLocalCodec | CompositeGlobalCodec) -> None:
    """Parts of no bytes, too."""
    validator = jsonschema_rs.validator_for(codec.described())
    for data in (WHOLE, message(b"", packed(c=1), b""), message(b"", b"", b"1")):
        validator.validate(orjson.loads(read(codec, data)))
    assert not validator.is_valid({"2": {"data": 5}, "#parts": 5})


def test_the_definitions_of_parts_have_names_of_their_own() -> None:
    """References within a part's schema lead to the same schemas as before."""
    part = {
        "$defs": {"leg": {"$ref": "#"}},
        "items": [{"$ref": "#/$defs/leg"}, {"$ref": "#/items/0"}],
        "x": 5,
    }
    assert renamed(part, "7") == {
        "$defs": {"leg": {"$ref": "#/properties/7"}},
        "items": [{"$ref": "#/$defs/7.leg"}, {"$ref": "#/properties/7/items/0"}],
        "x": 5,
    }
