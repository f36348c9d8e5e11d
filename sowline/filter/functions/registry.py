"""What a function is: how many arguments it takes, what each is converted to, and how it computes.

One rule holds for nearly all functions, and this module implements it. An argument that is NULL, or that can't be
converted, makes the result NULL. A result is a scalar of the language: not an empty text, and not longer than the
limit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isinf, isnan
from typing import Any

from sowline.filter.arrays import elements
from sowline.filter.evaluate import first, to_number, to_text
from sowline.filter.numbers import INT64_MIN, UINT64_MAX, Number, narrow
from sowline.model.path import Scalar, Value

TEXT_CHARS_MAX = 1024 * 1024
"""A longer text is no result: the function gives NULL."""

Conversion = Callable[[Value], Any]
"""From an argument to what the function works on; `None` where there is no such value."""

Compute = Callable[..., Scalar]


def text(value: Value) -> str | None:
    """The argument as a text."""
    return to_text(first(value))


def number(value: Value) -> Number | None:
    """The argument as a number; NaN for a text that spells none."""
    return to_number(first(value))


def double(value: Value) -> float | None:
    """The argument as a double."""
    found = to_number(first(value))
    return None if found is None else float(found)


def whole(value: Value) -> int | None:
    """The argument as an integer: fractions are dropped, infinity is the outermost integer, NaN is none."""
    found = to_number(first(value))
    if found is None or isnan(found):
        return None
    if isinf(found):
        return UINT64_MAX if found > 0 else INT64_MIN
    return max(INT64_MIN, min(UINT64_MAX, int(found)))


def comparable(value: Scalar) -> Number | None:
    """The number that the scalar is or spells, if it has an order."""
    found = to_number(value)
    return None if found is None or isnan(found) else found


def scalar(value: Value) -> Scalar:
    """The argument as it is; an array as its first element."""
    return first(value)


def array(value: Value) -> list[Scalar]:
    """All elements of the argument, NULLs too; a missing array has none."""
    return [] if value is None else elements(value)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the language. `compute` is given the converted arguments, and never raises.

    The last `optional` parameters may be left out. Where `repeats`, the last parameter may be given any number
    of times. `takes_null` leaves NULL arguments to `compute`, as `None`. A function that isn't
    `deterministic` answers differently at another time; a `fact` is the member of `About` that it gives.
    """

    name: str
    parameters: tuple[Conversion, ...]
    compute: Compute
    optional: int = 0
    repeats: bool = False
    takes_null: bool = False
    deterministic: bool = True
    fact: str | None = None

    @property
    def least(self) -> int:
        """How many arguments there must be."""
        return len(self.parameters) - self.optional

    @property
    def most(self) -> int | None:
        """How many there may be; `None` is any number."""
        return None if self.repeats else len(self.parameters)

    def takes(self, count: int) -> bool:
        """Whether so many arguments are right."""
        return self.least <= count and (self.most is None or count <= self.most)

    def applied_to(self, count: int) -> Callable[..., Scalar]:
        """The function of so many values of the language."""
        conversions = [self.parameters[min(index, len(self.parameters) - 1)] for index in range(count)]
        if count == 1 and not self.takes_null:
            return _unary(conversions[0], self.compute)
        return _general(conversions, self.compute, self.takes_null)


def _unary(convert: Conversion, compute: Compute) -> Callable[..., Scalar]:
    def apply(value: Value) -> Scalar:
        converted = convert(value)
        return None if converted is None else bounded(compute(converted))

    return apply


def _general(conversions: Sequence[Conversion], compute: Compute, takes_null: bool) -> Callable[..., Scalar]:
    def apply(*values: Value) -> Scalar:
        converted = [convert(value) for convert, value in zip(conversions, values, strict=True)]
        if not takes_null and None in converted:
            return None
        return bounded(compute(*converted))

    return apply


def bounded(result: Scalar) -> Scalar:
    """The result as a value of the language: within 64 bits, within the longest text, and never an empty one."""
    if isinstance(result, str):
        return result if 0 < len(result) <= TEXT_CHARS_MAX else None
    if isinstance(result, int) and not isinstance(result, bool):
        return narrow(result)
    return result
