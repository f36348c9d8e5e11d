"""JSON Schemas as the Spark types of JSON bodies."""

import re
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from sowline.codecs.schema import AVRO, Schema
from sowline.errors import SowlineError
from sowline.model.json_parts import is_object

DIGITS_MAX: Final = 38
"""The digits that a DECIMAL can have."""

_SIMPLE = {"integer": LongType(), "number": DoubleType(), "boolean": BooleanType()}
_FORMATS = {"date": DateType(), "date-time": TimestampType()}
_OF_VALUES: Final[Mapping[type[object], str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}
_CHOICES = ("oneOf", "anyOf")
_DEPTH_MAX = 100
_NON_FINITE = ("NaN", "Infinity", "-Infinity")
_INT = (-(1 << 31), (1 << 31) - 1)
_LONG_MAX = (1 << 63) - 1
_DECIMAL = re.compile(r"\^-\?\[0-9\]\+(?:\\\.\[0-9\]\{([0-9]+)\})?\$")
"""The pattern that the canonical JSON of an Avro decimal has, with its scale."""
_UNKNOWN_FIELDS = "@unknown"
"""The member of canonical JSON that keeps the Protobuf fields that a schema does not have."""


def json_type(schema: Any) -> DataType:
    """Return the type of a parsed JSON Schema; raise `not supported` with the path of a part that has no type."""
    return _JsonReader(schema).type_of(schema, "", 0)


def canonical_type(described: Any, reader: Schema) -> DataType:
    """Return the type of the canonical JSON of a reader schema; `described` is the codec's description of it.

    A part that has no type in Spark is a STRING with its JSON.
    """
    return _CanonicalReader(described, reader)._part(described, "", 0)


class _JsonReader:
    """Reads one schema; `_open` are the references that are being read."""

    def __init__(self, whole: Any) -> None:
        self._whole = whole
        self._open = {"#"}

    def type_of(self, schema: Any, path: str, depth: int) -> DataType:
        if depth > _DEPTH_MAX:
            raise unsupported(
                path, f"a schema of at most {_DEPTH_MAX} levels", f"more than {_DEPTH_MAX} levels"
            )
        if not is_object(schema):
            raise unsupported(path, "a schema with a type", schema)
        if "$ref" in schema:
            return self._reference(schema["$ref"], path, depth + 1)
        for choice in _CHOICES:
            if choice in schema:
                return self._one_of(schema[choice], path, depth + 1)
        kind = _kind(schema, path)
        if kind == "object":
            return self._object(schema, path, depth + 1)
        if kind == "array":
            return ArrayType(self._part(schema.get("items"), f"{path}[]", depth + 1))
        return self._string(schema) if kind == "string" else self._number(kind, schema)

    def _part(self, schema: Any, path: str, depth: int) -> DataType:
        return self.type_of(schema, path, depth)

    def _string(self, schema: dict[str, Any]) -> DataType:
        return _FORMATS.get(schema.get("format", ""), StringType())

    def _number(self, kind: str, schema: dict[str, Any]) -> DataType:
        return _SIMPLE[kind]

    def _reference(self, reference: str, path: str, depth: int) -> DataType:
        if reference in self._open:
            raise unsupported(path, "a schema that does not hold itself", reference)
        self._open.add(reference)
        found = self.type_of(self._referred(reference, path), path, depth)
        self._open.remove(reference)
        return found

    def _referred(self, reference: str, path: str) -> Any:
        found = self._whole
        if not reference.startswith("#"):
            raise unsupported(path, "a $ref into the schema itself", reference)
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if not is_object(found) or name not in found:
                raise unsupported(path, "a $ref that leads somewhere", reference)
            found = found[name]
        return found

    def _one_of(self, branches: list[Any], path: str, depth: int) -> DataType:
        kept = [branch for branch in branches if not _is_null(branch)]
        if len(kept) != 1:
            raise unsupported(path, "null and one other schema to choose from", branches)
        return self.type_of(kept[0], path, depth)

    def _object(self, schema: dict[str, Any], path: str, depth: int) -> DataType:
        properties = schema.get("properties")
        if properties:
            return StructType(
                [
                    StructField(name, self._part(of, f"{path}/{name}", depth))
                    for name, of in properties.items()
                ]
            )
        values = schema.get("additionalProperties")
        if not is_object(values) or not values:
            raise unsupported(path, "an object with properties, or with a schema for all of them", schema)
        return MapType(StringType(), self._part(values, f"{path}{{}}", depth))


class _CanonicalReader(_JsonReader):
    """Reads a codec's description of its canonical JSON."""

    def __init__(self, described: Any, reader: Schema) -> None:
        super().__init__(described)
        self._has_decimals = reader.type == AVRO

    def _part(self, schema: Any, path: str, depth: int) -> DataType:
        open_references = set(self._open)
        try:
            return super()._part(schema, path, depth)
        except SowlineError:
            # The part that failed has left its references open. The next part that uses one of them would be taken
            # for a schema that holds itself.
            self._open = open_references
            return StringType()

    def _string(self, schema: dict[str, Any]) -> DataType:
        if schema.get("contentEncoding") == "base64":
            return BinaryType()
        decimal = _DECIMAL.fullmatch(schema.get("pattern", "")) if self._has_decimals else None
        if decimal is not None and int(decimal[1] or 0) <= DIGITS_MAX:
            return DecimalType(DIGITS_MAX, int(decimal[1] or 0))
        return super()._string(schema)

    def _number(self, kind: str, schema: dict[str, Any]) -> DataType:
        if kind == "integer" and (schema.get("minimum"), schema.get("maximum")) == _INT:
            return IntegerType()
        if kind == "integer" and schema.get("maximum", 0) > _LONG_MAX:
            # An unsigned integer of 64 bits has up to 20 digits, and a LONG holds only half of them (test_protobuf).
            return DecimalType(20, 0)
        return super()._number(kind, schema)

    def _one_of(self, branches: list[Any], path: str, depth: int) -> DataType:
        # Numbers that JSON does not have are texts, which Spark reads as the numbers.
        return super()._one_of([branch for branch in branches if not _is_non_finite(branch)], path, depth)

    def _object(self, schema: dict[str, Any], path: str, depth: int) -> DataType:
        properties = {**schema.get("properties", {})}
        properties.pop(_UNKNOWN_FIELDS, None)
        return super()._object({**schema, "properties": properties}, path, depth)


def _is_null(schema: Any) -> bool:
    return is_object(schema) and schema.get("type") == "null"


def _is_non_finite(schema: Any) -> bool:
    values = schema.get("enum", ()) if is_object(schema) else ()
    return bool(values) and all(value in _NON_FINITE for value in values)


def _kind(schema: dict[str, Any], path: str) -> str:
    """Return the one type that is not null; an enumeration may show it by its values."""
    given = schema.get("type", [])
    kinds = {given} if isinstance(given, str) else set(given)
    if not kinds:
        # By the exact type, because for `isinstance` a boolean is an integer, too.
        kinds = {_OF_VALUES.get(type(value), "") for value in _values(schema) if value is not None}
        kinds = {"object"} if not kinds and "properties" in schema else kinds
    kinds -= {"null"}
    if kinds == {"integer", "number"}:
        return "number"
    known = kinds & {"object", "array", "string", *_SIMPLE}
    if len(kinds) != 1 or not known:
        raise unsupported(path, "one type other than null", schema)
    return known.pop()


def _values(schema: dict[str, Any]) -> list[object]:
    return [schema["const"]] if "const" in schema else schema.get("enum", [])


def unsupported(path: str, expected: str, found: Any) -> SowlineError:
    """Return the error for a part of a schema that has no type in Spark."""
    where = path or "the schema"
    return SowlineError("not supported", f"expected {expected} at {where}, got {str(found)[:200]}")
