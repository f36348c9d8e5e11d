"""The bodies of a partition: frames, schemas by their ids, and what is refused with which schema."""

import json

import pytest

from sowline.codecs.codec import Codec, CompilerAway
from sowline.codecs.framing import Framing, frame
from sowline.codecs.resolutions import Resolution, Resolutions, entry_value, id_key, reader_key
from sowline.codecs.schema import AVRO, JSON_SCHEMA, MessagePayload, Schema
from sowline.codecs.typed_bodies import TypedBodies
from sowline.errors import SowlineError


def schema(*fields: tuple[str, str]) -> Schema:
    """Return a schema of Avro whose fields have these names and types, and defaults of 0."""
    described = [{"name": name, "type": type, "default": 0} for name, type in fields]
    return Schema(AVRO, json.dumps({"type": "record", "name": "Order", "fields": described}))


ORDER = schema(("id", "long"), ("qty", "long"))
NEWER = schema(("id", "long"), ("qty", "long"), ("px", "double"))
KNOWN = {
    1: Resolution(schema(("id", "int"), ("qty", "int")), "orders-value", 3),
    2: Resolution(None),
    3: Resolution(None, "orders-value", 1, problem="expected AVRO, got XML"),
    4: Resolution(Schema(JSON_SCHEMA, "{}")),
}


def bodies(framing: Framing = "confluent", *readers: Schema) -> TypedBodies:
    """Return the bodies of a partition that has had these reader schemas."""
    resolutions = Resolutions()
    for schema_id, resolution in KNOWN.items():
        resolutions.add(id_key(schema_id), entry_value(resolution))
    for reader in readers or (ORDER,):
        resolutions.add(reader_key(reader.digest), entry_value(Resolution(reader)))
    return TypedBodies(AVRO, framing, resolutions)


def framed(schema_id: int, data: bytes = b"\2\4") -> bytes:
    """Return a message in Confluent's frame; the bytes are those of id 1 and qty 2."""
    return frame("confluent", AVRO, schema_id, data)


def test_a_message_is_read_by_the_schema_that_it_names() -> None:
    """The body is canonical JSON of the reader schema, and the id comes with it."""
    assert bodies().read(framed(1), ORDER.digest) == (b'{"id":1,"qty":2}', 1)


def test_a_message_without_a_frame_has_the_reader_schema() -> None:
    """It names no schema."""
    assert bodies("none").read(b"\2\4", ORDER.digest) == (b'{"id":1,"qty":2}', None)


def test_a_delta_has_the_fields_that_are_named() -> None:
    """Or those that its schema has."""
    assert bodies().read_delta(framed(1), ORDER.digest, ["/qty"]) == (b'{"qty":2}', 1)
    assert bodies().read_delta(framed(1), ORDER.digest, None) == (b'{"id":1,"qty":2}', 1)


def test_ids_without_an_answer_are_unresolved() -> None:
    """Each once, in the order of the messages. A message without a body or without a frame has none."""
    values = [framed(9), None, framed(1), framed(7), b"", b"{}", framed(9)]
    assert bodies().unresolved(values) == [9, 7]
    assert bodies("none").unresolved(values) == []


@pytest.mark.parametrize(
    ("value", "reason", "message"),
    [
        (framed(2), "unknown schema", "schema 2: expected a schema that the registry has"),
        (framed(3), "incompatible schema", "schema 3 of orders-value: expected AVRO, got XML"),
        (framed(4), "incompatible schema", "schema 4: expected a schema of avro, got one of json-schema"),
        (framed(1, b"\2"), "bad message", "schema 1 of orders-value: the record: expected an Avro record"),
        (b"{}", "bad message", "expected"),
    ],
)
def test_a_message_that_can_not_be_read_names_its_schema(value: bytes, reason: str, message: str) -> None:
    """And the subject, if it is known."""
    with pytest.raises(SowlineError) as refused:
        bodies().read(value, ORDER.digest)
    assert refused.value.reason == reason
    assert message in refused.value.message


def test_a_message_without_a_frame_names_no_schema() -> None:
    """The error is that of the codec."""
    with pytest.raises(SowlineError, match=r"^the record: expected an Avro record") as refused:
        bodies("none").read(b"\2", ORDER.digest)
    assert refused.value.reason == "bad message"


def test_a_compiler_that_is_away_is_no_fault_of_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error passes as it is: the worker starts again, and reads the message once more."""

    def away(payload: MessagePayload, writer: Schema) -> bytes:
        raise CompilerAway("expected a compiler")

    read = bodies()
    monkeypatch.setattr(read.codec(ORDER.digest), "read", away)
    with pytest.raises(CompilerAway, match=r"^expected a compiler$"):
        read.read(framed(1), ORDER.digest)


def test_a_codec_is_made_once_for_each_reader() -> None:
    """A digest names it."""
    read = bodies("confluent", ORDER, NEWER)
    codec: Codec = read.codec(ORDER.digest)
    assert read.codec(ORDER.digest) is codec
    assert read.codec(NEWER.digest) is not codec


def test_stored_bodies_are_upgraded_once_there_is_a_second_reader() -> None:
    """With one reader schema, all bodies are of that one."""
    body = b'{"id":1,"qty":2}'
    assert bodies().upgraded(body, ORDER.digest) is body
    read = bodies("confluent", ORDER, NEWER)
    assert read.upgraded(body, NEWER.digest) == b'{"id":1,"qty":2,"px":0.0}'
