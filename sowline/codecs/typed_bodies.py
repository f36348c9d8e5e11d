"""The bodies of a topic whose message type has schemas: from the bytes on the log to canonical JSON. Pure."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from sowline.codecs.codec import Codec, CompilerAway, codec_of
from sowline.codecs.errors import incompatible_schema
from sowline.codecs.framing import Framing, read_frame
from sowline.codecs.resolutions import Resolutions
from sowline.codecs.schema import CodecType, MessagePayload, Schema
from sowline.errors import SowlineError


class ReadBody(NamedTuple):
    """A body as canonical JSON, and the schema id that its message names; None if messages name none."""

    body: bytes
    schema_id: int | None


class TypedBodies:
    """Reads the bodies of one partition; `resolutions` come from the partition of `<log>.schemas`.

    A digest, as in `Limits.schema`, names the reader schema: it may change between two log records.
    """

    def __init__(self, type: CodecType, framing: Framing, resolutions: Resolutions) -> None:
        self._type = type
        self._framing = framing
        self._codecs: dict[str, Codec] = {}
        self.resolutions = resolutions

    def unresolved(self, values: Iterable[bytes | None]) -> list[int]:
        """Return the schema ids in these messages that are not known yet, in order."""
        found: dict[int, None] = {}
        if self._framing == "none":
            return []
        for value in values:
            schema_id = self._schema_id(value) if value else None
            if schema_id is not None and self.resolutions.writer(schema_id) is None:
                found[schema_id] = None
        return list(found)

    def _schema_id(self, value: bytes) -> int | None:
        try:
            return read_frame(self._framing, self._type, value).schema_id
        # `read` refuses the message later, with the reason.
        except SowlineError:
            return None

    def read(self, value: bytes, reader: str) -> ReadBody:
        """Return a whole record.

        Raise `bad message`, `unknown schema` or `incompatible schema` if the message can't be read.
        """
        return self._read(value, reader, self.codec(reader).read)

    def read_delta(self, value: bytes, reader: str, fields: Sequence[str] | None) -> ReadBody:
        """Return the fields that a delta changes: `fields`, or the fields that the message itself shows."""
        return self._read(value, reader, partial(self.codec(reader).read_delta, fields=fields))

    def _read(self, value: bytes, reader: str, read: Callable[[MessagePayload, Schema], bytes]) -> ReadBody:
        schema_id, payload = read_frame(self._framing, self._type, value)
        try:
            body = read(payload, self._writer(schema_id, reader))
        # Not the message's fault: as an ordinary error, it would make the message a dead letter.
        except CompilerAway:
            raise
        except SowlineError as error:
            raise self._naming(schema_id, error) from error
        return ReadBody(body, schema_id)

    def _naming(self, schema_id: int | None, error: SowlineError) -> SowlineError:
        """Return an error whose sentence also has the schema that the message names, and its subject."""
        found = None if schema_id is None else self.resolutions.writer(schema_id)
        if found is None:
            return error
        subject = f" of {found.subject}" if found.subject else ""
        return SowlineError(error.reason, f"schema {schema_id}{subject}: {error.message}")

    def codec(self, reader: str) -> Codec:
        """Return the codec with this reader schema."""
        codec = self._codecs.get(reader)
        if codec is None:
            codec = self._codecs[reader] = codec_of(self._reader(reader))
        return codec

    def upgraded(self, body: bytes, reader: str) -> bytes:
        """Return a stored body under this reader schema, whichever schema it was stored under."""
        # An upgrade parses and writes the body. Most topics never have a second reader schema, and none of their
        # stored bodies needs one (test_stored_bodies_are_upgraded_once_there_is_a_second_reader).
        return body if self.resolutions.has_one_reader else self.codec(reader).upgraded(body)

    def _reader(self, digest: str) -> Schema:
        schema = self.resolutions.reader(digest)
        assert schema is not None, "the owner writes a reader schema before a record can be read under it"
        return schema

    def _writer(self, schema_id: int | None, reader: str) -> Schema:
        if schema_id is None:
            return self._reader(reader)
        found = self.resolutions.writer(schema_id)
        assert found is not None, "the owner waits for the schemas of all messages that it applies"
        if found.problem:
            raise incompatible_schema(found.problem)
        if found.schema is None:
            raise SowlineError(
                "unknown schema",
                "expected a schema that the registry has: register it before messages name it, and publish them"
                " again under its new id",
            )
        # One registry has the schemas of all message types. Read as another type, the bytes of a message may have a
        # meaning, but not theirs (test_a_message_that_can_not_be_read_names_its_schema).
        if found.schema.type != self._type:
            raise incompatible_schema(
                f"expected a schema of {self._type}, got one of {found.schema.type}: publish to a topic of that"
                " message type"
            )
        return found.schema
