"""The codec of message type `composite-global`: the fields of all parts in one object.

`#parts` lists the fields of each part, in the order of the parts: an array of names; `"*"` for the one part that
has all other fields; null for a part of no bytes. Two parts have no field in common.
"""

from typing import Any, Final

import msgspec
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
from sowline.codecs.errors import bad_message, bad_schema
from sowline.codecs.schema import MessagePayload, Schema
from sowline.codecs.schemaless import JSON_OBJECT, SchemalessCodec
from sowline.model.nesting import check_nesting

PARTS_FIELD: Final = "#parts"
"""The field that lists the fields of each part."""

_REST: Final = "*"
_Names = list[str] | str | None

_read_names = msgspec.json.Decoder(list[_Names]).decode
_write = msgspec.json.Encoder().encode


class CompositeGlobalCodec(SchemalessCodec):
    """Converts between composite messages and JSON with all their fields. It implements `Codec`."""

    has_options = True

    def __init__(self, reader: Schema) -> None:
        super().__init__(reader)
        self._parts = parts_of(reader)
        if sum(part.is_binary for part in self._parts) > 1:
            raise bad_schema(
                "expected at most one part of type binary, got several: all would have the field data; use"
                " composite-local"
            )

    def read(self, payload: MessagePayload, writer: Schema) -> bytes:
        """Return the canonical JSON of a record."""
        fields: dict[str, Raw] = {}
        names: list[_Names] = []
        for part, data in zip(self._parts, split(payload.data, len(self._parts)), strict=True):
            found = raw_fields(part.read(data)) if data else {}
            _check_new(part, found, fields)
            fields |= found
            # Canonical: the first part with bytes is the rest. So a field that enrichment adds has a part
            # (test_fields_that_are_added_are_those_of_the_rest).
            names.append((list(found) if _REST in names else _REST) if data else None)
        fields[PARTS_FIELD] = Raw(_write(names))
        body = raw_object(fields)
        check_nesting(body)
        return body

    def write(self, body: bytes) -> bytes:
        """Return the bytes of a record."""
        fields = checked_fields(body)
        names = self._names(fields.pop(PARTS_FIELD, None))
        named = {name: number for number, some in enumerate(names) if type(some) is list for name in some}
        rest = names.index(_REST) if _REST in names else None
        inside: list[dict[str, Raw]] = [{} for _ in names]
        for name, value in fields.items():
            number = named.pop(name, rest)
            if number is None:
                raise bad_message(
                    f"expected {PARTS_FIELD} to list all fields, or a part as {_REST!r} for the others; it lacks"
                    f" {name[:60]!r}"
                )
            inside[number][name] = value
        # Without the listed field, the part would be another one than its writer described
        # (test_other_json_is_not_written_as_fields).
        if named:
            raise bad_message(
                f"expected the fields that {PARTS_FIELD} lists, got none called {next(iter(named))[:60]!r}"
            )
        return joined(
            [
                b"" if some is None else part.write(raw_object(own))
                for part, some, own in zip(self._parts, names, inside, strict=True)
            ]
        )

    def merged(self, body: bytes, delta: bytes) -> bytes:
        """Return the delta, which replaces the record."""
        return delta

    def described(self) -> dict[str, Any]:
        """Return the JSON Schema of an object with `#parts`."""
        names = {"type": "array", "items": {"type": "string"}}
        entry = {"anyOf": [names, {"const": _REST}, {"type": "null"}]}
        count = len(self._parts)
        parts = {"type": "array", "items": entry, "minItems": count, "maxItems": count}
        return {**JSON_OBJECT, "properties": {PARTS_FIELD: parts}, "required": [PARTS_FIELD]}

    def check_reads(self, earlier: Schema) -> None:
        """Raise `incompatible schema` unless the parts are of the same types, and each reads its earlier records."""
        super().check_reads(earlier)
        check_same_parts(self._parts, earlier)

    def _names(self, text: Raw | None) -> list[_Names]:
        """Return `#parts`; raise `bad message` unless it has one entry for each part and no name twice."""
        try:
            names = _read_names(b"null" if text is None else text)
        except msgspec.MsgspecError:
            names = []
        listed = [name for some in names if type(some) is list for name in some]
        # At most one part for all other fields: of two, a field would go to whichever comes first
        # (test_other_json_is_not_written_as_fields).
        others = [some for some in names if type(some) is str]
        if len(names) == len(self._parts) and len(set(listed)) == len(listed) and others in ([], [_REST]):
            return names
        raise bad_message(
            f"expected {PARTS_FIELD} as an array of {len(self._parts)} entries like"
            f' ["{_REST}", ["data"], null], got {_shown(text)}: list the fields of each part once, "{_REST}" for all'
            " others, null for no bytes"
        )


def _check_new(part: MessagePart, found: dict[str, Raw], fields: dict[str, Raw]) -> None:
    for name in found:
        # One of two equal names would be lost (test_fields_in_common_are_refused).
        if name in fields or name == PARTS_FIELD:
            what = "is reserved" if name == PARTS_FIELD else "an earlier part also has"
            raise bad_message(
                f"part {part.number}: expected fields that no other part has, got {name[:60]!r}, which {what}:"
                " rename it, or use composite-local"
            )


def _shown(text: Raw | None) -> str:
    return "none" if text is None else bytes(text)[:60].decode(errors="replace")
