"""The functions of numbers: results, domains and poles."""

import math
from math import inf, nan, pi
from typing import Any

import pytest

from sowline.language.filter.functions.numbers import (
    DIGITS_MAX,
    FUNCTIONS,
    absolute,
    cotangent,
    extreme,
    geo_distance,
    hyperbolic_sine,
    integral,
    logarithm,
    power,
    rounded,
    sign,
    smooth,
    width_bucket,
)


def test_signs() -> None:
    """ABS keeps the kind of a number; the sign of NaN is NaN."""
    assert repr([absolute(-3), absolute(-0.5)]) == "[3, 0.5]"
    assert repr([sign(-2.5), sign(0), sign(7), sign(nan)]) == "[-1, 0, 1, nan]"


def test_the_extreme_of_values_is_that_of_the_numbers() -> None:
    """NULLs and texts that are not numbers are passed over; without numbers it is NaN."""
    assert extreme(max, 1, "3", None, "x", nan) == 3
    assert extreme(min, 1, "3", None, "x", nan) == 1
    assert math.isnan(extreme(max, "x", None))


def test_the_next_integer() -> None:
    """A value that is not finite stays as it is."""
    assert (integral(math.ceil, 1.2), integral(math.floor, -1.2)) == (2, -2)
    assert (integral(math.ceil, inf), repr(integral(math.floor, nan))) == (inf, "nan")


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [
        (2.675, 2, 2.68),
        (-2.5, 0, -3),
        (2.5, 0, 3),
        (1250, -2, 1300),
        (7, 3, 7),
        (1e300, -DIGITS_MAX - 1, 0),
        (0.1, DIGITS_MAX + 1, 0.1),
        (inf, 0, inf),
    ],
)
def test_rounding_is_that_of_the_notation(value: float, digits: int, expected: float) -> None:
    """Halves go away from zero, and integers stay integers."""
    assert repr(rounded(value, digits)) == repr(expected)


def test_a_smooth_function_outside_of_its_domain() -> None:
    """NaN outside of the domain, infinity where a double is too small."""
    assert smooth(math.sqrt, 4.0) == 2.0
    assert math.isnan(smooth(math.sqrt, -1.0))
    assert smooth(math.exp, 1000.0) == inf


def test_poles_are_null() -> None:
    """A logarithm and a cotangent of 0, and 0 to a negative power, have no value."""
    assert (logarithm(math.log, 0.0), cotangent(0.0), power(0.0, -1.0)) == (None, None, None)
    assert (logarithm(math.log2, 8.0), power(2.0, 10.0)) == (3.0, 1024.0)
    assert cotangent(pi / 4) == pytest.approx(1)
    assert math.isnan(logarithm(math.log, -1.0) or 0)


def test_results_beyond_doubles_keep_their_sign() -> None:
    """A power is negative for a negative base and an odd exponent."""
    assert (hyperbolic_sine(-1000.0), hyperbolic_sine(1000.0)) == (-inf, inf)
    assert (power(-10.0, 401.0), power(-10.0, 402.0)) == (-inf, inf)
    assert math.isnan(power(-1.0, 0.5) or 0)


@pytest.mark.parametrize(
    ("arguments", "bucket"),
    [
        ((5.35, 0, 10, 5), 3),
        ((0, 0, 10, 5), 1),
        ((-1, 0, 10, 5), 0),
        ((10, 0, 10, 5), 6),
        ((9, 10, 0, 5), 1),
        ((0.3, 0, 1, 10), 3),
        ((1, 5, 5, 5), None),
        ((nan, 0, 1, 1), None),
        ((1, 0, inf, 1), None),
        ((1, 0, 1, 0), None),
    ],
)
def test_the_bucket_of_a_value(arguments: Any, bucket: int | None) -> None:
    """Each part contains its lower border; a range from high to low counts from the top."""
    assert width_bucket(*arguments) == bucket


def test_the_distance_of_two_points() -> None:
    """It is in meters; half the way around the Earth is the longest."""
    assert geo_distance(48.0, 11.0, 48.0, 11.0) == 0
    assert geo_distance(0.0, 0.0, 0.0, 180.0) == pytest.approx(pi * 6_371_008.8)
    assert geo_distance(52.52, 13.405, 48.8566, 2.3522) == pytest.approx(877_464, rel=1e-3)
    assert math.isnan(geo_distance(nan, 0.0, 0.0, 0.0))


def test_functions_convert_texts_that_are_numbers() -> None:
    """A text that is none gives NaN."""
    functions = {function.name: function.applied_to(1) for function in FUNCTIONS}
    assert functions["SQRT"]("16") == 4.0
    assert repr(functions["LN"]("x")) == "nan"
