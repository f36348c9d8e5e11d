"""The codec of message type `json-schema`: JSON that is valid under the reader schema, byte for byte as received.

- Only the reader schema counts. A payload's own schema is ignored: JSON can be read without one.
- Drafts 4, 6, 7, 2019-09 and 2020-12, by `$schema`; without one, 2020-12.
- `$ref` finds the schema itself and `Schema.references`, by name or `$id`. Nothing is fetched.
- `format` is not asserted: a library's next version may accept other texts, but a replay must give the same result.
- Patterns run in time linear in the text. Those that need backtracking, like look-ahead, are `bad schema`.
"""

from collections.abc import Sequence
from typing import Any

from sowline.codecs.codec import NO_MESSAGE_TYPE
from sowline.codecs.errors import bad_message, json_object
from sowline.codecs.json_schema.compatibility import check_reads
from sowline.codecs.json_schema.compiled import CompiledSchema
from sowline.codecs.json_schema.diagnosis import Diagnosis
from sowline.codecs.json_schema.paths import only_fields
from sowline.codecs.json_schema.values import is_deeper
from sowline.codecs.schema import MessagePayload, Schema
from sowline.errors import SowlineError
from sowline.model.merge import merge
from sowline.model.path import Path


class JsonSchemaCodec:
    """Checks JSON under a JSON Schema."""

    message_type = NO_MESSAGE_TYPE

    def __init__(self, reader: Schema) -> None:
        """Compile a schema; raise `bad schema` if it is not valid, or not one of objects."""
        self._reader = reader
        self._schema = CompiledSchema(reader)
        self._diagnosis = Diagnosis(self._schema)

    def read(self, payload: MessagePayload, writer: Schema) -> bytes:
        """Return the payload; raise `bad message` if it is not an object that the reader schema describes."""
        self._check(payload.data)
        return payload.data

    def read_delta(self, payload: MessagePayload, writer: Schema, fields: Sequence[str] | None) -> bytes:
        """Return the payload, or only its fields at the paths; a path that the payload lacks adds nothing.

        A delta is not whole, so the schema can't judge it. `completed` checks the merged record instead.
        """
        json_object(payload.data)
        return payload.data if fields is None else only_fields(payload.data, tuple(fields))

    def write(self, body: bytes) -> bytes:
        """Return the body; raise `bad message` if the reader schema does not describe it."""
        self._check(body)
        return body

    def write_delta(self, body: bytes) -> tuple[bytes, tuple[str, ...]]:
        """Return the body, and no paths: JSON itself shows what it changes."""
        json_object(body)
        return body, ()

    def merged(self, body: bytes, delta: bytes) -> bytes:
        """Return the JSON of a record with the fields of a delta merged into it."""
        return merge(body, delta)

    def completed(self, body: bytes) -> bytes:
        """Return the body; raise `incomplete record` if the first error is a missing required field."""
        self._check(body, missing="incomplete record")
        return body

    def upgraded(self, body: bytes) -> bytes:
        """Return the body: the JSON of all reader schemas is the same."""
        return body

    def described(self) -> dict[str, Any]:
        """Return the schema in its own draft; the schemas that it refers to are embedded."""
        return self._schema.described()

    def check_reads(self, earlier: Schema) -> None:
        """Raise `incompatible schema` unless all records of an earlier schema are proved valid."""
        if earlier != self._reader:
            check_reads(self._schema, CompiledSchema(earlier))

    def _check(self, body: bytes, missing: str = "bad message") -> None:
        document, levels = json_object(body), self._schema.depth_max
        # Validation recurses: a deeper body could overflow the stack (test_deep_bodies_under_long_chains). Few bodies
        # have that many brackets, so the count is almost always enough.
        if body.count(b"{") + body.count(b"[") > levels and is_deeper(document, levels):
            raise bad_message(f"expected at most {levels} levels of objects and arrays, got more")
        if not self._schema.validator.is_valid(document):
            path, message, is_missing = self._diagnosis.why(document)
            raise SowlineError(
                missing if is_missing else "bad message",
                f"expected what the schema describes at {Path(path) if path else '/'}, but {message}",
            )
