"""Bounds: doubles compared with any constant as the filter language compares them."""

from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.language.filter.arrays import compare
from sowline_query_service.index.bounds import INVERSE, NONE_HOLDS, Bound, bound, related_to

NAMES = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
CONSTANTS = st.one_of(
    st.integers(-(2**64), 2**64),
    st.integers(2**53 - 4, 2**53 + 4),
    st.floats(),
    st.booleans(),
    st.integers(-(2**64), 2**64).map(str),
    st.sampled_from(["x", "1e400", "-1e400", "05"]),
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@given(NAMES, CONSTANTS, st.lists(NUMBERS, max_size=4))
@example("<", -(2**53) - 1, [])
@example(">=", 2**53 + 3, [])
def test_the_relation_is_that_of_the_language(name: str, constant: Any, numbers: list[float]) -> None:
    """TRUE where the comparison is, and the inverse where it is FALSE, next to the constant too."""
    near = [] if isinstance(constant, str) or not abs(constant) < 1e300 else [float(constant)]
    numbers = [*numbers, *near, *(float(np.nextafter(n, way)) for n in near for way in (-1e301, 1e301))]
    relation = bound(name, constant)
    assert relation is not None
    inverse = (INVERSE[relation[0]], relation[1])
    expected = [compare(name, number, constant) for number in numbers]
    array = np.array(numbers, np.float64)
    assert related_to(array, relation).tolist() == expected
    assert related_to(array, inverse).tolist() == [not verdict for verdict in expected]


@pytest.mark.parametrize("name", sorted(INVERSE))
def test_a_row_without_a_number_is_in_no_relation(name: str) -> None:
    """NaN stands there; `!=` isn't true of it either."""
    assert not related_to(np.array([np.nan]), (name, 5.0)).any()


def test_null_is_no_bound() -> None:
    """Nothing is known of a comparison with it."""
    assert bound("=", None) is None


ALL_HOLD = ("!=", inf)


@pytest.mark.parametrize(
    ("name", "constant", "relation"),
    [
        ("=", "05", ("=", 5.0)),
        ("<=", True, ("<=", 1.0)),
        ("<", "x", ("<", inf)),
        ("=", nan, NONE_HOLDS),
        (">", nan, NONE_HOLDS),
        ("!=", nan, ALL_HOLD),
        ("=", 2**53 + 1, NONE_HOLDS),
        ("!=", 2**53 + 1, ALL_HOLD),
        ("<", 2**53 + 1, ("<=", 2.0**53)),
        ("<=", 2**53 + 1, ("<=", 2.0**53)),
        (">", 2**53 + 1, (">", 2.0**53)),
        (">=", 2**53 + 1, (">", 2.0**53)),
        ("<", 2**53 + 3, ("<=", 2.0**53 + 2)),
        (">=", 2**53 + 3, (">", 2.0**53 + 2)),
    ],
)
def test_each_kind_of_constant_has_its_bound(name: str, constant: Any, relation: Bound) -> None:
    """An integer between two doubles is compared by the lower one, whichever of them its own double is."""
    assert bound(name, constant) == relation


@pytest.mark.parametrize(
    ("relation", "expected"),
    [(NONE_HOLDS, [False, False, False]), (ALL_HOLD, [True, True, False])],
)
def test_a_bound_may_hold_for_all_numbers_or_none(relation: Bound, expected: list[bool]) -> None:
    """A row without a number stays outside."""
    assert related_to(np.array([-1e308, 0.0, nan]), relation).tolist() == expected
