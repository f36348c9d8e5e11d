"""Frames: what other programs write is read, every frame comes back, and no bytes do harm."""

from contextlib import suppress
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.codecs.framing import INDEXES_MAX, Frame, Framing, frame, read_frame
from sowline.codecs.schema import AVRO, JSON_SCHEMA, PROTOBUF, MessagePayload, SchemaType
from sowline.errors import SowlineError

FRAMINGS = st.sampled_from(get_args(Framing))
TYPES = st.sampled_from(get_args(SchemaType))

# What the serializers of confluent-kafka 2.14 put before a payload under schema id 258.
CONFLUENT = {
    (0,): "000000010200",
    (1,): "00000001020202",
    (0, 0): "0000000102040000",
    (2, 1, 300): "0000000102060402d804",
    (128,): "0000000102028002",
}


@pytest.mark.parametrize("type", [AVRO, JSON_SCHEMA])
def test_confluent(type: SchemaType) -> None:
    """A byte 0 and four bytes of id, then the message."""
    value = bytes.fromhex("0000000102") + b"abc"
    assert read_frame("confluent", type, value) == Frame(258, MessagePayload(b"abc"))
    assert frame("confluent", type, 258, b"abc") == value


@pytest.mark.parametrize("indexes", CONFLUENT)
def test_confluent_protobuf(indexes: tuple[int, ...]) -> None:
    """The path to the message type comes between id and message."""
    value = bytes.fromhex(CONFLUENT[indexes]) + b"abc"
    assert read_frame("confluent", PROTOBUF, value) == Frame(258, MessagePayload(b"abc", indexes))
    assert frame("confluent", PROTOBUF, 258, b"abc", indexes) == value


def test_the_first_message_at_length() -> None:
    """The first message type may also come as a list of one."""
    value = bytes.fromhex("00000001020200") + b"abc"
    assert read_frame("confluent", PROTOBUF, value) == Frame(258, MessagePayload(b"abc", (0,)))


def test_apicurio() -> None:
    """The id takes eight bytes; before a Protobuf message comes the name of its type, as Apicurio's `Ref`."""
    head = bytes.fromhex("000000000000000102")
    assert read_frame("apicurio", AVRO, head + b"abc") == Frame(258, MessagePayload(b"abc"))
    assert frame("apicurio", AVRO, 258, b"abc") == head + b"abc"
    named = head + bytes.fromhex("070a05") + b"Order" + b"abc"
    assert read_frame("apicurio", PROTOBUF, named) == Frame(258, MessagePayload(b"abc", message="Order"))
    assert frame("apicurio", PROTOBUF, 258, b"abc", message="Order") == named
    assert read_frame("apicurio", PROTOBUF, head + b"\0abc") == Frame(258, MessagePayload(b"abc"))


def test_without_frame() -> None:
    """The whole value is the message."""
    assert read_frame("none", PROTOBUF, b"\0abc") == Frame(None, MessagePayload(b"\0abc"))
    assert frame("none", PROTOBUF, 258, b"\0abc") == b"\0abc"


@pytest.mark.parametrize(
    ("framing", "type", "value", "message"),
    [
        ("confluent", AVRO, "", "got nothing"),
        ("confluent", AVRO, "00000001", "got 4 bytes that begin with 00000001"),
        ("confluent", AVRO, "7b226964223a317d", "with a byte 0 and a schema id of 4 bytes, got 8 bytes"),
        ("apicurio", AVRO, "0000000102", "schema id of 8 bytes, got 5 bytes"),
        ("confluent", PROTOBUF, "0000000102", "at offset 5, got nothing"),
        ("confluent", PROTOBUF, "000000010204", "at offset 6, got nothing"),
        ("confluent", PROTOBUF, "000000010201", "at most 100 message indexes, got -1"),
        ("confluent", PROTOBUF, "0000000102feffffff0f", "at most 100 message indexes, got 2147483647"),
        ("confluent", PROTOBUF, "0000000102ffffffffffff0f", "32 bits at offset 5, got 7 bytes"),
        ("confluent", PROTOBUF, "0000000102ffffffff7f", "32 bits at offset 5"),
        ("confluent", PROTOBUF, "00000001020201", "of 0 or more, got -1"),
        ("apicurio", PROTOBUF, "0000000000000001020a0a05", "of 10 bytes, got 2"),
        ("apicurio", PROTOBUF, "000000000000000102031001ff", "got other fields"),
        ("apicurio", PROTOBUF, "000000000000000102040a014161", "got other fields"),
        ("apicurio", PROTOBUF, "000000000000000102030a01ff", "in UTF-8"),
        ("apicurio", PROTOBUF, "000000000000000102010a", "32 bits at offset"),
    ],
)
def test_refusals(framing: Framing, type: SchemaType, value: str, message: str) -> None:
    """What is no frame of the format is refused with what came."""
    with pytest.raises(SowlineError, match=message) as refused:
        read_frame(framing, type, bytes.fromhex(value))
    assert refused.value.reason == "bad message"


@pytest.mark.parametrize(
    ("framing", "schema_id", "indexes", "name", "message"),
    [
        ("confluent", 1 << 32, (0,), "", "id of 4 bytes"),
        ("apicurio", -1, (0,), "A", "id of 8 bytes"),
        ("confluent", 1, (), "", "message indexes"),
        ("confluent", 1, (1,) * (INDEXES_MAX + 1), "", "1 to 100 message indexes"),
        ("confluent", 1, (1 << 31,), "", "message indexes"),
        ("apicurio", 1, (0,), "", "the name of a Protobuf message"),
    ],
)
def test_frames_that_can_not_be(
    framing: Framing, schema_id: int, indexes: tuple[int, ...], name: str, message: str
) -> None:
    """What a format can't hold is not written."""
    with pytest.raises(SowlineError, match=message) as refused:
        frame(framing, PROTOBUF, schema_id, b"", indexes, name)
    assert refused.value.reason == "bad message"


@given(
    FRAMINGS,
    TYPES,
    st.integers(0, (1 << 32) - 1),
    st.binary(max_size=300),
    st.lists(st.integers(0, (1 << 31) - 1), min_size=1, max_size=INDEXES_MAX).map(tuple),
    st.from_regex(r"[A-Za-z_]\w{0,200}", fullmatch=True),
)
@example("confluent", PROTOBUF, 1, b"", (0,) * INDEXES_MAX, "A")
@example("apicurio", PROTOBUF, 1, b"", (0,), "A" * 300)
def test_round_trip(
    framing: Framing, type: SchemaType, schema_id: int, data: bytes, indexes: tuple[int, ...], name: str
) -> None:
    """What was framed is read back."""
    found = read_frame(framing, type, frame(framing, type, schema_id, data, indexes, name))
    assert found.payload.data == data
    assert found.schema_id == (None if framing == "none" else schema_id)
    assert found.payload.indexes == (indexes if (framing, type) == ("confluent", PROTOBUF) else None)
    assert found.payload.message == (name if (framing, type) == ("apicurio", PROTOBUF) else "")


@given(FRAMINGS, TYPES, st.binary(max_size=40) | st.binary(max_size=40).map(lambda rest: b"\0" * 5 + rest))
def test_any_bytes(framing: Framing, type: SchemaType, value: bytes) -> None:
    """Any bytes are a frame, whose payload is their end, or are refused."""
    with suppress(SowlineError):
        found = read_frame(framing, type, value)
        assert value.endswith(found.payload.data)
        assert len(found.payload.indexes or ()) <= INDEXES_MAX
