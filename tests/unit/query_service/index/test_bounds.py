"""Bounds: doubles compared with any constant as the filter language compares them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.language.filter.arrays import compare
from sowline_query_service.index.bounds import INVERSE, bound, related_to

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
