"""JSON Schemas as the Spark types of JSON bodies."""

from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from sowline.errors import SowlineError

_SIMPLE = {"integer": LongType(), "number": DoubleType(), "boolean": BooleanType()}
_FORMATS = {"date": DateType(), "date-time": TimestampType()}
_OF_VALUES = {str: "string", bool: "boolean", int: "integer", float: "number"}
_CHOICES = ("oneOf", "anyOf")
_DEPTH_MAX = 100


def json_type(schema: Any) -> DataType:
    """Return the type of a parsed JSON Schema; raise `not supported` with the path of a part that has no type."""
    return _JsonReader(schema).type_of(schema, "", 0)


class _JsonReader:
    def __init__(self, whole: Any) -> None:
        self._whole = whole

    def type_of(self, schema: Any, path: str, depth: int) -> DataType:
        if depth > _DEPTH_MAX:
            raise _unsupported(path, "a schema that does not hold itself", f"more than {_DEPTH_MAX} levels")
        if not isinstance(schema, dict):
            raise _unsupported(path, "a schema with a type", schema)
        if "$ref" in schema:
            return self.type_of(self._referred(schema["$ref"], path), path, depth + 1)
        for choice in _CHOICES:
            if choice in schema:
                return self._one_of(schema[choice], path, depth + 1)
        kind = _kind(schema, path)
        if kind == "object":
            return self._object(schema, path, depth + 1)
        if kind == "array":
            return ArrayType(self.type_of(schema.get("items"), f"{path}[]", depth + 1))
        if kind == "string":
            return _FORMATS.get(schema.get("format", ""), StringType())
        return _SIMPLE[kind]

    def _referred(self, reference: str, path: str) -> Any:
        found = self._whole
        if not reference.startswith("#"):
            raise _unsupported(path, "a $ref into the schema itself", reference)
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise _unsupported(path, "a $ref that leads somewhere", reference)
            found = found[name]
        return found

    def _one_of(self, branches: list[Any], path: str, depth: int) -> DataType:
        kept = [branch for branch in branches if not _is_null(branch)]
        if len(kept) != 1:
            raise _unsupported(path, "null and one other schema to choose from", branches)
        return self.type_of(kept[0], path, depth)

    def _object(self, schema: dict[str, Any], path: str, depth: int) -> DataType:
        properties = schema.get("properties")
        if properties:
            return StructType(
                [
                    StructField(name, self.type_of(of, f"{path}/{name}", depth))
                    for name, of in properties.items()
                ]
            )
        values = schema.get("additionalProperties")
        if not isinstance(values, dict) or not values:
            raise _unsupported(path, "an object with properties, or with a schema for all of them", schema)
        return MapType(StringType(), self.type_of(values, f"{path}{{}}", depth))


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _kind(schema: dict[str, Any], path: str) -> str:
    """Return the one type that is not null; an enumeration may have it in its values."""
    given = schema.get("type", [])
    kinds = {given} if isinstance(given, str) else set(given)
    if not kinds:
        values = [schema["const"]] if "const" in schema else schema.get("enum", [])
        kinds = {_OF_VALUES.get(type(value), "") for value in values if value is not None}
        kinds = {"object"} if not kinds and "properties" in schema else kinds
    kinds -= {"null"}
    if kinds == {"integer", "number"}:
        return "number"
    known = kinds & {"object", "array", "string", *_SIMPLE}
    if len(kinds) != 1 or not known:
        raise _unsupported(path, "one type beside null", schema)
    return known.pop()


def _unsupported(path: str, expected: str, found: Any) -> SowlineError:
    where = path or "the schema"
    return SowlineError("not supported", f"expected {expected} at {where}, got {str(found)[:200]}")
