"""The JSON Schema of XML as canonical JSON."""

from typing import Any, Final

from sowline.codecs.xml.nodes import COMMENT, CONTENT, TEXT

_TEXTS: Final = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_ELEMENT: Final = {"$ref": "#/$defs/element"}
_NODES: Final = {
    COMMENT: _TEXTS,
    CONTENT: {"type": "array", "items": {"type": "string"}},
}


def described() -> dict[str, Any]:
    """Return the schema: an object with one element, which is a text or an object of nodes."""
    element = {
        "type": "object",
        "properties": {**_NODES, TEXT: _TEXTS},
        "patternProperties": {"^@": {"type": "string"}, r"^\?": _TEXTS},
        "additionalProperties": {"anyOf": [_ELEMENT, {"type": "array", "items": _ELEMENT}]},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "minProperties": 1,
        "properties": _NODES,
        "patternProperties": {r"^\?": _TEXTS},
        "additionalProperties": _ELEMENT,
        "$defs": {"element": {"anyOf": [{"type": "string"}, element]}},
    }
