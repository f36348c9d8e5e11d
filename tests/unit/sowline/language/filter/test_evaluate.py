"""The operators on scalars, in three-valued logic."""

import operator
from math import inf, nan
from typing import Any

import pytest

from sowline.language.filter.evaluate import (
    all_true,
    any_true,
    first,
    inverted,
    related,
    to_number,
    to_text,
    truth,
)


@pytest.mark.parametrize(
    ("value", "number", "text", "verdict"),
    [
        (None, None, None, None),
        (True, 1, "true", True),
        (False, 0, "false", False),
        (17, 17, "17", True),
        (0.5, 0.5, "0.5", True),
        (0.0, 0.0, "0.0", False),
        (nan, nan, "nan", None),
        (inf, inf, "inf", True),
        ("2.0", 2.0, "2.0", True),
        ("x", nan, "x", None),
        (2**64, 2.0**64, "1.8446744073709552e+19", True),
    ],
)
def test_a_scalar_as_number_text_and_condition(value: Any, number: Any, text: Any, verdict: Any) -> None:
    """A text that is not a number is NaN, and no condition."""
    assert repr((to_number(value), to_text(value), truth(value))) == repr((number, text, verdict))


def test_an_array_is_its_first_element() -> None:
    """It counts where one scalar is needed."""
    assert (first([7, 8]), first(7), truth([0, 1])) == (7, 7, False)


@pytest.mark.parametrize(
    ("left", "right", "order"),
    [
        (1, 2.5, -1),
        (True, 1, 0),
        ("a", "b", -1),
        ("10", "9", -1),
        ("10", 9, 1),
        (9, "10", -1),
        ("x", 10**30, 1),
        (inf, "x", -1),
        ("1.0", 1, 0),
    ],
)
def test_the_order_of_two_scalars(left: Any, right: Any, order: int) -> None:
    """Texts by code point, a text and a number as numbers; any other text is above all numbers."""
    assert related(operator.lt, left, right) is (order < 0)
    assert related(operator.eq, left, right) is (order == 0)
    assert related(operator.ge, left, right) is (order >= 0)


def test_null_has_no_order() -> None:
    """A comparison with NULL is NULL."""
    assert [related(operator.eq, None, None), related(operator.lt, 1, None)] == [None, None]


@pytest.mark.parametrize(
    ("verdicts", "any_of", "all_of"),
    [
        ([], False, True),
        ([True, None], True, None),
        ([False, None], None, False),
        ([None, True, False], True, False),
        ([True, True], True, True),
        ([False, False], False, False),
    ],
)
def test_verdicts_combine(verdicts: list[bool | None], any_of: bool | None, all_of: bool | None) -> None:
    """NULL gives way to what decides."""
    assert (any_true(verdicts), all_true(verdicts)) == (any_of, all_of)


def test_the_verdict_of_not() -> None:
    """NOT NULL is NULL."""
    assert [inverted(verdict) for verdict in (True, False, None)] == [False, True, None]
