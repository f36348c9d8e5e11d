"""Arithmetic on values: NULL, NaN, integers of 64 bits, and doubles."""

from typing import Any

import pytest

from sowline.language.filter.arithmetic import OPERATIONS, signed
from sowline.language.filter.numbers import INT64_MIN, UINT64_MAX


@pytest.mark.parametrize(
    ("left", "operator", "right", "expected"),
    [
        (1, "+", 2, 3),
        ("1", "+", 2.5, 3.5),
        (UINT64_MAX, "+", 1, 2.0**64),
        (INT64_MIN, "-", 1, -(2.0**63)),
        (True, "*", 7, 7),
        (7, "/", 2, 3),
        (-7, "/", 2, -3),
        (-7, "/", -2, 3),
        (7, "/", 2.0, 3.5),
        (7, "%", 3, 1),
        (-7, "%", 3, -1),
        (7, "%", -3, 1),
        (-7.5, "%", 2, -1.5),
        ([7, 8], "+", [1, 9], 8),
    ],
)
def test_an_operation_on_numbers(left: Any, operator: str, right: Any, expected: float) -> None:
    """Integers stay exact, and are divided toward zero; of an array the first element counts."""
    assert repr(OPERATIONS[operator](left, right)) == repr(expected)


@pytest.mark.parametrize("operator", OPERATIONS)
def test_null_comes_before_nan(operator: str) -> None:
    """A text that is not a number is NaN, unless the other operand is NULL."""
    operate = OPERATIONS[operator]
    assert [operate(None, "x"), operate("x", None), operate(None, 1)] == [None] * 3
    assert [repr(operate("x", 1)), repr(operate(0, "x"))] == ["nan", "nan"]


@pytest.mark.parametrize("operator", ["/", "%"])
def test_a_division_by_zero_is_null(operator: str) -> None:
    """It makes no difference whether the zero is an integer, or the dividend infinite."""
    divide = OPERATIONS[operator]
    assert [divide(1, 0), divide(1, 0.0), divide(float("inf"), 0)] == [None] * 3
    assert repr(divide("x", 0)) == "nan"


def test_the_remainder_of_infinity_is_no_number() -> None:
    """The remainder of a division by infinity is the dividend."""
    assert repr(OPERATIONS["%"](float("inf"), 2)) == "nan"
    assert OPERATIONS["%"](3, float("inf")) == 3.0


def test_a_sign() -> None:
    """It makes a number of a text, and a double where 64 bits don't suffice."""
    assert repr([signed("-", "2"), signed("+", "2"), signed("-", 0.5)]) == "[-2, 2, -0.5]"
    assert signed("-", UINT64_MAX) == -float(UINT64_MAX)
    assert (signed("-", None), signed("-", [None])) == (None, None)
