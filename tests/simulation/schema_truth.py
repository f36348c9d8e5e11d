"""What a log means whose message type has schemas: by the first entries of `<log>.schemas`, and the defines on it."""

import json
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import msgspec
import orjson

from sowline.codecs.codec import Codec, codec_of
from sowline.codecs.schema import PROTOBUF, MessagePayload, Schema
from sowline.commands.command import LogRecord
from sowline.errors import SowlineError
from tests.property.model import Body, Kept, PartitionModel, RecordPosition, Refused, merged

FRAME_BYTES = 5
"""The magic byte, and the schema's id."""


class SchemaEntry(NamedTuple):
    """What the first entry of an id has: a schema, or why there is none."""

    schema: Schema | None
    problem: str


@dataclass
class SchemaEntries:
    """The first entry of each key of a partition."""

    writers: dict[int, SchemaEntry] = field(default_factory=dict)
    readers: dict[str, Schema] = field(default_factory=dict)

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Take an entry; whatever is not one changes nothing."""
        kind, _, name = (key or b"").decode().partition(":")
        try:
            found = json.loads(value or b"")
            text = found["schema"]
        except (ValueError, KeyError, TypeError):
            return
        schema = None if text is None else msgspec.convert(text, Schema)
        if kind == "id":
            self.writers.setdefault(int(name), SchemaEntry(schema, found.get("problem", "")))
        elif kind == "reader" and schema is not None and schema.digest == name:
            self.readers.setdefault(name, schema)


@dataclass
class TypedModel(PartitionModel):
    """The perfect model of a partition of Avro or Protobuf in Confluent's format."""

    reader: Schema = field(default_factory=lambda: Schema("avro", '"null"'))
    entries: SchemaEntries = field(default_factory=SchemaEntries)

    headers_known: ClassVar[frozenset[str]] = PartitionModel.headers_known | {"fields"}

    @property
    def _codec(self) -> Codec:
        return codec_of(self.reader)

    def is_resolved(self, record: LogRecord) -> bool:
        """Whether there is an entry for the schema that a record names; it is not applied before."""
        try:
            return self._framed(record.value or b"")[0] in self.entries.writers
        except Refused:
            return True

    def _framed(self, value: bytes) -> tuple[int, MessagePayload]:
        size = FRAME_BYTES + (self.reader.type == PROTOBUF)
        if len(value) < size or value[0]:
            raise Refused("bad message")
        schema_id = int.from_bytes(value[1:FRAME_BYTES], "big")
        if self.reader.type != PROTOBUF:
            return schema_id, MessagePayload(value[size:])
        assert value[FRAME_BYTES] == 0, "publishers write the first message type of a schema"
        return schema_id, MessagePayload(value[size:], (0,))

    def _command(self, headers: dict[str, str]) -> str:
        command = super()._command(headers)
        if "sow.fields" in headers and command != "delta_publish":
            raise Refused("bad header")
        return command

    def _read(self, record: LogRecord) -> tuple[str, Body]:
        value, headers = record.value or b"", dict(record.headers or [])
        schema_id, payload = self._framed(value)
        writer = self.entries.writers[schema_id]
        if writer.problem:
            raise Refused("incompatible schema")
        if writer.schema is None:
            raise Refused("unknown schema")
        if writer.schema.type != self.reader.type:
            raise Refused("incompatible schema")
        try:
            if headers.get("sow.command") == b"delta_publish":
                named = headers.get("sow.fields")
                fields = None if named is None else named.decode().split(",")
                return self._parse(self._codec.read_delta(payload, writer.schema, fields))
            return self._parse(self._codec.read(payload, writer.schema))
        except SowlineError as error:
            raise Refused(error.reason) from None

    def _publish(self, record: LogRecord, command: str, number: tuple[str, RecordPosition] | None) -> None:
        key, body = self._read(record)
        if not self._is_mine(record, key):
            return
        kept = self.kept.get(key, Kept(None, {}))
        if self._is_repeat(kept, number):
            return
        if command == "delta_publish":
            try:
                before = {} if kept.body is None else self._with(self._codec.upgraded, kept.body)
                body = self._with(self._codec.completed, merged(before, body))
            except SowlineError as error:
                raise Refused(error.reason) from None
        self._set(record, 0, key, kept, body, number)

    @staticmethod
    def _with(convert: Any, body: Body) -> Body:
        converted: Body = json.loads(convert(orjson.dumps(body)))
        return converted

    def _define(self, record: LogRecord) -> None:
        super()._define(record)
        given = json.loads(record.value or b"")
        was, now = given["was"]["schema"], given["now"]["schema"]
        if was == self.reader.digest != now:
            self.reader = self.entries.readers[now]
