"""Debezium's change events: the rows that they make, and the values that they lack.

A database doesn't send large values that an update leaves alone. Debezium replaces each with a placeholder, in a form
that the type permits: such a value is *unchanged*.
"""

import base64
import hashlib
import json
import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from sowline.commands.command import DELTA_PUBLISH, PUBLISH
from sowline.commands.pipeline_row import SourceField

OPERATION: Final = "_op"
"""The column with the kind of a change event: c, r, u or d."""

_OPERATIONS: Final = ("c", "r", "u", "d")
_HEX: Final = "hex:"
_NAMES: Final = "_unchanged"
_WHOLE: Final = (
    "expected the values of all columns in an event that makes a record: set REPLICA IDENTITY FULL, or leave large"
    " columns out of the schema, got "
)


class Placeholder:
    """A connector's placeholder, which may begin with `hex:` as in the connector's own setting."""

    def __init__(self, given: str) -> None:
        data = bytes.fromhex(given.removeprefix(_HEX)) if given.startswith(_HEX) else given.encode()
        text = data.decode(errors="replace")
        self._bytes = bytearray(data)
        self._numbers = [byte - 256 if byte > 127 else byte for byte in data]
        self._text = text
        encoded = {base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()}
        # In an array of UUIDs, the placeholder is the UUID that Java makes of the bytes.
        of_java = str(uuid.UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3))
        self._texts = [text, *sorted(encoded), data.hex(), data.hex().upper()]
        self._texts += [of_java, json.dumps({text: text}, separators=(",", ":"))]

    def is_in(self, value: Column, type: DataType) -> Column | None:
        """Return whether a value is the placeholder, null for null; None if no value of the type can be one."""
        match type:
            case StringType():
                return value.isin(self._texts)
            case BinaryType():
                return value == F.lit(self._bytes)
            case ArrayType(elementType=ByteType() | ShortType() | IntegerType() | LongType()):
                return value == F.array(*map(F.lit, self._numbers)).cast(type)
            case ArrayType():
                one = self.is_in(F.get(value, F.lit(0)), type.elementType)
                return None if one is None else (F.size(value) == 1) & one
            case MapType(keyType=StringType()):
                return F.map_keys(value) == F.array(F.lit(self._text))
            case StructType():
                parts = [self.is_in(value[field.name], field.dataType) for field in type.fields]
                found = [F.coalesce(part, F.lit(False)) for part in parts if part is not None]
                return F.array_contains(F.array(*found), True) if found else None
        return None


class DebeziumRows(NamedTuple):
    """How to read events: the columns of the table, the placeholder, and the columns of the key."""

    fields: StructType
    placeholder: str
    key: Sequence[str]


def with_rows(events: DataFrame, rows: DebeziumRows) -> DataFrame:
    """Return a row for each event, in `row`; two for an update that changes the key. `row` is null if it has none.

    The events have `update` with `before`, `after` and `op`. A row has the columns of the table, `_op`, and in
    `_unchanged` the names of those that an update does not have. Without them there is no record with a new key: such
    an event has no row, so that the old record stays, and `problem` says why.
    """
    before, after = F.col("update.before"), F.col("update.after")
    placeholder = Placeholder(rows.placeholder)
    old, new = _row(before, None, placeholder, rows, "d"), _row(after, before, placeholder, rows, None)
    key = [name for name in rows.key if name in rows.fields.names]
    # An unchanged key is only in `before`.
    # Without REPLICA IDENTITY FULL, `before` has no more than the primary key. A key column that is null there has
    # not moved, and no record is deleted for it (test_debezium_updates_of_the_key).
    moved = [old[name].isNotNull() & ~old[name].eqNullSafe(new[name]) for name in key]
    has_moved = F.array_contains(F.array(*moved), True) if moved else F.lit(False)
    updated = F.when((F.col("update.op") == "u") & has_moved, F.array(old, new)).otherwise(F.array(new))
    # If an update changes the primary key, Debezium sends its row with the operation of an insert.
    is_new = F.col("update.op").isin("c", "r") | ((F.col("update.op") == "u") & has_moved)
    problem = F.when(is_new & (F.size(new[_NAMES]) > 0), _WHOLE)
    # An event without a valid row stays one row, so that it is refused.
    none = F.array(F.lit(None).cast(_type(rows.fields)))
    found = (
        F.when(problem.isNotNull(), none)
        .when((F.col("update.op") == "d") & before.isNotNull(), F.array(old))
        .when(F.col("update.op").isin(*_OPERATIONS[:3]) & after.isNotNull(), updated)
        .otherwise(none)
    )
    return events.select("*", problem.alias("problem"), F.explode(found).alias("row"))


def _row(
    image: Column, before: Column | None, placeholder: Placeholder, rows: DebeziumRows, operation: str | None
) -> Column:
    """Return the row of an image; a value that it lacks may be in the image `before`."""
    values, unchanged = [], []
    for field in rows.fields.fields:
        value = image[field.name]
        is_lacking = placeholder.is_in(value, field.dataType)
        if is_lacking is not None:
            is_lacking = F.coalesce(is_lacking, F.lit(False))
            if before is not None:
                was_lacking = placeholder.is_in(before[field.name], field.dataType)
                assert was_lacking is not None, "it has the same type"
                value = F.when(is_lacking & ~was_lacking, before[field.name]).otherwise(value)
                is_lacking = is_lacking & F.coalesce(was_lacking, F.lit(True))
            unchanged.append(F.when(is_lacking, field.name))
            value = F.when(~is_lacking, value)
        values.append(value.alias(field.name))
    op = F.col("update.op") if operation is None else F.lit(operation)
    names = F.array_compact(F.array(*unchanged)) if unchanged else F.array().cast("array<string>")
    return F.struct(*values, op.alias(OPERATION), names.alias(_NAMES)).cast(_type(rows.fields))


def _type(fields: StructType) -> StructType:
    more = [StructField(OPERATION, StringType()), StructField(_NAMES, ArrayType(StringType()))]
    return StructType([*fields.fields, *more])


def source_with_unchanged(source: Column) -> Column:
    """Return `_source` with the names of the columns that an update lacks."""
    names = F.col(f"row.{_NAMES}")
    return source.withField(SourceField.UNCHANGED, F.when(F.size(names) > 0, names))


def _unchanged() -> Column:
    return F.coalesce(F.col(SourceField.UNCHANGED.column), F.array().cast("array<string>"))


def is_partial() -> Column:
    """Whether a row lacks columns, and so is only a part of a record."""
    return F.size(_unchanged()) > 0


def without_unchanged(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return rows in which the columns that an update lacks are null again, whatever the steps made of the nulls."""
    for name in names:
        rows = rows.withColumn(name, F.when(~F.array_contains(_unchanged(), name), F.col(f"`{name}`")))
    return rows


def partial_command(command: Column) -> Column:
    """Return the command of a row: a part of a record must not replace the record."""
    given = F.coalesce(command, F.lit(PUBLISH))
    return F.when(is_partial() & (given == PUBLISH), DELTA_PUBLISH).otherwise(given)


def nulls_of(names: Sequence[str]) -> Column:
    """Return the columns of a part of a record that are null in the table, as members of a JSON object."""
    nulls = [
        F.when(
            F.col(f"`{name}`").isNull() & ~F.array_contains(_unchanged(), name), f"{json.dumps(name)}:null"
        )
        for name in names
    ]
    return F.when(is_partial(), F.array_join(F.array_compact(F.array(*nulls)), ",")).otherwise("")


def merging(fields: Sequence[StructField]) -> Column:
    """Return a sentence about the first map of a part of a record, or null: a delta can't remove a map's keys."""
    sentences = [
        F.when(
            is_partial() & F.col(f"`{field.name}`").isNotNull(),
            f"expected no map in the column {field.name} of an update that lacks values, which could not remove"  # noqa: S608 - no SQL
            " entries of it: make it text with to_json, or set REPLICA IDENTITY FULL",
        )
        for field in fields
        if isinstance(field.dataType, MapType)
    ]
    return F.coalesce(*sentences, F.lit(None).cast("string"))
