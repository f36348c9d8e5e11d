"""The functions of whole arrays, called with the elements."""

from math import inf, isnan, nan
from typing import Any

import pytest

from sowline.language.filter.functions.arrays import FUNCTIONS, count, extreme, to_string, total
from sowline.language.filter.functions.registry import TEXT_CHARS_MAX


def test_count_leaves_out_nulls() -> None:
    """Zeros, texts and NaN are counted."""
    assert count([0, "", None, nan, None]) == 3
    assert count([]) == 0


def test_the_extreme_is_that_of_the_numbers() -> None:
    """Texts that are numbers compare as numbers, and the others are passed over."""
    assert extreme(max, [3, "10", "x", None, nan, True]) == 10
    assert extreme(min, [3, "-10", "x", None]) == -10


def test_elements_without_a_number_have_no_extreme() -> None:
    """The result is NaN if there are elements, and NULL if there are none."""
    assert isnan(extreme(max, ["x", None]) or 0)
    assert extreme(max, [None]) is None


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ([1, "2", True, None], 4),
        ([1, 0.5], 1.5),
        ([2**64 - 1, 1], 2.0**64),
        ([inf, 1], inf),
        ([None], None),
        ([], None),
    ],
)
def test_the_total_adds_what_is_not_null(elements: list[Any], expected: object) -> None:
    """It is an integer as long as 64 bits hold it."""
    assert repr(total(elements)) == repr(expected)


def test_the_total_with_a_text_is_no_number() -> None:
    """One text that is not a number is enough."""
    assert repr(total([1, "x"])) == "nan"


@pytest.mark.parametrize(
    ("delimiter", "null", "expected"),
    [(", ", None, "a, 1, true"), ("-", "?", "a-?-1-true-?"), (None, None, "a1true"), ("", "0", "a01true0")],
)
def test_texts_are_joined(delimiter: str | None, null: str | None, expected: str) -> None:
    """NULLs and empty texts are replaced, or left out without a replacement."""
    assert to_string(["a", None, 1, True, ""], delimiter, null) == expected


def test_a_text_that_is_too_long_is_null() -> None:
    """The delimiters count."""
    assert to_string(["x" * TEXT_CHARS_MAX, ""], ",") is not None
    assert to_string(["x" * TEXT_CHARS_MAX, "y"], ",") is None


def test_a_scalar_is_an_array_of_one_element() -> None:
    """The functions of the language convert their argument."""
    functions = {function.name: function.applied_to(1) for function in FUNCTIONS}
    assert functions["ARRAY_COUNT"]("x") == 1
    assert functions["ARRAY_COUNT"](None) == 0
    assert functions["ARRAY_MAX"]([1, 3, 2]) == 3
    assert functions["ARRAY_MIN"]([2, 1, 3]) == 1
    assert functions["ARRAY_SUM"](7) == 7
