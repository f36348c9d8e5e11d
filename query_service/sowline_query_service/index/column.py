"""A column: the value of one path in every row, in arrays over which filters are evaluated."""

from collections.abc import Sequence
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sowline.model.json_parts import Part
from sowline.model.path import Path
from sowline_query_service.index.cells import ABSENT, HARD, NO_ROW, Absence, Cells, cell_of, cells_of
from sowline_query_service.index.dictionary import Dictionary
from sowline_query_service.index.verdicts import Verdicts

Rows = slice | NDArray[np.intp]
"""Rows as `start:stop` or by number."""

CAPACITY_MIN = 1024
SPARE_TEXTS = 1024
"""A dictionary with fewer strings is never rebuilt."""


class Column:
    """The kind of each row's value, its number, and its string's code (see `cells`).

    Rows that were never put, or were cleared, are empty. The arrays for numbers and codes are made when a row needs
    them, and codes are as narrow as the dictionary allows. The dictionary is rebuilt before most of its strings are
    unused.
    """

    __slots__ = (
        "_rebuild_at",
        "codes",
        "dictionary",
        "kinds",
        "may_have_hard",
        "numbers",
        "path",
        "verdicts",
    )

    def __init__(self, path: Path) -> None:
        self.path = path
        self.dictionary = Dictionary((None, ABSENT))
        self.verdicts = Verdicts(self.dictionary)
        self.kinds: NDArray[np.uint8] = np.zeros(CAPACITY_MIN, np.uint8)
        self.numbers: NDArray[np.float64] | None = None
        """The number in each row; NaN if there is none, otherwise finite. TRUE is 1, FALSE is 0."""
        self.codes: NDArray[Any] | None = None
        """The code of the string in each row; 0 if there is none."""
        self.may_have_hard = False
        self._rebuild_at = SPARE_TEXTS

    @property
    def nbytes(self) -> int:
        """The estimated memory in bytes, with strings and cached verdicts."""
        arrays = sum(array.nbytes for array in (self.kinds, self.numbers, self.codes) if array is not None)
        return arrays + self.dictionary.nbytes + self.verdicts.nbytes

    @property
    def is_blank(self) -> bool:
        """Whether no row has ever had a value."""
        return self.numbers is None and self.codes is None and not self.may_have_hard

    def reserve(self, rows: int) -> None:
        """Make space for rows 0 to `rows - 1`; new rows are empty."""
        capacity = len(self.kinds)
        if rows <= capacity:
            return
        # At least twice the capacity: a topic that grows record by record would otherwise copy its columns for each
        # record.
        more = max(rows, 2 * capacity) - capacity
        self.kinds = np.concatenate((self.kinds, np.zeros(more, np.uint8)))
        if self.numbers is not None:
            self.numbers = np.concatenate((self.numbers, np.full(more, nan)))
        if self.codes is not None:
            self.codes = np.concatenate((self.codes, np.zeros(more, self.codes.dtype)))
        assert len(self.kinds) >= rows, "there is space for all rows"
        assert self.numbers is None or len(self.numbers) == len(self.kinds), "a row has a number and a kind"
        assert self.codes is None or len(self.codes) == len(self.kinds), "a row has a code and a kind"

    def put(self, row: int, value: Part | Absence) -> None:
        """Set the value of one row, as in the document or as a path's reader returns it."""
        self.reserve(row + 1)
        kind, number, code = cell_of(value, self.dictionary)
        self.kinds[row] = kind
        self.may_have_hard = self.may_have_hard or kind == HARD
        if self.numbers is not None or number == number:
            self._all_numbers()[row] = number
        if self.codes is not None or code:
            self._all_codes()[row] = code
        # Last: a new string is in no row before, and would be forgotten as unused.
        self._forget_texts()

    def put_rows(self, rows: Rows, values: Sequence[Any]) -> None:
        """Set many rows; the value `ABSENT` clears a row. If a row is named twice, the last value counts."""
        if len(values):
            self.put_cells(rows, cells_of(values, self.dictionary))

    def put_cells(self, rows: Rows, cells: Cells) -> None:
        """Set many rows, at least one, to cells with this column's codes."""
        self.reserve(rows.stop if isinstance(rows, slice) else int(rows.max()) + 1)
        self.kinds[rows] = cells.kinds
        self.may_have_hard = self.may_have_hard or bool(np.equal(cells.kinds, HARD).any())
        # A row that is used again must lose the number and the code of its last record
        # (test_a_row_that_is_reused_holds_only_its_last_value).
        if cells.numbers is not None or self.numbers is not None:
            self._all_numbers()[rows] = nan if cells.numbers is None else cells.numbers
        if cells.codes is not None or self.codes is not None:
            self._all_codes()[rows] = 0 if cells.codes is None else cells.codes
        self._forget_texts()

    def clear(self, row: int) -> None:
        """Clear a row."""
        if row < len(self.kinds):
            self.kinds[row] = NO_ROW
            if self.numbers is not None:
                self.numbers[row] = nan
            if self.codes is not None:
                self.codes[row] = 0

    def _all_numbers(self) -> NDArray[np.float64]:
        if self.numbers is None:
            self.numbers = np.full(len(self.kinds), nan)
        return self.numbers

    def _all_codes(self) -> NDArray[Any]:
        """Return the codes, in a type that can hold all codes of the dictionary."""
        needed = np.min_scalar_type(len(self.dictionary) - 1)
        if self.codes is None:
            self.codes = np.zeros(len(self.kinds), needed)
        elif self.codes.dtype < needed:
            self.codes = self.codes.astype(needed)
        return self.codes

    def _forget_texts(self) -> None:
        """Rebuild the dictionary if most of its strings are in no row."""
        if len(self.dictionary) <= self._rebuild_at or self.codes is None:
            return
        if len(self.dictionary) > 2 * np.count_nonzero(self.codes) + SPARE_TEXTS:
            used = np.unique(self.codes[self.codes > 0])
            renumbered = np.zeros(len(self.dictionary), np.uint32)
            renumbered[used] = np.arange(1, len(used) + 1)
            self.codes = renumbered[self.codes].astype(np.min_scalar_type(len(used)))
            texts = self.dictionary.texts
            kept: list[int] = used.tolist()
            self.dictionary.rebuild(texts[code] for code in kept)
            assert len(self.dictionary) == len(used) + 1, "the strings that are in rows are left"
        # Counting reads every row. At twice the size, a change costs little on average.
        self._rebuild_at = max(SPARE_TEXTS, 2 * len(self.dictionary))
