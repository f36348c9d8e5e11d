"""Finds the columns of records and their types, in a first pass over what is returned. Pure.

Only returned values decide: a user learns nothing of other records and fields.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from sowline.model.path import Path
from sowline.serving.tables.columns import NULL, TableColumn, bad_column, require_few
from sowline.serving.tables.sow_records import SentRecord

_CHOOSE = "choose its type in columns, such as text"

_INT64_MIN, _INT64_MAX, _UINT64_MAX = -(2**63), 2**63 - 1, 2**64 - 1

DOUBLE_INTEGER_MAX = 2**53
"""A double holds each integer up to it."""

_KINDS: Final[dict[type, str]] = {
    bool: "a boolean",
    int: "an integer",
    float: "a fraction",
    str: "a string",
    dict: "an object",
    list: "an array",
}
_FAMILIES: Final = {int: float, list: dict}
"""Kinds that a column may hold with another kind: integers as doubles, arrays as the text of their JSON."""


def kind_of(value: object) -> str:
    """Return a value's kind, for messages."""
    return next((name for kind, name in _KINDS.items() if isinstance(value, kind)), "null")


@dataclass(slots=True)
class _Seen:
    """The values of one column so far: for each kind, and for the extremes, the SOW key of a record."""

    first: dict[type, str] = field(default_factory=dict)
    low: tuple[int, str] = (0, "")
    high: tuple[int, str] = (0, "")

    def note(self, values: Sequence[Any], records: Sequence[SentRecord]) -> None:
        kinds = dict.fromkeys(map(type, values))
        for kind in kinds:
            if kind in self.first or kind is type(None):
                continue
            self.first[kind] = next(
                record.sow_key for value, record in zip(values, records, strict=True) if type(value) is kind
            )
        if int in kinds:
            integers = [value for value in values if type(value) is int]
            low, high = min(integers), max(integers)
            if low < self.low[0]:
                self.low = low, _key_of(low, values, records)
            if high > self.high[0]:
                self.high = high, _key_of(high, values, records)

    def type_in(self, name: str) -> str:
        """Return the type of a column of this name; raise `bad column`."""
        families: dict[type, type] = {}
        for kind in self.first:
            families.setdefault(_FAMILIES.get(kind, kind), kind)
        if len(families) > 1:
            raise self._mixed(name, *list(families.values())[:2])
        if float in self.first:
            return self._double(name)
        if int in self.first:
            return self._integer(name)
        return next(iter({"bool" if kind is bool else "text" for kind in families}), NULL)

    def _double(self, name: str) -> str:
        for value, key in (self.low, self.high):
            if abs(value) > DOUBLE_INTEGER_MAX:
                raise bad_column(
                    f"expected numbers that a double holds in the column {name}, got a fraction in record"
                    f" {self.first[float]} and an integer beyond 53 bits in record {key}: {_CHOOSE}"
                )
        return "double"

    def _integer(self, name: str) -> str:
        (low, low_key), (high, high_key) = self.low, self.high
        if low >= _INT64_MIN and high <= _INT64_MAX:
            return "int64"
        if low >= 0 and high <= _UINT64_MAX:
            return "uint64"
        fits_alone = low >= _INT64_MIN and high <= _UINT64_MAX
        records = f"{low_key} and {high_key}" if fits_alone else high_key if high > _UINT64_MAX else low_key
        raise bad_column(
            f"expected integers of 64 bits in the column {name}, got others in record {records}: {_CHOOSE}"
        )

    def _mixed(self, name: str, one: type, other: type) -> Exception:
        return bad_column(
            f"expected values of one type in the column {name}, got {_KINDS[one]} in record {self.first[one]} and"
            f" {_KINDS[other]} in record {self.first[other]}: {_CHOOSE}"
        )


def _key_of(wanted: int, values: Sequence[Any], records: Sequence[SentRecord]) -> str:
    """Return the SOW key of the record with this integer."""
    return next(
        record.sow_key
        for value, record in zip(values, records, strict=True)
        if type(value) is int and value == wanted
    )


class ColumnSurvey:
    """The columns that a table of the records seen so far has.

    Those that are requested, or all fields in the order in which they are met. The type of a requested column stays.
    """

    def __init__(self, requested: Sequence[TableColumn]) -> None:
        self._requested = requested
        self._seen: dict[TableColumn, _Seen] = {column: _Seen() for column in requested if not column.type}

    @property
    def column_count(self) -> int:
        """The number of columns so far."""
        return len(self._requested or self._seen)

    def note(self, records: Sequence[SentRecord]) -> None:
        """Note the values of more records; raise `bad column` for too many columns."""
        documents = [record.data for record in records]
        if not self._requested:
            self._note_names(dict.fromkeys(chain.from_iterable(documents)))
        for column, seen in self._seen.items():
            seen.note(values_of(column, documents), records)

    def _note_names(self, names: Iterable[str]) -> None:
        for name in names:
            self._seen.setdefault(TableColumn(Path((name,))), _Seen())
        # With each portion: records whose names are those of a map would fill the memory before the end of the pass
        # (test_too_many_fields).
        require_few(len(self._seen))

    def columns(self) -> tuple[TableColumn, ...]:
        """Return the columns with their types; raise `bad column` for values that have no common type."""
        return tuple(
            column if column.type else TableColumn(column.path, self._seen[column].type_in(column.name))
            for column in self._requested or self._seen
        )


def values_of(column: TableColumn, documents: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the value of a column in each record; None if there is none."""
    first, *rest = column.path.steps
    if isinstance(first, str) and not rest:
        return [document.get(first) for document in documents]
    find = column.path.find
    return [find(document) for document in documents]
