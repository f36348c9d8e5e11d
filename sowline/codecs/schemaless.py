"""The common parts of codecs without schemas: a delta is a message like any other."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

import orjson

from sowline.codecs.codec import NO_MESSAGE_TYPE
from sowline.codecs.errors import bad_message, bad_schema, incompatible_schema
from sowline.codecs.schema import MessagePayload, Schema
from sowline.errors import SowlineError
from sowline.model.body import read_object, write_body
from sowline.model.merge import merge
from sowline.model.nesting import NESTING_MAX, check_nesting

EXCERPT_CHARS_MAX: Final = 40
"""The number of characters of a text that errors show."""

JSON_OBJECT: Final = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}
"""The JSON Schema of records about which nothing else is known."""


class SchemalessCodec(ABC):
    """A codec without a schema: a message's meaning follows from its bytes and the topic's options.

    JSON is canonical if `write` and then `read` return it unchanged.
    """

    message_type = NO_MESSAGE_TYPE

    has_options = False
    """Whether topics of the message type may have options."""

    def __init__(self, reader: Schema) -> None:
        self.reader = reader
        if not self.has_options:
            _check_no_options(reader)

    @abstractmethod
    def read(self, payload: MessagePayload, writer: Schema) -> bytes:
        """Return the canonical JSON of a whole record."""

    @abstractmethod
    def write(self, body: bytes) -> bytes:
        """Return the bytes of a record whose JSON is given."""

    def read_delta(self, payload: MessagePayload, writer: Schema, fields: Sequence[str] | None) -> bytes:
        """Return the canonical JSON of a delta; raise `bad header` if `fields` name what it changes."""
        check_no_fields(fields)
        return self.read(payload, writer)

    def write_delta(self, body: bytes) -> tuple[bytes, tuple[str, ...]]:
        """Return the bytes of a delta. It needs no paths."""
        return self.write(body), ()

    def merged(self, body: bytes, delta: bytes) -> bytes:
        """Return the JSON of a record after a delta, which is merged field by field."""
        return merge(body, delta)

    def completed(self, body: bytes) -> bytes:
        """Return the canonical JSON of a record; raise `bad message` if it can't be written as a message."""
        # Written first: a record that is no message must be refused now, and not when a consumer wants it as one.
        return self.read(MessagePayload(self.write(body)), self.reader)

    def upgraded(self, body: bytes) -> bytes:
        """Return canonical JSON of earlier options as it is."""
        return body

    def described(self) -> dict[str, Any]:
        """Return a JSON Schema of the canonical JSON."""
        # A copy, because callers add to it (test_a_description_belongs_to_the_caller).
        return dict(JSON_OBJECT)

    def check_reads(self, earlier: Schema) -> None:
        """Raise `incompatible schema` if the earlier options are of another message type."""
        if earlier.type != self.reader.type:
            raise incompatible_schema(
                f"expected records of message type {self.reader.type}, got {earlier.type}: define another topic"
            )


def _check_no_options(reader: Schema) -> None:
    """Raise `bad schema` if a message type without options has some."""
    if reader.text.strip() not in ("", "{}"):
        raise bad_schema(
            f"expected no message_format for topics of message type {reader.type}, got {reader.text[:60]}:"
            " leave it out"
        )


def check_no_fields(fields: Sequence[str] | None) -> None:
    """Raise `bad header` if a delta comes with paths."""
    if fields is not None:
        raise SowlineError(
            "bad header",
            f"expected no sow.fields: a delta of this message type shows what it changes, got {list(fields)[:5]};"
            " leave the header out",
        )


def checked_json(body: bytes) -> dict[str, Any]:
    """Return the parsed JSON object of a message, or of a part of one; raise `bad message` or `too deep`."""
    try:
        return read_object(body)
    except SowlineError as error:
        raise error if error.reason == "too deep" else bad_message(error.message) from None


def json_bytes(document: Any, default: Any = None, option: int = 0) -> bytes:
    """Return a document as JSON; `default` must not raise. Raise `too deep`."""
    try:
        body = write_body(document, default, option)
        check_nesting(body)
    except (orjson.JSONEncodeError, SowlineError):
        raise too_deep() from None
    return body


def too_deep() -> SowlineError:
    """Return the error for a message that nests too deep."""
    return SowlineError(
        "too deep",
        f"expected at most {NESTING_MAX} levels of objects and arrays, got more: send a flatter message",
    )


def excerpt(text: str | bytes) -> str:
    """Return the quoted beginning of a text, or of bytes that may not be UTF-8."""
    # Cut first: a message of megabytes need not become a text to be refused.
    part = text[: EXCERPT_CHARS_MAX + 1]
    if isinstance(part, bytes):
        part = part.decode(errors="backslashreplace")
    return repr(part) if len(part) <= EXCERPT_CHARS_MAX else repr(part[:EXCERPT_CHARS_MAX] + "…")
