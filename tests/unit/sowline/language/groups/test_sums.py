"""Exact sums: counts, sums, averages and deviations while values come and go."""

from collections.abc import Sequence
from math import inf, nan, sqrt
from typing import Any

import pytest

from sowline.language.groups.sums import Count, Squares, Sums
from sowline.model.path import Scalar


def sums(values: Sequence[Any]) -> Sums:
    """Return the sums of values."""
    made = Sums()
    for value in values:
        made.add(value)
    return made


def squares(values: Sequence[Any]) -> Squares:
    """Return the squares of values."""
    made = Squares()
    for value in values:
        made.add(value)
    return made


def test_values_are_counted_without_nulls() -> None:
    """The counts of two states add up."""
    count = Count()
    for value in (1, None, "x", nan):
        count.add(value)
    count.remove("x")
    count.remove(None)
    assert (count.count, count.exported()) == (2, 2)
    count.merge(5)
    assert count.count == 7


@pytest.mark.parametrize(
    ("values", "total", "average"),
    [
        ([], None, None),
        ([None], None, None),
        ([1, 2, True], 4, 4 / 3),
        ([1, 2.0], 3.0, 1.5),
        (["1", 2], 3.0, 1.5),
        ([0.1] * 10, 1.0, 0.1),
        ([1e308, 1e308, -1e308], 1e308, 1e308 / 3),
        ([1e308, 1e308], inf, 1e308),
        ([-1e308, -1e308], -inf, -1e308),
        ([2**64 - 1, 1], 2.0**64, 2.0**63),
        ([inf, 1], inf, inf),
        ([-inf, 1], -inf, -inf),
        ([inf, -inf], nan, nan),
        (["x", 1], nan, nan),
    ],
)
def test_sums_are_rounded_once(values: list[Any], total: object, average: object) -> None:
    """A sum of integers is an integer as long as 64 bits hold it."""
    made = sums(values)
    assert repr((made.sum(), made.average())) == repr((total, average))


def test_what_came_and_went_leaves_no_trace() -> None:
    """Not even an infinity, or a text that is no number."""
    made = sums([1, 2])
    passing: list[Scalar] = [0.1, 1e308, inf, -inf, "x", None, True]
    for value in passing:
        made.add(value)
    for value in reversed(passing):
        made.remove(value)
    assert made.exported() == sums([1, 2]).exported()
    assert repr(made.sum()) == "3"


@pytest.mark.parametrize("kind", [sums, squares])
def test_two_states_are_one_of_all_values(kind: Any) -> None:
    """The order of the values makes no difference."""
    values = [1, 0.1, "2.5", 1e300, None, inf, -7]
    merged = kind(values[:3])
    merged.merge(kind(values[3:]).exported())
    assert merged.exported() == kind(values[::-1]).exported()


@pytest.mark.parametrize(
    ("values", "population", "sample"),
    [
        ([], None, None),
        ([None], None, None),
        ([3], 0.0, None),
        ([1, 3], 1.0, sqrt(2)),
        ([2, "4", 4, 4, 5, 5, 7, 9], 2.0, sqrt(32 / 7)),
        ([1e16, 1e16 + 2], 1.0, sqrt(2)),
        ([1, inf], nan, nan),
        ([1, "x"], nan, nan),
        ([1e308, -1e308], 1e308, 1.4142135623730951e308),
    ],
)
def test_deviations_are_exact(values: list[Any], population: object, sample: object) -> None:
    """Large numbers that are nearly equal lose nothing."""
    made = squares(values)
    assert repr((made.of_population(), made.of_sample())) == repr((population, sample))


def test_a_deviation_forgets_what_went() -> None:
    """A value that is not finite makes NaN only while it is there."""
    made = squares([1, 3])
    for value in (inf, None, 1e300):
        made.add(value)
    for value in (1e300, inf, None):
        made.remove(value)
    assert made.of_population() == 1.0
