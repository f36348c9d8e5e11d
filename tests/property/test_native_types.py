"""The native core reads FIX, NVFIX and MessagePack as their codecs do, and applies them as Python does."""

import json
import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any
from unittest.mock import patch

import msgspec
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.codecs.codec import Codec, codec_of
from sowline.codecs.framing import frame
from sowline.codecs.resolutions import Resolution, entry_value, id_key, reader_key
from sowline.codecs.schema import AVRO, FIX, MSGPACK, PROTOBUF, CodecType, MessagePayload, Schema
from sowline.codecs.typed_bodies import ReadBody, TypedBodies
from sowline.commands.command import Headers
from sowline.config.topic_definition import define_topic
from sowline.model.limits import define_value
from sowline_materializer.store.native_format import native_format
from tests.fuzz.inputs import value
from tests.property.log_inputs import HEADERS
from tests.property.test_fix import FIX_SCHEMAS, NVFIX_SCHEMAS, fix_bodies, fix_headers, framed, tag_messages
from tests.property.test_msgpack import MAPS
from tests.property.two_cores import apply_alike, log_records, native, partition_of, state_of

PACKED = Schema(MSGPACK, "{}")
NAMED = Schema(FIX, orjson.dumps({"names": {"8": "BeginString", "35": 'Msg"Type', "11": "Id"}}).decode())
SCHEMAS = [*FIX_SCHEMAS, *NVFIX_SCHEMAS, PACKED, NAMED]
READERS = [(codec_of(schema), native_format(native, schema), schema) for schema in SCHEMAS]
PIECES = [
    b"\x01",
    b"|",
    b"=",
    b"8=",
    b"9=5\x01",
    b"10=000",
    b"35=D\x01",
    b"\xff",
    b"\xc3\xa9",
    b'"',
    b"\\",
    b"\x00",
]
NUMBERS = [0.0, -0.0, 1e16, 1e-4, 9.9e-5, 0.1, 123456.789, float("inf"), 2**63, -(2**63), 2**64 - 1, -33, 128]


def check_message(codec: Codec, reader: Any, schema: Schema, message: bytes) -> bool:
    """Compare what the native core and the codec make of a message; return whether the native core read it."""
    mine = reader.read(message)
    if mine is None:
        return False
    body = codec.read(MessagePayload(message), schema)
    assert mine == body, message
    assert codec.completed(body) == body
    return True


def check_completed(codec: Codec, reader: Any, body: bytes) -> bool:
    """Compare what both make of JSON; return whether the native core judged it."""
    mine = reader.completed(body)
    if mine is not None:
        assert mine == codec.completed(body), body
    return mine is not None


def damaged(chance: Random, message: bytes) -> bytes:
    """Return a message with odd pieces in it, or some that are missing or come again."""
    text = bytearray(message)
    for _ in range(chance.randrange(3)):
        at, end = sorted(chance.randrange(len(text) + 1) for _ in range(2))
        match chance.randrange(4):
            case 0:
                text[at:at] = chance.choice(PIECES)
            case 1:
                text[at:at] = bytes([chance.randrange(256)])
            case 2:
                text[at:at] = text[at:end]
            case _:
                del text[at : at + chance.randrange(3)]
    return bytes(text)


def drawn_message(chance: Random) -> bytes:
    """Return a message of any of the types, perhaps a damaged one."""
    if chance.random() < 0.4:
        text = json.dumps({"id": 1, **{name: value(chance) for name in chance.sample("ab$c", 2)}})
        whole = msgspec.msgpack.encode(json.loads(text, parse_int=lambda digits: int(digits) % 2**64))
        return damaged(chance, whole)
    separator = chance.choice([b"\x01", b"|"])
    tags = chance.choices(
        ["1", "8", "11", "35", "49", "55", "58", "89", "95", "453", "5001"], k=chance.randrange(1, 9)
    )
    texts = ["", "a", "é", 'q"', "b\\", "\n", "1", "x" * 20]
    rest = b"".join(f"{tag}={chance.choice(texts)}".encode() + separator for tag in tags)
    is_framed = chance.random() < 0.5
    return damaged(chance, framed(b"8=F", b"35=D" + separator + rest, separator) if is_framed else rest)


FRAMED = st.builds(
    lambda begin, kind, head, body: framed(b"8=" + begin, b"35=" + kind + b"\x01" + head + body),
    st.sampled_from([b"FIX.4.2", b"", b"\xff"]),
    st.sampled_from([b"D", b"W", b""]),
    fix_headers,
    fix_bodies,
)
PLAIN_FIELDS = st.lists(
    st.tuples(st.sampled_from([8, 11, 1, 49, 52, 55, 89, 58, 5001]), st.text(max_size=9)),
    min_size=1,
    max_size=9,
).map(lambda fields: "".join(f"{tag}={value}\x01" for tag, value in fields).encode())
FIX_MESSAGES = st.one_of(
    FRAMED,
    PLAIN_FIELDS,
    PLAIN_FIELDS.map(lambda rest: framed(b"8=FIX.4.4", b"35=D\x01" + rest)),
    fix_bodies,
    tag_messages(),
    st.binary(),
)
PLAIN_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=3), inner, max_size=20),
    max_leaves=30,
)
PACKED_MESSAGES = st.one_of(
    st.dictionaries(st.text(max_size=40), PLAIN_VALUES, max_size=20).map(msgspec.msgpack.encode),
    MAPS.map(msgspec.msgpack.encode),
    st.sampled_from(NUMBERS).map(lambda number: msgspec.msgpack.encode({"a": number})),
    st.floats(width=32).map(lambda number: b"\x81\xa1a\xca" + struct.pack(">f", number)),
    st.binary(),
)


@given(FIX_MESSAGES | PACKED_MESSAGES, st.randoms(use_true_random=False))
@example(framed(b"8=FIX.4.4", b"35=D\x0155=a\x0149=b\x0189=c\x0111=d\x01"), Random(0))
@example(b"8=FIX.4.4\x019=0005\x0135=D\x0110=181", Random(0))
@example(b"\x81\xa1a\xd9\x02\xc3\xa9", Random(0))
@example(b"\xdf\0\0\0\1\xdb\0\0\0\1a\xdd\0\0\0\1\xda\0\1b", Random(0))
@example(b"\x82\xa1a\x01\xa1a\x02", Random(0))
@example(b"\x81\xa1a" + b"\x91" * 120 + b"\x01", Random(0))
def test_messages_are_read_as_the_codecs_read_them(message: bytes, chance: Random) -> None:
    """Whole messages and damaged ones, under all options: the same JSON, or Python reads them."""
    for codec, reader, schema in READERS:
        for one in (message, damaged(chance, message)):
            check_message(codec, reader, schema, one)


TEXTS = st.text(max_size=5) | st.sampled_from(["a|b", "a\x01b", "\u2028", '"', "\\u0001"])
JSON = st.dictionaries(
    st.sampled_from(
        ["8", "35", "49", "89", "11", "9", "453", "95", "96", "Id", "BeginString", 'Msg"Type', "size"]
    ),
    st.one_of(TEXTS, TEXTS, TEXTS, TEXTS, st.lists(TEXTS), st.integers(), st.just({"$base64": "/w=="})),
    max_size=6,
)


@given(JSON, st.booleans())
@example({"8": "FIX.4.4", "55": "a", "35": "D", "49": "b", "89": "c", "11": "d"}, False)
def test_records_are_completed_as_the_codecs_complete_them(
    document: dict[str, Any], is_escaped: bool
) -> None:
    """What a delta may make of a record: other orders, values that are no texts, and escapes of another kind."""
    body = msgspec.json.encode(document)
    if is_escaped:
        body = body.replace(b"a", b"\\u0061")
    for codec, reader, schema in READERS:
        if schema is not PACKED:
            check_completed(codec, reader, body)


def test_plain_messages_are_not_left_to_python() -> None:
    """Framed and not, with names and without, with quotes in their values, in any order; and maps of all sizes."""
    texts = [b'11=1\x0158=say "hi" \\ \t\x01', framed(b"8=FIX.4.4", b"35=D\x0158=a=b\x0189=x\x0134=1\x01")]
    fix, named = (native_format(native, schema) for schema in (FIX_SCHEMAS[0], NAMED))
    assert [orjson.loads(fix.read(text)) for text in texts] == [
        {"11": "1", "58": 'say "hi" \\ \t'},
        {"8": "FIX.4.4", "35": "D", "34": "1", "58": "a=b", "89": "x"},
    ]
    assert named.read(b"11=1\x01") == b'{"Id":"1"}'
    assert fix.completed(b'{"89":"x","8":"F","1":"\\"","35":"D"}') == b'{"8":"F","35":"D","1":"\\"","89":"x"}'
    document = {"n": None, "b": [True, False], "i": [-1, -200, 2**40, 2**64 - 1], "d": 0.5, "t": "é" * 300}
    packed = native_format(native, PACKED)
    assert orjson.loads(packed.read(msgspec.msgpack.encode({"o": document}))) == {"o": document}


A_DELTA: Headers = [("sow.command", b"delta_publish")]
KEYS = {FIX: "/11", "nvfix": "/id", MSGPACK: "/id"}
FIELDS = st.lists(
    st.tuples(
        st.sampled_from(["1", "8", "35", "38", "49", "55", "58", "89", "453", "95"]),
        st.sampled_from(["", "a", "b", "1", 'q"', "\t", "é", "x" * 900]),
    ),
    max_size=4,
)


@st.composite
def sent_fields(draw: st.DrawFn, name: str) -> bytes:
    """Draw a message with a key, which may come again or be missing."""
    fields = [(name, draw(st.sampled_from(["0", "1", "2", "é", 'q"', ""]))), *draw(FIELDS)]
    fields = fields if draw(st.integers(0, 5)) else draw(st.permutations([*fields, *fields[:1]]))[1:]
    rest = "".join(f"{tag}={value}\x01" for tag, value in fields).encode()
    is_framed = name == "11" and draw(st.booleans())
    return framed(b"8=FIX.4.4", b"35=D\x01" + rest) if is_framed else rest


PARTS = st.recursive(
    st.none() | st.sampled_from([1, 2.5, 1e20, "a$b", b"\xff", float("nan")]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "b", "$float", "$x"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@st.composite
def sent_maps(draw: st.DrawFn) -> bytes:
    """Draw a map with a key."""
    more = draw(st.dictionaries(st.sampled_from(["a", "b", "$float"]), PARTS, max_size=3))
    return msgspec.msgpack.encode({"id": draw(st.sampled_from([0, 1, "1", True, 1.0])), **more})


AVRO_TEXT = orjson.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "qty", "type": ["null", "long"], "default": None},
            {"name": "note", "type": "string", "default": ""},
        ],
    }
).decode()
PROTOBUF_TEXT = 'syntax = "proto3"; message Order { string id = 1; optional int64 qty = 2; string note = 3; }'
SCHEMED = {AVRO: AVRO_TEXT, PROTOBUF: PROTOBUF_TEXT}


@st.composite
def sent_records(draw: st.DrawFn, type: CodecType) -> bytes:
    """Draw a message of a schema, which may not exist, or a damaged one."""
    body = {
        "id": draw(st.sampled_from(["0", "1", "é", 'q"', ""])),
        "qty": draw(st.none() | st.integers(0, 3)),
        "note": draw(st.sampled_from(["", "a", "x" * 900])),
    }
    data = codec_of(Schema(type, SCHEMED[type])).write(orjson.dumps(body))
    message = frame("confluent", type, draw(st.sampled_from([1, 1, 1, 2])), data)
    return message if draw(st.integers(0, 4)) else damaged(draw(st.randoms(use_true_random=False)), message)


MESSAGES = {
    FIX: sent_fields("11"),
    "nvfix": sent_fields("id"),
    MSGPACK: sent_maps(),
    AVRO: sent_records(AVRO),
    PROTOBUF: sent_records(PROTOBUF),
}
TOPICS: list[dict[str, Any]] = [
    {},
    {"delta": True},
    {"partitions": 2},
    {"record_bytes_max": 1024, "records_max": 2},
    {"key": {"from": "kafka_key"}},
    {"expiration": "1s"},
]


@given(data=st.data(), more=st.sampled_from(TOPICS), cut=st.integers(0, 25), run_max=st.sampled_from([1, 64]))
def test_typed_topics_are_pythons(data: st.DataObject, more: dict[str, Any], cut: int, run_max: int) -> None:
    """Publishes, deltas, deletes and forwards in batches: the same changes, refusals, stored bytes and checksums."""
    type = data.draw(st.sampled_from(sorted(MESSAGES)))
    sent = data.draw(
        st.lists(
            st.tuples(MESSAGES[type] | st.none() | st.binary(max_size=9), HEADERS | st.just(A_DELTA)),
            max_size=25,
        )
    )
    with patch("sowline.native.RUN_MAX", run_max):
        check_typed({**topic_of(type), **more}, sent, cut)


def topic_of(type: str) -> dict[str, Any]:
    """Return the definition of a topic of a message type."""
    schema = {"reader_schema": {"text": SCHEMED[type]}} if type in SCHEMED else {}
    return {"name": "orders", "message_type": type, "key": KEYS.get(type, "/id"), **schema}


def check_typed(fields: dict[str, Any], sent: Sequence[tuple[bytes | None, Headers | None]], cut: int) -> int:
    """Apply messages with both cores, and compare all that they write; return how many changes are native."""
    definition = define_topic(**fields)
    (one, disk), (other, other_disk) = partition_of(definition, native), partition_of(definition, None)
    assert (one.core, other.core) == ("native", "python")
    for partition in (one, other):
        # As the owner does for the messages of a batch, before they are applied.
        assert partition.bodies is not None
        for schema_id in partition.bodies.unresolved(message for message, _ in sent):
            partition.bodies.resolutions.add(id_key(schema_id), entry_value(Resolution(None)))
    records = [
        (offset, 1000 + offset, b"1" if value is None or offset % 3 else None, value, headers)
        for offset, (value, headers) in enumerate(sent)
    ]
    end, found = 0, 0
    for start, stop in pairwise([0, min(cut, len(records)), len(records)]):
        mine = apply_alike(one, other, records[start:stop], end)
        end += len(mine.events)
        found += sum(isinstance(change, native.Change) for change in mine.step.changes)
    assert one.core == "native", "a panic"
    for partition in (one, other):
        partition.close()
    assert state_of(disk) == state_of(other_disk)
    return found


@pytest.mark.parametrize("type", sorted(KEYS))
def test_typed_topics_are_not_left_to_python(type: str) -> None:
    """A publish, an update, a delta, a delete with the message, and one by Kafka key."""
    message = {
        FIX: framed(b"8=FIX.4.4", b"35=D\x0111=1\x0155=a\x01"),
        "nvfix": b"id=1\x01ticker=a\x01",
        MSGPACK: msgspec.msgpack.encode({"id": "1", "ticker": "a", "o": {"x": 1}}),
    }[type]
    delta = {FIX: b"11=1\x0149=b\x0189=c\x01", "nvfix": b"id=1\x01qty=7\x01"}.get(
        type, msgspec.msgpack.encode({"id": "1", "o": {"y": 2}})
    )
    deleted: Headers = [("sow.command", b"sow_delete")]
    commands: list[tuple[bytes | None, Headers | None]] = [(message, None), (message, []), (delta, A_DELTA)]
    sent = [*commands, (message, deleted), *commands, (None, None)]
    assert check_typed(topic_of(type), sent, 3) == len(sent)


@pytest.mark.parametrize("type", [AVRO, PROTOBUF])
def test_whole_records_of_schemas_are_not_left_to_python(type: CodecType) -> None:
    """A publish, updates of a record with a schema id, with numbers and a correlation, and a delete by Kafka key."""
    message = frame("confluent", type, 1, codec_of(Schema(type, SCHEMED[type])).write(b'{"id":"1","qty":5}'))
    numbers: Headers = [("sow.publisher", b"p"), ("sow.sequence", b"1")]
    named: Headers = [("sow.correlation", b"a,null,5")]
    sent: list[tuple[bytes | None, Headers | None]] = [
        (message, None),
        (message, numbers),
        (message, named),
        (message, None),
        (None, None),
    ]
    assert check_typed(topic_of(type), sent, 2) == len(sent)


def test_what_is_before_a_message_that_a_codec_fails_at_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that its codec does not know: the batch ends before that message."""
    definition = define_topic(**topic_of(AVRO))
    partition, _ = partition_of(definition, native)
    write = codec_of(Schema(AVRO, SCHEMED[AVRO])).write
    messages = [frame("confluent", AVRO, 1, write(b'{"id":"%d","qty":5}' % number)) for number in range(3)]
    assert partition.bodies is not None
    partition.bodies.resolutions.add(id_key(1), entry_value(Resolution(None)))
    read = TypedBodies.read

    def failing(bodies: TypedBodies, value: bytes, reader: str) -> ReadBody:
        if value == messages[1]:
            raise RecursionError("boom")
        return read(bodies, value, reader)

    monkeypatch.setattr(TypedBodies, "read", failing)
    records = [(offset, 1000, None, message, None) for offset, message in enumerate(messages)]
    prepared = partition.prepare(log_records(records), 100)
    assert [change.position.offset for change in prepared.step.changes] == [0]
    assert prepared.failed is not None
    assert prepared.failed.offset == 1


def test_other_options_are_pythons() -> None:
    """Messages before the `define` that names a tag, and deltas to their records after it, also with groups."""
    definition = define_topic(
        name="orders", message_type=FIX, key="/11", message_format={"names": {"55": "Ticker"}}
    )
    before = replace(definition.limits, schema=FIX_SCHEMAS[0].digest)
    partitions = (one, _), (other, _) = partition_of(definition, native), partition_of(definition, None)
    for partition, _ in partitions:
        assert partition.bodies is not None
        known = entry_value(Resolution(FIX_SCHEMAS[0]))
        partition.bodies.resolutions.add(reader_key(FIX_SCHEMAS[0].digest), known)
        partition.checkpoint = replace(partition.checkpoint, limits=before)
    sent: list[tuple[bytes, Headers | None]] = [
        *((b"11=%d\x0155=a\x011=b\x01" % n, None) for n in range(3)),
        (b"11=5\x01453=1\x01448=a\x01", None),
        (define_value(before, definition.limits), [("sow.command", b"define")]),
        (b"11=0\x0155=c\x01", A_DELTA),
        (b"11=1\x011=d\x01", A_DELTA),
        (b"11=3\x0155=d\x01", A_DELTA),
        (b"11=3\x011=d\x01", A_DELTA),
        (b"11=5\x011=d\x01", A_DELTA),
    ]
    records = [(n, 1000, None, value, headers) for n, (value, headers) in enumerate(sent)]
    with patch("sowline.native.RUN_MAX", 1):
        changes = apply_alike(one, other, records, 0).step.changes
    assert [isinstance(change, native.Change) for change in changes] == [False] * 6 + [True, True, False]
    assert changes[-2].body == b'{"11":"3","Ticker":"d","1":"d"}'


@pytest.mark.parametrize("more", [{"enrichment": ["1 AS /1"]}, {"preprocessing": ["1 AS /1"]}])
def test_what_is_computed_from_other_types_is_pythons(more: dict[str, Any]) -> None:
    """What is computed must be a record of the message type."""
    definition = define_topic(name="orders", message_type=FIX, key="/11", **more)
    assert partition_of(definition, native)[0].core == "python"
