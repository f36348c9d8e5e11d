"""Avro schemas as the Spark types of JSON bodies.

A logical type of a number stays that number, as in a body: `timestamp-millis` is a BIGINT.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from sowline.model.json_parts import is_array, is_object
from sowline.spark.json_schema import unsupported

_PRIMITIVES: Mapping[str, type[DataType]] = {
    "boolean": BooleanType,
    "int": IntegerType,
    "long": LongType,
    "float": FloatType,
    "double": DoubleType,
    "bytes": BinaryType,
    "string": StringType,
}
_NAMED = ("record", "enum", "fixed")
_WIDER = ((IntegerType(), LongType()), (FloatType(), DoubleType()))
"""In a union of both types, the second holds every value of the first."""


def avro_type(schema: Any) -> DataType:
    """Return the type of a parsed Avro schema; raise `not supported` with the path of a part that has no type."""
    return _AvroReader().type_of(schema, "", "")


class _AvroReader:
    """Reads one schema; `_named` are the types that it has named so far, None for one that is still being read."""

    def __init__(self) -> None:
        self._named: dict[str, DataType | None] = {}

    def type_of(self, schema: Any, path: str, namespace: str) -> DataType:
        if is_array(schema):
            return self._union(schema, path, namespace)
        if isinstance(schema, str):
            return self._reference(schema, path, namespace)
        if not is_object(schema) or "type" not in schema:
            raise unsupported(path, "an Avro type", schema)
        kind = schema["type"]
        if kind in _NAMED:
            return self._definition(schema, path, namespace)
        if kind == "array":
            return ArrayType(self.type_of(schema.get("items"), f"{path}[]", namespace))
        if kind == "map":
            return MapType(StringType(), self.type_of(schema.get("values"), f"{path}{{}}", namespace))
        return _decimal(schema, path) or self.type_of(kind, path, namespace)

    def _union(self, branches: list[Any], path: str, namespace: str) -> DataType:
        types = [self.type_of(branch, path, namespace) for branch in branches if branch != "null"]
        if len(types) == 1:
            return types[0]
        for narrow, wide in _WIDER:
            if narrow in types and wide in types and len(types) == 2:
                return wide
        raise unsupported(path, "null and one other type in a union", branches)

    def _reference(self, name: str, path: str, namespace: str) -> DataType:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]()
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full not in self._named:
            raise unsupported(path, "a type that the schema itself defines", name)
        found = self._named[full]
        if found is None:
            raise unsupported(path, "a type that does not hold itself", name)
        return found

    def _definition(self, schema: Mapping[str, Any], path: str, namespace: str) -> DataType:
        name = str(schema.get("name", ""))
        space = name.rpartition(".")[0] or schema.get("namespace", namespace)
        full = name if "." in name or not space else f"{space}.{name}"
        self._named[full] = None
        self._named[full] = found = self._defined(schema, path, space)
        return found

    def _defined(self, schema: Mapping[str, Any], path: str, namespace: str) -> DataType:
        if schema["type"] == "enum":
            return StringType()
        if schema["type"] == "fixed":
            return _decimal(schema, path) or BinaryType()
        return StructType(
            [
                StructField(
                    field["name"], self.type_of(field.get("type"), f"{path}/{field['name']}", namespace)
                )
                for field in schema.get("fields", ())
            ]
        )


def _decimal(schema: Mapping[str, Any], path: str) -> DecimalType | None:
    if schema.get("logicalType") != "decimal":
        return None
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not 0 <= scale <= precision <= 38:
        raise unsupported(path, "a decimal of at most 38 digits", dict(schema))
    return DecimalType(precision, scale)
