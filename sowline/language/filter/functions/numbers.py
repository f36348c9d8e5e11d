"""Functions of numbers. The result is NaN for NaN and outside of a function's domain, and NULL at a pole.

A result too large for a double is infinite. Functions that return integers for integers are exact.
"""

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import partial

from sowline.language.filter.functions.registry import Function, comparable, double, number, scalar, whole
from sowline.language.filter.numbers import Number
from sowline.model.path import Scalar

DIGITS_MAX = 400
"""In decimal notation, no double has a digit further than this from its point."""

EARTH_RADIUS_METRES = 6_371_008.8

_WIDE = Context(prec=3 * DIGITS_MAX)
_NAN = math.nan


def absolute(value: Number) -> Number:
    """Return the absolute value."""
    return abs(value)


def sign(value: Number) -> Number:
    """Return -1, 0 or 1."""
    return _NAN if math.isnan(value) else (value > 0) - (value < 0)


def extreme(pick: Callable[[list[Number]], Number], *values: Scalar) -> Number:
    """Return the greatest (or least) of the values that are numbers; NaN if none is."""
    numbers = [found for found in map(comparable, values) if found is not None]
    return pick(numbers) if numbers else _NAN


def integral(towards: Callable[[Number], int], value: Number) -> Number:
    """Return the next integer, up or down."""
    # Infinity and NaN have no integer: `math.ceil` raises, and a filter never does.
    return towards(value) if math.isfinite(value) else value


def rounded(value: Number, digits: int = 0) -> Number:
    """Round the decimal notation of a value to `digits` places, halves away from zero."""
    if not math.isfinite(value) or digits > DIGITS_MAX:
        return value
    if digits < -DIGITS_MAX:
        return 0
    # By the notation that users see: the double of 2.675 is a little less, and would round to 2.67.
    written = Decimal(value) if isinstance(value, int) else Decimal(repr(value))
    result = written.quantize(Decimal((0, (1,), -digits)), ROUND_HALF_UP, _WIDE)
    return int(result) if digits <= 0 or isinstance(value, int) else float(result)


def smooth(compute: Callable[[float], float], value: float) -> float:
    """Return the result of a function of `math`: NaN outside of its domain, infinity if too large for a double."""
    try:
        return compute(value)
    except ValueError:
        return _NAN
    except OverflowError:
        return math.inf


def logarithm(compute: Callable[[float], float], value: float) -> float | None:
    """Return a logarithm; its pole is 0."""
    return None if value == 0 else smooth(compute, value)


def hyperbolic_sine(value: float) -> float:
    """Return SINH; an infinite result has the sign of the operand."""
    return math.copysign(smooth(math.sinh, abs(value)), value)


def cotangent(value: float) -> float | None:
    """Return COT; its pole is 0."""
    if value == 0:
        return None
    return smooth(lambda angle: 1 / math.tan(angle), value)


def power(base: float, exponent: float) -> float | None:
    """Return `base` to the power of `exponent`; 0 to a negative power is a pole."""
    if base == 0 and exponent < 0:
        return None
    try:
        return math.pow(base, exponent)
    except ValueError:
        return _NAN
    except OverflowError:
        # An OverflowError does not tell the sign: a negative base keeps it in an odd power
        # (test_results_beyond_doubles_keep_their_sign).
        return -math.inf if base < 0 and math.fmod(exponent, 2) != 0 else math.inf


def width_bucket(value: Number, low: Number, high: Number, count: int) -> int | None:
    """Return the number of the bucket for a value, from 1, among `count` equal parts of a range.

    Return 0 below the range and `count` + 1 above it. If `low` is greater than `high`, the buckets are numbered from
    the top.
    """
    if math.isnan(value) or not (math.isfinite(low) and math.isfinite(high)) or low == high or count < 1:
        return None
    if low > high:
        value, low, high = -value, -low, -high
    if value < low:
        return 0
    if value >= high:
        return count + 1
    # In exact fractions: with doubles, a value on a border could fall into the wrong bucket.
    start = Fraction(low)
    return math.floor(count * (Fraction(value) - start) / (Fraction(high) - start)) + 1


def geo_distance(latitude: float, longitude: float, other_latitude: float, other_longitude: float) -> float:
    """Return the great-circle distance in meters between two points in degrees, on a sphere (haversine)."""
    angles = [latitude, longitude, other_latitude, other_longitude]
    if not all(map(math.isfinite, angles)):
        return _NAN
    one, west, other, east = map(math.radians, angles)
    chord = math.sin((other - one) / 2) ** 2
    chord += math.cos(one) * math.cos(other) * math.sin((east - west) / 2) ** 2
    # Rounding may leave the sum a little below 0 or above 1, where there is no root or no arcsine.
    return 2 * EARTH_RADIUS_METRES * math.asin(math.sqrt(min(1.0, max(0.0, chord))))


_SMOOTH: dict[str, Callable[[float], float]] = {
    "EXP": math.exp,
    "SQRT": math.sqrt,
    "RADIANS": math.radians,
    "DEGREES": math.degrees,
    "ACOS": math.acos,
    "ASIN": math.asin,
    "ATAN": math.atan,
    "COS": math.cos,
    "COSH": math.cosh,
    "SIN": math.sin,
    "TAN": math.tan,
    "TANH": math.tanh,
}
_LOGARITHMS: dict[str, Callable[[float], float]] = {"LN": math.log, "LOG2": math.log2, "LOG10": math.log10}

FUNCTIONS = (
    Function("ABS", (number,), absolute),
    Function("SIGN", (number,), sign),
    Function("GREATEST", (scalar,), partial(extreme, max), repeats=True, takes_null=True),
    Function("LEAST", (scalar,), partial(extreme, min), repeats=True, takes_null=True),
    Function("CEILING", (number,), partial(integral, math.ceil)),
    Function("FLOOR", (number,), partial(integral, math.floor)),
    Function("ROUND", (number, whole), rounded, optional=1),
    *(Function(name, (double,), partial(smooth, compute)) for name, compute in _SMOOTH.items()),
    *(Function(name, (double,), partial(logarithm, compute)) for name, compute in _LOGARITHMS.items()),
    Function("SINH", (double,), hyperbolic_sine),
    Function("COT", (double,), cotangent),
    Function("POWER", (double, double), power),
    Function("ATAN2", (double, double), math.atan2),
    Function("WIDTH_BUCKET", (number, number, number, whole), width_bucket),
    Function("GEO_DISTANCE", (double, double, double, double), geo_distance),
)
