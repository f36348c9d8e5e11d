"""Operators on arrays: true if they are true for any pair of elements."""

from itertools import combinations, product
from math import nan
from typing import Any

import pytest

from sowline.language.filter.arrays import RELATIONS, any_element, between, compare, elements
from sowline.language.filter.compiled import compile_filter
from sowline.language.filter.evaluate import any_true, related
from sowline.model.path import Scalar


@pytest.mark.parametrize("operator", ["=", "!=", "<", "<=", ">", ">="])
def test_large_arrays_are_not_compared_pair_by_pair(operator: str) -> None:
    """Two arrays of 100,000 elements are compared without trying ten thousand million pairs."""
    below, above = [str(n) for n in range(100_000)], [100_000 + n for n in range(100_000)]
    matched = compile_filter(f"/a {operator} /b").matches({"a": below, "b": above})
    assert matched is (operator in ("!=", "<", "<="))


@pytest.mark.parametrize(
    ("left", "name", "right", "expected"),
    [
        (1, "<", 2, True),
        ([1, 5], "=", 5, True),
        ([1, 5], "=", 4, False),
        ([1, None], "=", 4, None),
        ([1, 2], "=", ["x", "2"], True),
        (["1", "x"], "=", [1.0, 7], True),
        (["a", "b"], "=", ["b", None], True),
        ([1, 2], "=", [3, None], None),
        ([1, 2], "=", [3, 4], False),
        ([nan, 1], "=", [nan, 2], False),
        ([1, 1], "!=", [1, 1], False),
        (["01", "01"], "!=", [1, 1], False),
        ([1, 2], "!=", [1, 1], True),
        ([5, 6], "<", [6, 0], True),
        ([5, 6], "<", [5, 0], False),
        ([5, 6], ">=", ["7", "6"], True),
        ([5, 6], ">", ["x", "y"], False),
        ([nan, nan], "<", [1, 2], False),
        ([], "=", 1, False),
    ],
)
def test_a_pair_decides(left: Any, name: str, right: Any, expected: bool | None) -> None:
    """Without a pair for which the relation is true, NULLs make the answer NULL."""
    assert compare(name, left, right) is expected


@pytest.mark.parametrize("name", RELATIONS)
def test_the_few_elements_that_decide_give_the_answer_of_all(name: str) -> None:
    """All pairs of short arrays of mixed values are compared one by one."""
    values: list[Scalar] = [None, 2, 10, nan, "10", "9", "x"]
    for lefts, rights in product(combinations(values, 3), combinations(values, 2)):
        every = any_true(related(RELATIONS[name], one, other) for one in lefts for other in rights)
        assert compare(name, [*lefts], [*rights]) is every, (lefts, rights)


def test_between_takes_the_widest_range() -> None:
    """Any element, any low end and any high end may make it true."""
    assert between([1, 7], [9, 6], 8) is True
    assert between(7, 8, [3, 9]) is False
    assert between([1, None], 3, 4) is None


def test_a_test_of_scalars_is_asked_of_each_element() -> None:
    """It is asked of a scalar as of an array of one."""
    assert any_element(lambda value: value == 2, [1, 2]) is True
    assert any_element(lambda value: value == 2, 1) is False
    assert (elements(1), elements([1, 2])) == ([1], [1, 2])
