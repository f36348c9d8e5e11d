"""The JSON Schema of the canonical JSON of FIX and NVFIX."""

from typing import Any, Final
from urllib.parse import quote

from sowline.codecs.fix.fields import BYTES_KEY
from sowline.codecs.fix.options import BODY_LENGTH, CHECK_SUM, FixOptions

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_TAG_PATTERN: Final = "^[1-9][0-9]{0,8}$"

_VALUE: Final = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {BYTES_KEY: {"type": "string", "contentEncoding": "base64"}},
            "required": [BYTES_KEY],
            "additionalProperties": False,
        },
    ]
}
_FIELD: Final = {
    "anyOf": [{"$ref": "#/$defs/value"}, {"type": "array", "items": {"$ref": "#/$defs/value"}, "minItems": 2}]
}


def described(options: FixOptions) -> dict[str, Any]:
    """Return the schema: each group is an array of objects, and each other field a text or several."""
    groups = options.all_groups
    definitions: dict[str, Any] = {"value": _VALUE, "field": _FIELD}
    properties: dict[str, Any] = {name: {"$ref": "#/$defs/field"} for name in options.tags}
    for name, by_type in groups.items():
        # One definition for all messages: a member in some of them is described as a member in each.
        definitions[f"group {name}"] = _group(frozenset().union(*by_type.values()), options)
        properties[name] = _reference(name)
    for tag in [*options.data, *((BODY_LENGTH, CHECK_SUM) if options.is_fix else ())]:
        # Computed when a message is written: no record has it.
        properties[options.name_of(tag)] = False
    schema: dict[str, Any] = {
        "$schema": _DRAFT,
        "type": "object",
        "minProperties": 1,
        "properties": properties,
        "additionalProperties": {"$ref": "#/$defs/field"},
        "$defs": definitions,
    }
    if options.is_fix:
        names = {"enum": list(options.tags)}
        schema["propertyNames"] = (
            {"anyOf": [{"pattern": _TAG_PATTERN}, names]} if options.tags else {"pattern": _TAG_PATTERN}
        )
    return schema


def _group(members: frozenset[str], options: FixOptions) -> dict[str, Any]:
    groups, lengths = options.all_groups, {options.name_of(length) for length in options.data}
    properties = {
        name: _reference(name) if name in groups else {"$ref": "#/$defs/value"}
        # No entry has a length: it is computed when the entry is written (test_a_length_is_no_member_of_an_entry).
        for name in sorted(members - lengths)
    }
    entry = {"type": "object", "minProperties": 1, "properties": properties, "additionalProperties": False}
    return {"type": "array", "items": entry}


def _reference(name: str) -> dict[str, str]:
    step = quote(f"group {name}".replace("~", "~0").replace("/", "~1"))
    return {"$ref": f"#/$defs/{step}"}
