"""Describes the canonical JSON of a message type as JSON Schema (draft 2020-12)."""

from typing import Any, Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from sowline.codecs.protobuf.fields import (
    enum_of,
    is_map,
    is_wrapper,
    message_of,
    messages_below,
    well_known_name,
)
from sowline.codecs.protobuf.scalars import INT32, INTEGER_RANGES, NOT_FINITE, symbols
from sowline.codecs.protobuf.unknown import UNKNOWN

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_BYTES: Final = {"type": "string", "contentEncoding": "base64"}
_UNKNOWN: Final = {
    "type": "object",
    "propertyNames": {"pattern": "^[1-9][0-9]*$"},
    "additionalProperties": _BYTES,
}
_ANY_JSON: Final[dict[str, Any]] = {}
_DOUBLE: Final[dict[str, Any]] = {"anyOf": [{"type": "number"}, {"enum": list(NOT_FINITE)}]}
_SCALARS: Final[dict[int, dict[str, Any]]] = {
    FieldDescriptor.TYPE_DOUBLE: _DOUBLE,
    FieldDescriptor.TYPE_FLOAT: _DOUBLE,
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_STRING: {"type": "string"},
    FieldDescriptor.TYPE_BYTES: _BYTES,
}
_KEY_PATTERNS: Final = {
    FieldDescriptor.TYPE_BOOL: "^(true|false)$",
    **dict.fromkeys(INTEGER_RANGES, "^-?[0-9]+$"),
}
_WELL_KNOWN: Final[dict[str, dict[str, Any]]] = {
    "Any": {
        "type": "object",
        "properties": {"@type": {"type": "string"}, "value": _BYTES},
        "required": ["@type", "value"],
        "additionalProperties": False,
    },
    "Duration": {"type": "string", "pattern": "^-?[0-9]+([.][0-9]{3}|[.][0-9]{6}|[.][0-9]{9})?s$"},
    "FieldMask": {"type": "string"},
    "ListValue": {"type": "array"},
    "Struct": {"type": "object"},
    "Timestamp": {"type": "string", "format": "date-time"},
    "Value": _ANY_JSON,
}


def describe(message: Descriptor) -> dict[str, Any]:
    """Return a JSON Schema: the message at the top, and the types of its fields in `$defs` under their full names."""
    schema = {"$schema": _DRAFT, "title": message.full_name, **_object(message, message)}
    below = [one for one in messages_below(message)[1:] if not _has_own_form(one)]
    if below:
        schema["$defs"] = {one.full_name: _object(one, message) for one in below}
    return schema


def _has_own_form(message: Descriptor) -> bool:
    return bool(well_known_name(message)) or message.GetOptions().map_entry


def _object(message: Descriptor, top: Descriptor) -> dict[str, Any]:
    properties = {field.name: _field(field, top) for field in message.fields}
    return {
        "type": "object",
        "properties": {**properties, UNKNOWN: _UNKNOWN},
        # Fields without presence are always in canonical JSON, with their defaults.
        "required": [field.name for field in message.fields if field.is_required or not field.has_presence],
        "additionalProperties": False,
    }


def _field(field: FieldDescriptor, top: Descriptor) -> dict[str, Any]:
    if is_map(field):
        return _map(field, top)
    one = _one(field, top)
    return {"type": "array", "items": one} if field.is_repeated else one


def _map(field: FieldDescriptor, top: Descriptor) -> dict[str, Any]:
    entry = message_of(field)
    assert entry is not None
    key, value = entry.fields
    schema: dict[str, Any] = {"type": "object", "additionalProperties": _one(value, top)}
    if key.type in _KEY_PATTERNS:
        schema["propertyNames"] = {"pattern": _KEY_PATTERNS[key.type]}
    return schema


def _one(field: FieldDescriptor, top: Descriptor) -> dict[str, Any]:
    message = message_of(field)
    if message is None:
        return _scalar(field)
    if is_wrapper(message):
        return _scalar(message.fields[0])
    name = well_known_name(message)
    if name:
        return _WELL_KNOWN[name]
    return {"$ref": "#" if message.full_name == top.full_name else f"#/$defs/{message.full_name}"}


def _scalar(field: FieldDescriptor) -> dict[str, Any]:
    if field.type == FieldDescriptor.TYPE_ENUM:
        return _enum(enum_of(field))
    if field.type in INTEGER_RANGES:
        return _integer(*INTEGER_RANGES[field.type])
    return _SCALARS[field.type]


def _integer(least: int, most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most}


def _enum(enum: EnumDescriptor) -> dict[str, Any]:
    names = {"enum": list(symbols(enum).values())}
    # In JSON, an open enum's unknown symbols are numbers.
    return names if enum.is_closed else {"anyOf": [names, _integer(*INT32)]}
