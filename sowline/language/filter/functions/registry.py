"""Defines functions: the number of arguments, the conversion of each argument, and the computation.

The rule for nearly all functions is implemented here. If an argument is NULL or can't be converted, the result is
NULL. A result is a scalar of the language: an integer within 64 bits, or a text that is neither empty nor longer than
the limit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isinf, isnan
from typing import Any

from sowline.language.filter.arrays import elements
from sowline.language.filter.evaluate import first, to_number, to_text
from sowline.language.filter.numbers import INT64_MIN, UINT64_MAX, Number, narrow
from sowline.model.path import Scalar, Value

TEXT_CHARS_MAX = 1024 * 1024
"""The maximum length of a result. Instead of a longer text, the function returns NULL."""

Conversion = Callable[[Value], Any]
"""Converts an argument to the type that the function needs; None if that is impossible."""

Compute = Callable[..., Scalar]


def text(value: Value) -> str | None:
    """Return the argument as a text."""
    return to_text(first(value))


def number(value: Value) -> Number | None:
    """Return the argument as a number; NaN for a text that is not a number."""
    return to_number(first(value))


def double(value: Value) -> float | None:
    """Return the argument as a double."""
    found = to_number(first(value))
    return None if found is None else float(found)


def whole(value: Value) -> int | None:
    """Return the argument as an integer without its fraction, limited to 64 bits; None for NaN."""
    found = to_number(first(value))
    if found is None or isnan(found):
        return None
    if isinf(found):
        return UINT64_MAX if found > 0 else INT64_MIN
    return max(INT64_MIN, min(UINT64_MAX, int(found)))


def comparable(value: Scalar) -> Number | None:
    """Return the scalar as a number; None if it is NULL or NaN, which have no order."""
    found = to_number(value)
    return None if found is None or isnan(found) else found


def scalar(value: Value) -> Scalar:
    """Return the argument unchanged, but only the first element of an array."""
    return first(value)


def array(value: Value) -> list[Scalar]:
    """Return all elements of the argument, NULLs included; a missing array has none."""
    return [] if value is None else elements(value)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the language. `compute` gets the converted arguments and never raises.

    - `optional`: the number of last parameters that may be omitted.
    - `repeats`: whether the last parameter may be given any number of times.
    - `takes_null`: whether `compute` gets NULL arguments, as None; else the result is NULL.
    - `deterministic`: False if the result depends on more than the arguments, the record and its metadata.
    - `fact`: the member of `Metadata` that a message function returns.
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
        """The minimum number of arguments."""
        return len(self.parameters) - self.optional

    @property
    def most(self) -> int | None:
        """The maximum number of arguments; None for any number."""
        return None if self.repeats else len(self.parameters)

    def takes(self, count: int) -> bool:
        """Return whether the function accepts `count` arguments."""
        return self.least <= count and (self.most is None or count <= self.most)

    def applied_to(self, count: int) -> Callable[..., Scalar]:
        """Return the function for `count` arguments, which it converts."""
        conversions = [self.parameters[min(index, len(self.parameters) - 1)] for index in range(count)]
        # Most calls have one argument. Without the lists of several, they take less than half of the time.
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
    """Return a result as a value of the language: an integer within 64 bits (else a double), or a valid text."""
    if isinstance(result, str):
        return result if 0 < len(result) <= TEXT_CHARS_MAX else None
    if isinstance(result, int) and not isinstance(result, bool):
        return narrow(result)
    return result
