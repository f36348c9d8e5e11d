"""The JSON of a row, in Spark SQL: with all digits of its timestamps, or the reason why it can't be JSON."""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructField,
    StructType,
)

FORMATS: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
}
"""How JSON has timestamps. Spark's own formats have milliseconds, and would cut the rest off (test_every_type)."""

_TEXT_MAX: Final = 200


def row_json(columns: Iterable[Column]) -> Column:
    """Return the JSON of columns, as they are named; null values are left out."""
    return F.to_json(F.struct(*columns), FORMATS)


def with_members(body: Column, members: Column) -> Column:
    """Return a JSON object with further members, which are texts like `"a":null`; with none it stays as it is."""
    start = F.regexp_replace(body, r"\}$", "")
    separator = F.when(body == "{}", "").otherwise(",")
    return F.when(members == "", body).otherwise(F.concat(start, separator, members, F.lit("}")))


def misfit(fields: Iterable[StructField], *, finite: bool = True) -> Column | None:
    """Return a sentence about the first column that would be other data as JSON, or null; None if none can be.

    JSON has no NaN and no infinities: Spark would write them as strings, which `finite=False` permits. It would write
    other characters for strings that are not UTF-8.
    """
    sentences = []
    for field in fields:
        value = F.col(f"`{field.name}`")
        if (unfit := _is_unfit(value, field.dataType, finite=finite)) is None:
            continue
        expected = "finite numbers and UTF-8" if finite else "UTF-8"
        is_plain = not isinstance(field.dataType, (ArrayType, MapType, StructType))
        got = value.cast("string") if is_plain else F.to_json(value)
        start = F.lit(f"expected {expected} in the column {field.name}, got ")
        got = F.substring(F.make_valid_utf8(got), 1, _TEXT_MAX)
        sentences.append(F.when(unfit, F.concat(start, got)))
    return F.coalesce(*sentences) if sentences else None


def readable(fields: Iterable[StructField]) -> list[Column]:
    """Return columns for a dead letter: a string that is not UTF-8 is `base64:` and its bytes."""
    return [_readable(F.col(f"`{field.name}`"), field.dataType).alias(field.name) for field in fields]


def _is_unfit(value: Column, type: DataType, *, finite: bool) -> Column | None:
    """Return whether something in a value does not fit, false if it is null; None if all of its type fits."""
    found: Column | None = None
    match type:
        case FloatType() | DoubleType() if finite:
            found = F.isnan(value) | (F.abs(value) == float("inf"))
        case StringType():
            found = ~F.is_valid_utf8(value)
        case ArrayType():
            found = _exists(value, type.elementType, finite=finite)
        case MapType():
            parts = (
                _exists(F.map_keys(value), type.keyType, finite=finite),
                _exists(F.map_values(value), type.valueType, finite=finite),
            )
            found = _any(parts)
        case StructType():
            found = _any(_is_unfit(value[one.name], one.dataType, finite=finite) for one in type.fields)
    return None if found is None else F.coalesce(found, F.lit(False))


def _exists(array: Column, type: DataType, *, finite: bool) -> Column | None:
    if _is_unfit(F.lit(None), type, finite=finite) is None:
        return None

    def is_unfit(one: Column) -> Column:
        unfit = _is_unfit(one, type, finite=finite)
        assert unfit is not None, "its type was asked above"
        return unfit

    return F.exists(array, is_unfit)


def _any(parts: Iterable[Column | None]) -> Column | None:
    found: Column | None = None
    for part in parts:
        if part is not None:
            found = part if found is None else found | part
    return found


def _readable(value: Column, type: DataType) -> Column:
    match type:
        case StringType():
            bytes_text = F.concat(F.lit("base64:"), F.base64(value.cast("binary")))
            return F.when(F.coalesce(F.is_valid_utf8(value), F.lit(True)), value).otherwise(bytes_text)
        case ArrayType():
            return F.transform(value, lambda one: _readable(one, type.elementType))
        case MapType():
            return F.transform_values(value, lambda _, one: _readable(one, type.valueType))
        case StructType():
            parts = [_readable(value[one.name], one.dataType).alias(one.name) for one in type.fields]
            return F.when(value.isNotNull(), F.struct(*parts)) if parts else value
    return value
