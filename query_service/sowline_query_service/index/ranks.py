"""Sorts by columns: a number for each row that sorts like its value, and the rows that come first.

The order of values is `order_by`'s: NULL, then numbers (TRUE is 1, FALSE 0), then strings by code point.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sowline_query_service.index.cells import HARD
from sowline_query_service.index.column import Column

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ranks:
    """Ranks by row, not to be written to, and the rows without a valid rank, if any.

    Only HARD rows have none; rows without a record rank as NULL.
    """

    values: Numbers
    hard: NDArray[np.bool_] | None


def ranks(column: Column, rows: int, *, text: bool = False) -> Ranks | None:
    """Return the ranks of rows 0 to `rows - 1`. With `text`, values count as their texts: None if one is a number."""
    column.reserve(rows)
    numbers = None if column.numbers is None else column.numbers[:rows]
    is_number = None if numbers is None else ~np.isnan(numbers)
    if is_number is None or not is_number.any():
        numbers = is_number = None
    elif text:
        return None
    hard = column.kinds[:rows] == HARD if column.may_have_hard else None
    return Ranks(_values(column, rows, numbers, is_number), hard if hard is not None and hard.any() else None)


def _values(
    column: Column, rows: int, numbers: Numbers | None, is_number: NDArray[np.bool_] | None
) -> Numbers:
    texts = None if column.codes is None else column.dictionary.ranks().take(column.codes[:rows])
    if numbers is None or is_number is None:
        return np.zeros(rows) if texts is None else texts
    if texts is None or not texts.any():
        # NULL comes before every number, and NumPy would sort NaN after them
        # (test_null_comes_first_then_numbers_then_strings).
        return numbers if is_number.all() else np.where(is_number, numbers, -np.inf)
    # Strings come after all numbers, and no double is left above infinity: number the numbers, too
    # (test_null_comes_first_then_numbers_then_strings).
    distinct, indices = np.unique(numbers[is_number], return_inverse=True)
    values = np.where(texts > 0, texts + len(distinct), 0.0)
    values[is_number] = indices + 1.0
    return values


def top(
    rows: NDArray[np.intp], terms: Sequence[Numbers], descending: Sequence[bool], count: int
) -> NDArray[np.intp]:
    """Return rows that include the first `count` of ascending rows, and all that equal the last in every term.

    `terms` are ranks by row, and `descending` tells which of them fall. The result is in no order.
    """
    if not terms or count >= len(rows):
        return rows
    if count <= 0:
        return rows[:0]
    values = terms[0] if len(rows) == len(terms[0]) else terms[0][rows]
    falls = descending[0]
    last_index = len(values) - count if falls else count - 1
    last = np.partition(values, last_index)[last_index]
    near = np.flatnonzero(values >= last if falls else values <= last)
    # All that equal the last one, not only as many as are needed: the next term of the order decides among them
    # (test_ties_at_the_end_are_all_there).
    is_tie = values[near] == last
    first, ties = rows[near[~is_tie]], rows[near[is_tie]]
    return np.concatenate((first, top(ties, terms[1:], descending[1:], count - len(first))))


@dataclass(frozen=True, slots=True)
class Sorting:
    """The ranks of all rows for each term of an order, and which terms fall. Without terms all rows are equal."""

    ranks: tuple[Ranks, ...] = ()
    descending: tuple[bool, ...] = ()

    def can_tell(self, rows: NDArray[np.intp]) -> bool:
        """Return whether the ranks of these rows are valid."""
        return not any(term.hard is not None and term.hard[rows].any() for term in self.ranks)

    def first(self, rows: NDArray[np.intp], count: int) -> NDArray[np.intp]:
        """Return rows that include the first `count` of ascending rows, whose ranks must be valid."""
        return top(rows, [term.values for term in self.ranks], self.descending, count)

    def of(self, rows: NDArray[np.intp]) -> list[Numbers]:
        """Return, for each term, numbers of these rows that ascend in the requested order."""
        terms = zip(self.ranks, self.descending, strict=True)
        return [-term.values[rows] if falls else term.values[rows] for term, falls in terms]
