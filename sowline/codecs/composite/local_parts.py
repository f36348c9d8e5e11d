"""The codec of message type `composite-local`: `{"0": …, "1": …}` with the JSON of each part.

A part of no bytes is absent from a record, and unchanged by a delta.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Raw

from sowline.codecs.composite.parts import (
    MessagePart,
    check_same_parts,
    checked_fields,
    joined,
    parts_of,
    raw_fields,
    raw_object,
    split,
)
from sowline.codecs.errors import bad_message
from sowline.codecs.schema import MessagePayload, Schema
from sowline.codecs.schemaless import JSON_OBJECT, SchemalessCodec, check_no_fields
from sowline.model.nesting import check_nesting

_DEFINITIONS: Final = "#/$defs/"


class CompositeLocalCodec(SchemalessCodec):
    """Converts between composite messages and JSON with their parts. It implements `Codec`."""

    has_options = True

    def __init__(self, reader: Schema) -> None:
        super().__init__(reader)
        self._parts = {str(part.number): part for part in parts_of(reader)}

    def read(self, payload: MessagePayload, writer: Schema) -> bytes:
        """Return the canonical JSON of a record."""
        return self._read(payload, MessagePart.read)

    def read_delta(self, payload: MessagePayload, writer: Schema, fields: Sequence[str] | None) -> bytes:
        """Return the canonical JSON of the parts that a delta changes; each is a delta of the part's type."""
        check_no_fields(fields)
        return self._read(payload, MessagePart.read_delta)

    def write(self, body: bytes) -> bytes:
        """Return the bytes of a record; a missing part has no bytes."""
        return self._written(body, MessagePart.write)

    def write_delta(self, body: bytes) -> tuple[bytes, tuple[str, ...]]:
        """Return the bytes of a delta."""
        return self._written(body, MessagePart.write_delta), ()

    def merged(self, body: bytes, delta: bytes) -> bytes:
        """Return the JSON of a record after a delta: parts merge by the rules of their types, new ones are added."""
        record = raw_fields(body)
        for name, value in raw_fields(delta).items():
            before, part = record.get(name), self._parts.get(name)
            record[name] = value
            # As it is, the delta of a part would replace it, and its other fields would be lost
            # (test_a_delta_of_one_part_leaves_the_others).
            if before is not None and part is not None:
                record[name] = Raw(part.merged(bytes(before), bytes(value)))
        return raw_object(record)

    def upgraded(self, body: bytes) -> bytes:
        """Return a record of earlier options under these: parts may name more fields."""
        return self.completed(body)

    def described(self) -> dict[str, Any]:
        """Return the JSON Schema of the parts; the definitions of a part have its number before their names."""
        properties: dict[str, Any] = {}
        definitions: dict[str, Any] = {}
        for name, part in self._parts.items():
            # Two parts may define the same name (test_the_definitions_of_parts_have_names_of_their_own).
            described = renamed(part.codec.described(), name)
            described.pop("$schema", None)
            definitions |= {f"{name}.{key}": value for key, value in described.pop("$defs", {}).items()}
            properties[name] = described
        schema = {**JSON_OBJECT, "properties": properties, "additionalProperties": False}
        return schema | {"$defs": definitions} if definitions else schema

    def check_reads(self, earlier: Schema) -> None:
        """Raise `incompatible schema` unless the parts are of the same types, and each reads its earlier records."""
        super().check_reads(earlier)
        check_same_parts(list(self._parts.values()), earlier)

    def _read(self, payload: MessagePayload, read: Callable[[MessagePart, bytes], bytes]) -> bytes:
        found = zip(self._parts.items(), split(payload.data, len(self._parts)), strict=True)
        texts = (b'"%s":%s' % (name.encode(), read(part, data)) for (name, part), data in found if data)
        body = b"{%s}" % b",".join(texts)
        # A part is one level further down than a message of its type (test_the_depth_is_limited).
        check_nesting(body)
        return body

    def _written(self, body: bytes, write: Callable[[MessagePart, bytes], bytes]) -> bytes:
        fields = checked_fields(body)
        for name in fields:
            if name not in self._parts:
                raise bad_message(
                    f"expected only the numbers of parts, from 0 to {len(self._parts) - 1}, got the field"
                    f" {name[:60]!r}"
                )
        return joined(
            [
                write(part, bytes(fields[name])) if name in fields else b""
                for name, part in self._parts.items()
            ]
        )


def renamed(schema: Any, number: str) -> Any:
    """Return a part's schema with its definitions renamed, for the schema of all parts."""
    if isinstance(schema, list):
        return [renamed(one, number) for one in schema]
    if not isinstance(schema, dict):
        return schema
    copy = {key: renamed(value, number) for key, value in schema.items()}
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith(_DEFINITIONS):
        copy["$ref"] = f"{_DEFINITIONS}{number}.{reference.removeprefix(_DEFINITIONS)}"
    # The root that a part refers to is its own (test_the_definitions_of_parts_have_names_of_their_own).
    elif isinstance(reference, str) and reference.startswith("#"):
        copy["$ref"] = f"#/properties/{number}{reference[1:]}"
    return copy
