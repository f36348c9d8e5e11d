"""The JSON of a row, in Spark SQL: with all digits of its timestamps, or the reason why it can't be JSON."""

from collections.abc import Iterable
from typing import Final, NamedTuple

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

from sowline.spark import sql

FORMATS: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
}
"""The formats of timestamps in JSON. Spark's own formats would cut off all after milliseconds (test_every_type)."""

_TEXT_MAX: Final = 200


class Refusal(NamedTuple):
    """Whether a row would be other data as JSON, never null, and the sentence about its first column that would."""

    condition: str
    sentence: str


def row_json(columns: Iterable[Column]) -> Column:
    """Return the JSON of columns, by their names; null values are left out."""
    return F.to_json(F.struct(*columns), FORMATS)


def fields_json(fields: Iterable[StructField]) -> str:
    """Return the JSON of columns."""
    return _json(sql.name(field.name) for field in fields)


def readable_json(fields: Iterable[StructField]) -> str:
    """Return the JSON of columns for a dead letter: a string that is not UTF-8 is `base64:` and its bytes."""
    names = [(sql.name(field.name), field.dataType) for field in fields]
    return _json(f"{_readable(name, type)} AS {name}" for name, type in names)


def with_members(body: Column, members: Column) -> Column:
    """Return a JSON object with further members, which are texts like `"a":null`; with none it stays as it is."""
    start = F.regexp_replace(body, r"\}$", "")
    separator = F.when(body == "{}", "").otherwise(",")
    return F.when(members == "", body).otherwise(F.concat(start, separator, members, F.lit("}")))


def misfit(fields: Iterable[StructField], *, finite: bool = True) -> Refusal | None:
    """Return whether columns would be other data as JSON; None if none can be.

    JSON has no NaN and no infinities: Spark would write them as strings, which `finite=False` permits. It would write
    other characters for strings that are not UTF-8.
    """
    expected = "finite numbers and UTF-8" if finite else "UTF-8"
    unfit: list[str] = []
    sentences: list[str] = []
    for field in fields:
        value = sql.name(field.name)
        if (condition := _unfit(value, field.dataType, finite=finite)) is None:
            continue
        is_plain = not isinstance(field.dataType, (ArrayType, MapType, StructType))
        got = f"CAST({value} AS STRING)" if is_plain else f"to_json({value})"
        start = sql.text(f"expected {expected} in the column {field.name}, got ")
        unfit.append(condition)
        sentences.append(
            f"CASE WHEN {condition} THEN concat({start}, substring(make_valid_utf8({got}), 1, {_TEXT_MAX})) END"
        )
    if not unfit:
        return None
    return Refusal(f"coalesce({sql.any_of(unfit)}, false)", f"coalesce({', '.join(sentences)})")


def _json(columns: Iterable[str]) -> str:
    formats = ", ".join(sql.text(part) for pair in FORMATS.items() for part in pair)
    return f"to_json(struct({', '.join(columns)}), map({formats}))"


def _unfit(value: str, type: DataType, *, finite: bool, depth: int = 0) -> str | None:
    """Return whether something in a value does not fit, null or false if not; None if all of its type fits."""
    match type:
        case FloatType() | DoubleType() if finite:
            # NaN is included: Spark sorts it above all other numbers.
            return f"(abs({value}) >= double('Infinity'))"
        case StringType():
            return f"(NOT is_valid_utf8({value}))"
        case ArrayType():
            parts = [_exists(value, type.elementType, finite=finite, depth=depth)]
        case MapType():
            parts = [
                _exists(f"map_keys({value})", type.keyType, finite=finite, depth=depth),
                _exists(f"map_values({value})", type.valueType, finite=finite, depth=depth),
            ]
        case StructType():
            parts = [
                _unfit(f"{value}.{sql.name(one.name)}", one.dataType, finite=finite, depth=depth)
                for one in type.fields
            ]
        case _:
            return None
    return sql.any_of([part for part in parts if part is not None])


def _exists(array: str, type: DataType, *, finite: bool, depth: int) -> str | None:
    # A lambda within another needs a name of its own, or it would hide the element of the outer array.
    one = f"one{depth}"
    unfit = _unfit(one, type, finite=finite, depth=depth + 1)
    return None if unfit is None else f"exists({array}, {one} -> coalesce({unfit}, false))"


def _readable(value: str, type: DataType, depth: int = 0) -> str:
    one = f"one{depth}"
    match type:
        case StringType():
            bytes_text = f"concat('base64:', base64(CAST({value} AS BINARY)))"
            return f"IF(coalesce(is_valid_utf8({value}), true), {value}, {bytes_text})"
        case ArrayType():
            return f"transform({value}, {one} -> {_readable(one, type.elementType, depth + 1)})"
        case MapType():
            part = _readable(one, type.valueType, depth + 1)
            return f"transform_values({value}, (key{depth}, {one}) -> {part})"
        case StructType() if type.fields:
            names = [(sql.name(field.name), field.dataType) for field in type.fields]
            parts = [f"{_readable(f'{value}.{name}', type, depth)} AS {name}" for name, type in names]
            return f"IF({value} IS NULL, NULL, struct({', '.join(parts)}))"
        case _:
            return value
