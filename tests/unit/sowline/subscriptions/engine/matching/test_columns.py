"""Columns: the demands of many filters on one field, which one comparison of arrays checks."""

from math import inf, nan

import pytest

from sowline.model.path import Value
from sowline.subscriptions.engine.matching.columns import RangeColumn, TextColumn
from sowline.subscriptions.engine.matching.terms import Range

RANGES: list[Range | None] = [(0, 5), (3, inf), None, (-inf, 2)]
TEXTS = ["x", "y", None, "x"]


@pytest.mark.parametrize(
    ("value", "met"),
    [
        (4, [True, True, True, False]),
        (0.0, [True, False, True, True]),
        ("4", [True, True, True, False]),
        ("many", [False, True, True, False]),
        (None, [False, False, True, False]),
        (nan, [False, False, True, False]),
        ([4], None),
        (2**53 + 1, None),
    ],
    ids=str,
)
def test_a_number_is_in_ranges(value: Value, met: list[bool] | None) -> None:
    """A text is above all numbers; arrays and large integers are for the filters."""
    column = RangeColumn(RANGES)
    found = column.judge(value)
    assert (None if found is None else found.tolist()) == met
    assert column.bound.tolist() == [True, True, False, True]


@pytest.mark.parametrize(
    ("value", "met"),
    [
        ("x", [True, False, True, True]),
        ("z", [False, False, True, False]),
        (5, [False, False, True, False]),
        (None, [False, False, True, False]),
        (["x"], None),
    ],
    ids=str,
)
def test_a_text_equals_texts(value: Value, met: list[bool] | None) -> None:
    """A row without a demand is always met."""
    column = TextColumn(TEXTS)
    found = column.judge(value)
    assert (None if found is None else found.tolist()) == met
    assert column.bound.tolist() == [True, True, False, True]


def test_a_number_may_equal_a_text_that_spells_one() -> None:
    """Then the filters decide."""
    assert TextColumn(["5", "x"]).judge(5) is None
    assert TextColumn(["5", "x"]).judge(None) is not None
