"""Sums that are exact until the last step, so that the result does not depend on the order of changes."""

from collections.abc import Callable, Sequence
from math import inf, isfinite, isnan, isqrt, nan
from operator import attrgetter
from typing import Any, Final

from sowline.language.filter.evaluate import to_number
from sowline.language.filter.numbers import Number, narrow
from sowline.model.path import Scalar

SCALE_BITS: Final = 1074
"""Every finite double is an integer multiple of 2 to the power of minus this."""

ROOT_BITS: Final = 60
"""Approximate number of bits to compute of a square root: the 53 of a double, and some more for rounding."""


class Count:
    """The number of values, without NULLs."""

    __slots__ = ("count",)
    nbytes = 0

    def __init__(self) -> None:
        self.count = 0

    def add(self, value: Scalar) -> None:
        """Add a value."""
        if value is not None:
            self.count += 1

    def remove(self, value: Scalar) -> None:
        """Remove a value that was added."""
        if value is not None:
            self.count -= 1

    def exported(self) -> int:
        """Return the number."""
        return self.count

    def merge(self, exported: int) -> None:
        """Add a number."""
        self.count += exported


class _Totals:
    """Counts and sums in attributes; those of two states add up."""

    __slots__: tuple[str, ...] = ()
    nbytes = 0

    _all: Callable[[Any], tuple[int, ...]]

    def __init_subclass__(cls) -> None:
        cls._all = attrgetter(*cls.__slots__)

    def exported(self) -> tuple[int, ...]:
        """Return all counts and sums, in the order of the names of their attributes."""
        return type(self)._all(self)

    def merge(self, exported: Sequence[int]) -> None:
        """Add the counts and sums of another state."""
        for name, more in zip(self.__slots__, exported, strict=True):
            setattr(self, name, getattr(self, name) + more)


class Sums(_Totals):
    """The exact sum: of integers as an integer, of doubles as an integer multiple of 2⁻¹⁰⁷⁴."""

    __slots__ = (
        "_count",
        "_doubles",
        "_integers",
        "_nans",
        "_negative_infinities",
        "_positive_infinities",
        "_scaled",
    )

    def __init__(self) -> None:
        self._count = 0
        self._doubles = 0
        """The number of values that make the sum a double: all but integers and booleans."""
        # Apart: scaled like doubles, integers would have a thousand more bits.
        self._integers = self._scaled = 0
        self._nans = self._positive_infinities = self._negative_infinities = 0

    def add(self, value: Scalar) -> None:
        """Add a value."""
        if value is not None:
            self._take(value, 1)

    def remove(self, value: Scalar) -> None:
        """Remove a value that was added."""
        if value is not None:
            self._take(value, -1)

    def _take(self, value: Scalar, times: int) -> None:
        self._count += times
        number = to_number(value)
        assert number is not None
        if isinstance(value, float | str):
            self._doubles += times
        if isinstance(number, int):
            self._integers += number * times
        elif isfinite(number):
            significand, shift = _binary(number)
            self._scaled += (significand << shift) * times
        elif isnan(number):
            # Counted, because a sum without them is a number again (test_no_number_makes_nan_while_it_is_there).
            self._nans += times
        elif number > 0:
            self._positive_infinities += times
        else:
            self._negative_infinities += times

    def sum(self) -> Number | None:
        """Return the sum, NULL without values.

        It is an integer if all values are integers or booleans and it fits 64 bits, otherwise the nearest double.
        """
        if not self._count:
            return None
        return self._over(1) if self._doubles else narrow(self._integers)

    def average(self) -> float | None:
        """Return the double nearest to the mean; NULL without values."""
        return self._over(self._count) if self._count else None

    def _over(self, divisor: int) -> float:
        if self._nans or (self._positive_infinities and self._negative_infinities):
            return nan
        if self._positive_infinities or self._negative_infinities:
            return inf if self._positive_infinities else -inf
        if not self._scaled:
            return _ratio(self._integers, divisor)
        # One division of exact integers: the sum of doubles would be rounded at each step
        # (test_sum_and_average_are_rounded_once).
        return _ratio((self._integers << SCALE_BITS) + self._scaled, divisor << SCALE_BITS)


class Squares(_Totals):
    """The exact sums of the values and of their squares, for the standard deviations."""

    __slots__ = ("_count", "_not_finite", "_squares", "_values")

    def __init__(self) -> None:
        self._count = self._not_finite = 0
        self._values = self._squares = 0

    def add(self, value: Scalar) -> None:
        """Add a value."""
        if value is not None:
            self._take(value, 1)

    def remove(self, value: Scalar) -> None:
        """Remove a value that was added."""
        if value is not None:
            self._take(value, -1)

    def _take(self, value: Scalar, times: int) -> None:
        number = to_number(value)
        assert number is not None
        self._count += times
        if not isfinite(number):
            self._not_finite += times
            return
        significand, shift = _binary(number)
        self._values += (significand << shift) * times
        self._squares += (significand * significand << 2 * shift) * times

    def of_population(self) -> float | None:
        """Return STDDEV_POP; NULL without values."""
        return self._deviation(self._count) if self._count else None

    def of_sample(self) -> float | None:
        """Return STDDEV_SAMP; NULL with fewer than two values."""
        return self._deviation(self._count - 1) if self._count > 1 else None

    def _deviation(self, divisor: int) -> float:
        if self._not_finite:
            return nan
        # Exact integers: in doubles, the difference of two nearly equal numbers would lose its digits
        # (test_deviations_are_rounded_once).
        spread = self._count * self._squares - self._values * self._values
        return _root_of_ratio(spread, self._count * divisor << 2 * SCALE_BITS)


def _binary(number: Number) -> tuple[int, int]:
    """Return a finite number as an integer, and the bits to shift it left to get units of 2⁻¹⁰⁷⁴."""
    numerator, denominator = number.as_integer_ratio()
    return numerator, SCALE_BITS + 1 - denominator.bit_length()


def _ratio(numerator: int, denominator: int) -> float:
    """Return the nearest double, or infinity."""
    try:
        return numerator / denominator
    except OverflowError:
        return inf if numerator > 0 else -inf


def _root_of_ratio(numerator: int, denominator: int) -> float:
    """Return the double nearest to the square root.

    The integer root has more bits than a double. Its last bit is set if there is a remainder, so that the final
    rounding is that of the true root.
    """
    bits = numerator.bit_length() - denominator.bit_length()
    shift = max(0, ROOT_BITS - bits // 2)
    quotient, rest = divmod(numerator << 2 * shift, denominator)
    root = isqrt(quotient)
    inexact = rest > 0 or root * root != quotient
    return _ratio(root | inexact, 1 << shift)
