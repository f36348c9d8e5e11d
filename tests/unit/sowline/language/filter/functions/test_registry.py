"""The rule for all functions: how arguments are converted, and what becomes of NULL."""

from math import inf, isnan, nan
from typing import Any

import pytest

from sowline.language.filter.functions.registry import (
    TEXT_CHARS_MAX,
    Function,
    array,
    bounded,
    comparable,
    double,
    number,
    scalar,
    text,
    whole,
)
from sowline.language.filter.numbers import INT64_MIN, UINT64_MAX


@pytest.mark.parametrize(
    ("value", "converted"),
    [
        (7, ("7", 7, 7.0, 7, 7, [7])),
        ("2.5", ("2.5", 2.5, 2.5, 2, "2.5", ["2.5"])),
        (True, ("true", 1, 1.0, 1, True, [True])),
        ([3, "x"], ("3", 3, 3.0, 3, 3, [3, "x"])),
        (None, (None, None, None, None, None, [])),
    ],
)
def test_an_argument_is_converted(value: Any, converted: tuple[Any, ...]) -> None:
    """All but an array take the first element of an array."""
    found = tuple(convert(value) for convert in (text, number, double, whole, scalar, array))
    assert repr(found) == repr(converted)


def test_a_whole_number_stays_within_64_bits() -> None:
    """Infinity is the largest number, and NaN none."""
    assert [whole(value) for value in (inf, -inf, 1e30, -1e30)] == [UINT64_MAX, INT64_MIN] * 2
    assert whole("x") is None


def test_what_has_no_order_is_not_comparable() -> None:
    """NULL and NaN have none."""
    assert [comparable(value) for value in (None, nan, "x", "2")] == [None, None, None, 2]
    assert isnan(number("x") or 0)


def test_the_number_of_arguments() -> None:
    """Optional ones may be left out, repeated ones given any number of times."""
    one_or_two = Function("F", (text, whole), str, optional=1)
    assert [one_or_two.takes(count) for count in range(4)] == [False, True, True, False]
    any_number = Function("G", (text,), str, repeats=True)
    assert (any_number.least, any_number.most, any_number.takes(100)) == (1, None, True)


def test_null_gives_null() -> None:
    """But for a function that takes it."""
    strict = Function("F", (text, whole), lambda source, count: source * count)
    assert strict.applied_to(2)("ab", 2.9) == "abab"
    assert strict.applied_to(2)("ab", None) is None
    assert Function("G", (text,), len).applied_to(1)(None) is None
    tolerant = Function("H", (text,), lambda *texts: texts.count(None), repeats=True, takes_null=True)
    assert tolerant.applied_to(3)(None, "a", None) == 2


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("", None),
        ("x" * (TEXT_CHARS_MAX + 1), None),
        ("x", "x"),
        (True, True),
        (UINT64_MAX, UINT64_MAX),
        (UINT64_MAX + 1, float(2**64)),
        (None, None),
    ],
)
def test_a_result_is_a_value_of_the_language(result: Any, expected: object) -> None:
    """A text is not empty and not too long, and an integer fits 64 bits."""
    assert repr(bounded(result)) == repr(expected)
