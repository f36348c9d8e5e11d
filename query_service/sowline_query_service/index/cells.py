"""Converts values of documents to cells of a column: a kind, a number, and the code of a string."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import isfinite, nan
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sowline.model.json_parts import Part
from sowline.model.path import value_of
from sowline_query_service.index.dictionary import Dictionary

NO_ROW, NULL, INTEGER, DOUBLE, BOOLEAN, TEXT, HARD = range(7)
"""The kinds. A column can't hold HARD values exactly: arrays, integers beyond 2^53. NO_ROW must be 0."""

INTEGER_MAX = 2**53
"""Up to here a double holds every integer."""


class Absence(Enum):
    """The value of a row without a record."""

    ABSENT = "absent"

    def __float__(self) -> float:
        return nan


ABSENT: Final = Absence.ABSENT

_KINDS: dict[type, int] = {
    Absence: NO_ROW,
    type(None): NULL,
    int: INTEGER,
    float: DOUBLE,
    bool: BOOLEAN,
    str: TEXT,
}
_TEXTUAL = {str, type(None), Absence}
_NUMERIC = {int, float, bool, type(None), Absence}

Cell = tuple[int, float, int]
"""Kind, number (NaN for none), and code (0 for no string)."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of many rows; `numbers` or `codes` are None if no row has one."""

    kinds: NDArray[np.uint8] | int
    numbers: NDArray[np.float64] | None
    codes: NDArray[np.uint32] | None


def cell_of(value: Part | Absence, dictionary: Dictionary) -> Cell:
    """Return the cell of one value; add a new string to the dictionary."""
    match value:
        # In a filter, an empty string is NULL (test_a_value_has_a_kind).
        case str():
            return (TEXT, nan, dictionary.codes[value]) if value else (NULL, nan, 0)
        # Before the integers, because in Python a boolean is one of them (test_a_value_has_a_kind).
        case bool():
            return BOOLEAN, float(value), 0
        case int() if abs(value) <= INTEGER_MAX:
            return INTEGER, float(value), 0
        # NaN stands for no number: a row with it would be taken for one without (test_a_value_has_a_kind).
        case float() if isfinite(value):
            return DOUBLE, value, 0
        case Absence():
            return NO_ROW, nan, 0
        case _:
            return NULL if value_of(value) is None else HARD, nan, 0


def cells_of(values: Sequence[Any], dictionary: Dictionary) -> Cells:
    """Return the cells of many values; fast if all are strings, or all are numbers (or missing)."""
    types = set(map(type, values))
    if types <= _TEXTUAL:
        return _texts(values, types, dictionary)
    return (_numbers(values, types) if types <= _NUMERIC else None) or _mixed(values, dictionary)


def _texts(values: Sequence[Any], types: set[type], dictionary: Dictionary) -> Cells:
    if str not in types:
        return Cells(_kinds(values, types), None, None)
    codes = np.fromiter(map(dictionary.codes.__getitem__, values), np.uint32, len(values))
    kinds = _kinds(values, types)
    # Among the strings are empty ones, which by their type alone would be texts
    # (test_many_values_have_the_cells_of_each).
    if not codes.all():
        kinds = np.where((codes == 0) & (kinds == TEXT), np.uint8(NULL), kinds).astype(np.uint8)
    return Cells(kinds, None, codes)


def _numbers(values: Sequence[Any], types: set[type]) -> Cells | None:
    """Return the cells of numbers; None if a double may not hold one of them exactly."""
    try:
        numbers = np.array(values, np.float64)
    # Python has integers beyond every double: the values are judged one by one instead
    # (test_many_values_have_the_cells_of_each).
    except OverflowError:
        return None
    kinds = _kinds(values, types)
    # `<`, although a double holds 2^53: here, 2^53 + 1 has become 2^53, too
    # (test_many_values_have_the_cells_of_each).
    is_exact = np.abs(numbers) < (INTEGER_MAX if int in types else np.inf)
    if not is_exact.all() and not (is_exact | (np.asarray(kinds) <= NULL)).all():
        return None
    return Cells(kinds, numbers, None)


def _kinds(values: Sequence[Any], types: set[type]) -> NDArray[np.uint8] | int:
    """Return the kinds by the types alone; one kind for all values if they have one type."""
    if len(types) == 1:
        return _KINDS[next(iter(types))]
    return np.fromiter(map(_KINDS.__getitem__, map(type, values)), np.uint8, len(values))


def _mixed(values: Sequence[Any], dictionary: Dictionary) -> Cells:
    kinds, numbers, codes = zip(*(cell_of(value, dictionary) for value in values), strict=True)
    return Cells(np.array(kinds, np.uint8), np.array(numbers, np.float64), np.array(codes, np.uint32))
