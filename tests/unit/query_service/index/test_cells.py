"""Cells: what a column keeps of a value."""

from math import inf, nan
from typing import Any

import numpy as np
import pytest

from sowline_query_service.index.cells import (
    ABSENT,
    BOOLEAN,
    DOUBLE,
    HARD,
    INTEGER,
    NO_ROW,
    NULL,
    TEXT,
    cell_of,
    cells_of,
)
from sowline_query_service.index.dictionary import Dictionary

MISSING = (None, ABSENT)

VALUES: list[tuple[Any, int]] = [
    ("x", TEXT),
    ("", NULL),
    (None, NULL),
    (ABSENT, NO_ROW),
    (5, INTEGER),
    (2**53, INTEGER),
    (2**53 + 1, HARD),
    (2**2000, HARD),
    (1.5, DOUBLE),
    (inf, HARD),
    (nan, HARD),
    (True, BOOLEAN),
    ([1], HARD),
    ([], NULL),
    ({"a": 1}, NULL),
]


@pytest.mark.parametrize(("value", "kind"), VALUES, ids=lambda part: str(part)[:10])
def test_a_value_has_a_kind(value: Any, kind: int) -> None:
    """A column can't hold arrays and large integers: those are hard."""
    dictionary = Dictionary(MISSING)
    found, number, code = cell_of(value, dictionary)
    assert (found, code) == (kind, int(kind == TEXT))
    assert number == value if kind in (INTEGER, DOUBLE, BOOLEAN) else number != number


@pytest.mark.parametrize(
    "values",
    [
        ["x", "y", "x"],
        ["x", None, ABSENT, ""],
        [None, None],
        [1, 2, 3],
        [1, 2.5, True, None, ABSENT],
        [1.5, inf],
        [1, 2**53 + 1],
        [1, 2**2000],
        [1, "x", [1], None],
    ],
    ids=str,
)
def test_many_values_have_the_cells_of_each(values: list[Any]) -> None:
    """Whichever way is fast for them."""
    one, many = Dictionary(MISSING), Dictionary(MISSING)
    expected = [cell_of(value, one) for value in values]
    cells = cells_of(values, many)
    kinds = np.broadcast_to(np.asarray(cells.kinds), len(values))
    assert kinds.tolist() == [kind for kind, _, _ in expected]
    codes = [0] * len(values) if cells.codes is None else cells.codes.tolist()
    assert codes == [code for _, _, code in expected]
    numbers = [nan] * len(values) if cells.numbers is None else cells.numbers.tolist()
    for (kind, wanted, _), found in zip(expected, numbers, strict=True):
        assert found == wanted or kind in (TEXT, NULL, NO_ROW, HARD)


def test_an_absent_value_is_no_number() -> None:
    """So a column of numbers needs no other value for it."""
    assert float(ABSENT) != float(ABSENT)
