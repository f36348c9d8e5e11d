"""Describes the canonical JSON of a reader schema as a JSON Schema."""

from collections.abc import Callable
from typing import Any, Final

from sowline.codecs.avro.defaults import Defaults
from sowline.codecs.avro.leaves import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, NON_FINITE
from sowline.codecs.avro.types import AvroField, AvroType

Json = dict[str, Any]

_NUMBER: Final = {"anyOf": [{"type": "number"}, {"enum": list(NON_FINITE)}]}
_PLAIN: Final[dict[str, Json]] = {
    "null": {"type": "null"},
    "boolean": {"type": "boolean"},
    "int": {"type": "integer", "minimum": INT_MIN, "maximum": INT_MAX},
    "long": {"type": "integer", "minimum": LONG_MIN, "maximum": LONG_MAX},
    "float": _NUMBER,
    "double": _NUMBER,
    "string": {"type": "string"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
    "fixed": {"type": "string", "contentEncoding": "base64"},
}
_DAY: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]"
_PART: Final = {"type": "integer", "minimum": 0, "maximum": (1 << 32) - 1}
_DURATION: Final = {"months": _PART, "days": _PART, "milliseconds": _PART}


def described(root: AvroType, defaults: Defaults) -> Json:
    """Return the JSON Schema (draft 2020-12). Its definitions are the records, enums and fixed types."""
    definitions = _Definitions(defaults)
    top = definitions.mention(root)
    definitions.fill()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **top, "$defs": definitions.made}


class _Definitions:
    def __init__(self, defaults: Defaults) -> None:
        self.made: dict[str, Json] = {}
        self._defaults = defaults
        self._queue: list[AvroType] = []

    def mention(self, named: AvroType) -> Json:
        if named.name not in self.made:
            # Reserved before its definition is made: a record may contain itself.
            self.made[named.name] = {}
            self._queue.append(named)
        return {"$ref": f"#/$defs/{named.name}"}

    def fill(self) -> None:
        while self._queue:
            named = self._queue.pop(0)
            about = {"description": named.doc} if named.doc else {}
            self.made[named.name] = about | self._definition(named)

    def _definition(self, named: AvroType) -> Json:
        match named.kind:
            case "record":
                return _object({field.name: self._field(field) for field in named.fields})
            case "enum":
                return {"type": "string", "enum": list(named.symbols)}
        return _leaf(named)

    def _field(self, field: AvroField) -> Json:
        made = self._part(field.type)
        if field.doc:
            made["description"] = field.doc
        if field.has_default:
            made["default"] = self._defaults.of(field)
        return made

    def _part(self, part: AvroType) -> Json:
        part = part.itself
        match part.kind:
            case "record" | "enum" | "fixed":
                return self.mention(part)
            case "array":
                return {"type": "array", "items": self._part(part.of)}
            case "map":
                return {"type": "object", "additionalProperties": self._part(part.of)}
            case "union":
                return {"anyOf": [self._part(branch) for branch in part.branches]}
        return _leaf(part)


def _object(properties: Json) -> Json:
    return {
        "type": "object",
        "properties": properties,
        # Canonical JSON has every field: defaults are filled in.
        "required": list(properties),
        "additionalProperties": False,
    }


def _leaf(leaf: AvroType) -> Json:
    describe = _LOGICAL.get(leaf.logical.rpartition("-")[0] or leaf.logical)
    # A copy: a field adds its text and its default, which all fields of the type would then have
    # (test_what_a_field_adds_is_its_own).
    return dict(_PLAIN[leaf.kind]) if describe is None else describe(leaf)


def _text(pattern: str, **more: str) -> Json:
    return {"type": "string", **more, "pattern": f"^{pattern}$"}


def _decimal(leaf: AvroType) -> Json:
    fraction = rf"\.[0-9]{{{leaf.scale}}}" if leaf.scale else ""
    return _text(f"-?[0-9]+{fraction}")


_LOGICAL: Final[dict[str, Callable[[AvroType], Json]]] = {
    "decimal": _decimal,
    "uuid": lambda leaf: {"type": "string", "format": "uuid"},
    "duration": lambda leaf: _object(dict(_DURATION)),
    "date": lambda leaf: {"type": "string", "format": "date"},
    "time": lambda leaf: _text(f"{_CLOCK}{{{leaf.digits}}}"),
    "timestamp": lambda leaf: _text(f"{_DAY}T{_CLOCK}{{{leaf.digits}}}Z", format="date-time"),
    "local-timestamp": lambda leaf: _text(f"{_DAY}T{_CLOCK}{{{leaf.digits}}}"),
}
