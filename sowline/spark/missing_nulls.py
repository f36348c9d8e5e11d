"""Adds the nulls that Spark leaves out of JSON, where an Avro schema requires them.

A field that may be null but has no default must be present. The schemas that Spark itself makes have such fields.
"""

from typing import Any, Final

from sowline.model.body import read_object, write_body
from sowline.model.json_parts import is_array, is_object
from sowline.model.json_pointer import part_at

_NULL: Final = {"type": "null"}


class MissingNulls:
    """The nulls of one Avro schema; `described` is the JSON Schema of its canonical JSON."""

    def __init__(self, described: dict[str, Any]) -> None:
        self._whole = described
        self._has_any = _has_null(described)

    def added(self, body: bytes) -> bytes:
        """Return a body with a null for each field that must be present, may be null, and is missing.

        Raise `not json`, `not an object` or `too deep`.
        """
        # Parsing and writing each body again is expensive, and most schemas need no null.
        if not self._has_any:
            return body
        document = read_object(body)
        self._fill(document, self._whole)
        return write_body(document)

    def _fill(self, value: Any, schema: Any) -> None:
        schema = self._itself(schema)
        if is_array(value):
            for item in value:
                self._fill(item, schema.get("items"))
        elif is_object(value):
            parts, others = schema.get("properties", {}), schema.get("additionalProperties")
            for name in schema.get("required", ()):
                if name not in value and _is_nullable(parts[name]) and "default" not in parts[name]:
                    value[name] = None
            for name, item in value.items():
                self._fill(item, parts.get(name, others))

    def _itself(self, schema: Any) -> dict[str, Any]:
        """Return the schema that a reference, or a choice other than null, stands for; an empty one without any."""
        while is_object(schema):
            choices = [one for one in schema.get("anyOf", ()) if one != _NULL]
            if "$ref" in schema:
                schema = part_at(self._whole, schema["$ref"].removeprefix("#"))
            elif len(choices) == 1:
                (schema,) = choices
            else:
                return schema
        return {}


def _is_nullable(schema: dict[str, Any]) -> bool:
    return schema.get("type") == "null" or _NULL in schema.get("anyOf", ())


def _has_null(schema: Any) -> bool:
    if is_array(schema):
        return any(map(_has_null, schema))
    return is_object(schema) and (_is_nullable(schema) or any(map(_has_null, schema.values())))
