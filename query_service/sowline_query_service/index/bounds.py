"""Compares a column's numbers with any constant, by a double that divides them the same way."""

import operator
from collections.abc import Callable
from math import inf, isnan, nextafter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sowline.language.filter.numbers import Number, parse_number
from sowline.model.path import Scalar

INVERSE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}

Bound = tuple[str, float]
"""An operator and a double. `= inf` holds for no finite number, and `!= inf` for all of them."""

_COMPARISONS: dict[str, Callable[[Any, float], NDArray[np.bool_]]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

NONE_HOLDS: Bound = ("=", inf)
_ALL_HOLD: Bound = ("!=", inf)
_BELOW = {"<": "<=", ">=": ">"}


def bound(name: str, constant: Scalar) -> Bound | None:
    """Return the comparison of finite doubles that equals `number name constant`; None if that is NULL.

    A string that doesn't spell a number is above all numbers. An integer that no double holds lies between two:
    the lower one stands for it.
    """
    if constant is None:
        return None
    number = _number(constant)
    # Not `(name, nan)`: that holds for no number, and neither does its inverse
    # (test_each_kind_of_constant_has_its_bound).
    if isnan(number):
        return _ALL_HOLD if name == "!=" else NONE_HOLDS
    double = float(number)
    if double == number:
        return name, double
    if name in ("=", "!="):
        return _ALL_HOLD if name == "!=" else NONE_HOLDS
    # `float` rounds to either side of an integer that no double holds: of 2^53 + 3 it makes 2^53 + 4, which is not
    # the lower one (test_each_kind_of_constant_has_its_bound).
    lower = double if double < number else nextafter(double, -inf)
    return _BELOW.get(name, name), lower


def _number(constant: bool | int | float | str) -> Number:
    if not isinstance(constant, str):
        return constant
    number = parse_number(constant)
    return inf if number is None else number


def related_to(numbers: NDArray[np.float64], relation: Bound) -> NDArray[np.bool_]:
    """Return which numbers are in the relation; NaN stands for no number, and never is."""
    name, double = relation
    if name == "!=":
        # Not `numbers != double`, which would hold for NaN, too: a row without a number is in no relation
        # (test_a_row_without_a_number_is_in_no_relation).
        return (numbers < double) | (numbers > double)
    return _COMPARISONS[name](numbers, double)
