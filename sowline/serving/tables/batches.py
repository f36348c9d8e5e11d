"""Writes records as an Arrow stream: a schema, batches of columns, and the end or an error.

It needs pyarrow, of the extra `arrow`. Import it when a table is asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

import orjson
import pyarrow as pa

from sowline.errors import SowlineError
from sowline.model.path import Path
from sowline.serving.tables.columns import NULL, TableColumn, bad_column
from sowline.serving.tables.sow_records import Digits, FieldReader, text_of
from sowline.serving.tables.survey import DOUBLE_INTEGER_MAX, kind_of
from sowline.wire.media_types import ARROW_END, ARROW_MESSAGE

_TYPES: dict[str, Any] = {
    NULL: pa.null(),
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "double": pa.float64(),
    "text": pa.string(),
}
_MISFITS = (ValueError, TypeError, OverflowError, ArithmeticError)
"""What a value raises that is not of its column's type; the errors of pyarrow and `decimal` are among them."""


Take = Callable[[Sequence[Any]], list[Any]]
"""Returns the value of a column in each of some records; None where there is none."""

Make = Callable[[list[Any]], Any]
"""Returns the array of such values; raises one of `_MISFITS`."""


class TableWriter:
    """Writes the parts of one stream. `metadata` goes into its schema."""

    def __init__(self, columns: Sequence[TableColumn], metadata: Mapping[str, str]) -> None:
        # Each field once: several columns may lie below one (test_columns_below_a_field).
        self._fields = FieldReader(list(dict.fromkeys(column.field for column in columns)))
        self._columns = [
            (column, _taker_of(column, self._fields.getter(column.field)), _maker_of(column))
            for column in columns
        ]
        fields = [pa.field(column.name, _arrow_type(column)) for column in columns]
        self._schema = pa.schema(fields, {name.encode(): text.encode() for name, text in metadata.items()})
        self._keeps_digits = any(column.type == "decimal128" for column in columns)

    @property
    def column_count(self) -> int:
        """The number of columns."""
        return len(self._columns)

    def head(self) -> bytes:
        """Return the schema, with which the stream begins."""
        return bytes(self._schema.serialize())

    def batch(self, sent: Sequence[bytes]) -> bytes:
        """Return records as one batch; raise `bad column` for a value that its column can't hold."""
        records = self._fields.read(sent, keeps_digits=self._keeps_digits)
        documents = [record.data for record in records]
        arrays = []
        for column, take, make in self._columns:
            values = take(documents)
            # Digits take longer to read, and most texts are strings. Where one is not, others are to come
            # (test_values_of_each_type).
            if column.type == "text" and not self._keeps_digits and _need_digits(values):
                self._keeps_digits = True
                return self.batch(sent)
            try:
                arrays.append(make(values))
            except _MISFITS:
                _raise_misfit(column, make, values, records)
        if not arrays:
            return b""
        return bytes(pa.RecordBatch.from_arrays(arrays, schema=self._schema).serialize())

    @staticmethod
    def end() -> bytes:
        """Return the mark of the end of the stream."""
        return ARROW_END

    @staticmethod
    def failure(error: SowlineError) -> bytes:
        """Return the end of a stream that is not whole: a message that no reader of Arrow accepts.

        The status of the answer has been sent. A stream that only broke off would be whole for most readers.
        """
        text = orjson.dumps({"reason": error.reason, "message": error.message})
        return ARROW_MESSAGE + len(text).to_bytes(4, "little") + text


def _arrow_type(column: TableColumn) -> Any:
    if column.type == "decimal128":
        return pa.decimal128(column.precision, column.scale)
    return _TYPES[column.type]


def _taker_of(column: TableColumn, get: Callable[[Any], Any]) -> Take:
    """Return a function that reads a column; `get` reads its field."""
    below = column.path.steps[1:]
    if not below:
        return lambda documents: list(map(get, documents))
    find = Path(below).find
    return lambda documents: [find(get(document)) for document in documents]


def _maker_of(column: TableColumn) -> Make:
    """Return a function that makes the array of a column; it raises one of `_MISFITS`."""
    type = _arrow_type(column)

    def make(values: list[Any]) -> Any:
        return pa.array(_CHECKED[column.type](values), type)

    return make


def _of_kinds(values: list[Any], *kinds: type) -> list[Any]:
    # pyarrow would take True for 1, and 2.0 for 2 (test_values_that_do_not_fit).
    if not {*map(type, values)} <= {*kinds, type(None)}:
        raise TypeError
    return values


def _doubles(values: list[Any]) -> list[Any]:
    kinds = {*map(type, values)}
    if Digits in kinds:
        values = [float(value) if type(value) is Digits else value for value in values]
    if int in kinds and any(type(value) is int and abs(value) > DOUBLE_INTEGER_MAX for value in values):
        raise OverflowError
    return _of_kinds(values, int, float)


def _need_digits(values: list[Any]) -> bool:
    """Whether texts of these values are in the digits of their numbers."""
    return not {*map(type, values)}.isdisjoint((float, dict, list))


def _texts(values: list[Any]) -> list[Any]:
    if {*map(type, values)} <= {str, type(None)}:
        return values
    return [None if value is None else text_of(value) for value in values]


def _decimals(values: list[Any]) -> list[Any]:
    return [None if value is None else _decimal(value) for value in values]


def _decimal(value: Any) -> Decimal:
    if type(value) not in (int, Digits, str):
        raise TypeError
    decimal = Decimal(value)
    if not decimal.is_finite():
        raise InvalidOperation
    return decimal


_CHECKED: dict[str, Callable[[list[Any]], list[Any]]] = {
    NULL: _of_kinds,
    "bool": lambda values: _of_kinds(values, bool),
    "int64": lambda values: _of_kinds(values, int),
    "uint64": lambda values: _of_kinds(values, int),
    "double": _doubles,
    "text": _texts,
    "decimal128": _decimals,
}
"""For each type, what checks its values, and turns them into those that pyarrow reads."""


def _raise_misfit(column: TableColumn, make: Make, values: list[Any], records: Sequence[Any]) -> NoReturn:
    """Raise `bad column` with the first record whose value its column can't hold."""
    for value, record in zip(values, records, strict=True):
        try:
            make([value])
        except _MISFITS:
            kind = "a fraction" if type(value) is Digits else kind_of(value)
            raise bad_column(
                f"expected values of {_arrow_type(column)} in the column {column.name}, got {kind} that is none in"
                f" record {record.sow_key}"
            ) from None
    raise AssertionError("a value that does not fit does not fit by itself")
