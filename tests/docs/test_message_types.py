"""Messages are refused as docs/message-types.md describes, and its example returns what the page shows.

The tables of what types become, and of schemas that change, have modules of their own: `test_canonical_json.py`,
`test_writer_changes.py` and `test_reader_changes.py`.
"""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from sowline.codecs.codec import codec_of
from sowline.codecs.framing import Framing, frame
from sowline.codecs.protobuf.compiled import compile_schema
from sowline.codecs.protobuf.descriptors import message_class
from sowline.codecs.resolutions import Resolution, Resolutions, entry_value, id_key, reader_key
from sowline.codecs.schema import AVRO, JSON_SCHEMA, PROTOBUF, Schema
from sowline.codecs.typed_bodies import TypedBodies
from sowline.errors import SowlineError
from tests.docs.message_schemas import NAMED, PAGE, STRING, X, avro, field, js, phrases_of, proto
from tests.docs.pages import blocks_of, rows_of
from tests.docs.reader import Reader, Running, system_of_pages

# what is refused

ID = 7


class Refused(NamedTuple):
    """A message whose id leads to a resolution, and how it is read: as a delta if `fields` are given."""

    reader: Schema
    value: bytes
    found: Resolution
    framing: Framing = "confluent"
    fields: tuple[str, ...] | None = None

    def error(self) -> SowlineError:
        """Return the error that the owner of a partition gets."""
        resolutions = Resolutions()
        resolutions.add(reader_key(self.reader.digest), entry_value(Resolution(self.reader)))
        resolutions.add(id_key(ID), entry_value(self.found))
        bodies = TypedBodies(self.reader.type, self.framing, resolutions)
        read = bodies.read if self.fields is None else partial(bodies.read_delta, fields=self.fields)
        with pytest.raises(SowlineError) as caught:
            read(self.value, self.reader.digest)
        return caught.value


class Incomplete(NamedTuple):
    """A record after a delta."""

    reader: Schema
    merged: bytes

    def error(self) -> SowlineError:
        """Return the error that the owner of a partition gets."""
        with pytest.raises(SowlineError) as caught:
            codec_of(self.reader).completed(self.merged)
        return caught.value


def framed(schema: Schema, data: bytes) -> bytes:
    """Return a message in Confluent's wire format."""
    return frame("confluent", schema.type, ID, data)


def refused(reader: Schema, data: bytes, writer: Schema | None = None, **more: Any) -> Refused:
    """Return a message under a schema that the registry has."""
    return Refused(reader, framed(reader, data), Resolution(writer or reader), **more)


TREE = proto("Order x = 2;")


def nested_message(levels: int) -> bytes:
    """Return a message within a message within …"""
    root = message = message_class(compile_schema(TREE).message("Order"))()
    for _ in range(levels):
        message = message.x
        message.SetInParent()
    return bytes(root.SerializeToString())


LIST = avro(field({"type": "array", "items": "null"}))
REQUIRED = proto(f"required {X}", "", "proto2")
RECORDS = {AVRO: avro(STRING), PROTOBUF: proto(X), JSON_SCHEMA: js(NAMED)}
REFUSALS: dict[str, dict[str, list[Refused | Incomplete]]] = {
    "bad message": {
        "the message's frame, bytes or JSON are invalid": [
            *(Refused(schema, b'{"id": 1, "x": "open"}', Resolution(schema)) for schema in RECORDS.values()),
            Refused(RECORDS[AVRO], b"\0\0\0\0", Resolution(RECORDS[AVRO])),
            Refused(RECORDS[AVRO], framed(RECORDS[AVRO], b""), Resolution(RECORDS[AVRO]), "apicurio"),
            refused(RECORDS[AVRO], b"\2\10a"),
            refused(RECORDS[AVRO], b"\2\2aa"),
            refused(RECORDS[PROTOBUF], b"\x12\x08a"),
            refused(RECORDS[JSON_SCHEMA], b'{"id": 1, "x": 1}'),
            refused(RECORDS[JSON_SCHEMA], b"[]"),
        ],
        "the message is built to use excessive time or memory": [
            refused(LIST, b"\2" + b"\xfe\xff\xff\xff\x0f" + b"\0"),
            refused(TREE, nested_message(200)),
            refused(RECORDS[JSON_SCHEMA], b'{"y":' * 10_000 + b"1" + b"}" * 10_000),
        ],
    },
    "bad header": {
        "`sow.fields` has a path that the Avro or Protobuf schema lacks": [
            refused(RECORDS[AVRO], b"\2\2a", fields=("/y",)),
            refused(RECORDS[PROTOBUF], b"", fields=("/y",)),
        ]
    },
    "unknown schema": {
        "the registry has no schema with this id": [
            Refused(schema, framed(schema, b""), Resolution(None)) for schema in RECORDS.values()
        ]
    },
    "incompatible schema": {
        "the reader schema can't read messages of this schema": [
            refused(RECORDS[AVRO], b"\2", avro()),
            refused(RECORDS[PROTOBUF], b"\x10\1", proto("int32 x = 2;")),
        ],
        "the schema has another message type": [
            refused(RECORDS[AVRO], b"", RECORDS[JSON_SCHEMA]),
            refused(RECORDS[JSON_SCHEMA], b"{}", RECORDS[AVRO]),
        ],
        "the schema is invalid": [
            Refused(RECORDS[AVRO], framed(RECORDS[AVRO], b""), Resolution(None, problem="expected a schema"))
        ],
    },
    "incomplete record": {
        "after a delta, the record lacks a field that has no default": [
            Incomplete(RECORDS[AVRO], b'{"id":1}'),
            Incomplete(REQUIRED, b'{"id":1}'),
            Incomplete(js(NAMED, ("x",)), b'{"id":1}'),
        ]
    },
}
REASON_ROWS = rows_of(PAGE, "reason", "when")


@pytest.mark.parametrize(("reason", "when"), REASON_ROWS)
def test_what_is_refused(reason: str, when: str) -> None:
    """Each of these is refused with this reason."""
    cases = REFUSALS[reason]
    assert phrases_of(when) == list(cases)
    for phrase, refusals in cases.items():
        assert {refusal.error().reason for refusal in refusals} == {reason}, phrase


def test_each_reason_has_a_row() -> None:
    """No case is about a row that the page has no more."""
    assert list(REFUSALS) == [reason for reason, _ in REASON_ROWS]


# the example


def test_the_example(kafka: str, tmp_path: Path) -> None:
    """What docs/message-types.md writes to a topic without a registry is read as it shows."""
    (topics,) = (
        block.text for block in blocks_of(PAGE) if "settlements" in block.text and block.language == "yaml"
    )
    reading = tmp_path / "reading"
    reading.mkdir()
    with system_of_pages(kafka, tmp_path, yaml.safe_load(topics)["topics"]) as made:
        services = [made.service(module).start() for module in ("materializer", "query_service")]
        for service in services:
            service.wait_ready()
        test = "tests/docs/test_message_types.py::test_the_example"
        Reader(PAGE, Running(made, services[1].url), reading, test).read()
