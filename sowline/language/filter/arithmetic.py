"""Arithmetic on values. If an operand is NULL, the result is NULL; else, if an operand is NaN, it is NaN.

Integers are exact within 64 bits; larger results become doubles. A division by zero is NULL.
"""

import operator
from collections.abc import Callable
from math import fmod, isinf, isnan

from sowline.language.filter.evaluate import first, to_number
from sowline.language.filter.numbers import Number, narrow
from sowline.model.path import Value

Operation = Callable[[Value, Value], Number | None]


def _operation(compute: Callable[[Number, Number], Number | None]) -> Operation:
    """Return an operation on any two values, made from one on two numbers."""

    def operate(left: Value, right: Value) -> Number | None:
        one, other = to_number(first(left)), to_number(first(right))
        if one is None or other is None:
            return None
        result = compute(one, other)
        return narrow(result) if isinstance(result, int) else result

    return operate


def _divide(left: Number, right: Number) -> Number | None:
    if isnan(left) or isnan(right):
        return float("nan")
    if right == 0:
        return None
    if isinstance(left, float) or isinstance(right, float):
        return left / right
    # Toward zero, as in SQL; Python's `//` rounds down.
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) is (right < 0) else -quotient


def _remainder(left: Number, right: Number) -> Number | None:
    if isnan(left) or isnan(right):
        return float("nan")
    if right == 0:
        return None
    if isinstance(left, float) or isinstance(right, float):
        return float("nan") if isinf(left) else fmod(left, right)
    # With the sign of the dividend, as in SQL; Python's `%` takes that of the divisor.
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


OPERATIONS: dict[str, Operation] = {
    "+": _operation(operator.add),
    "-": _operation(operator.sub),
    "*": _operation(operator.mul),
    "/": _operation(_divide),
    "%": _operation(_remainder),
}


def signed(sign: str, value: Value) -> Number | None:
    """Return `+value` or `-value`."""
    number = to_number(first(value))
    if number is None or sign == "+":
        return number
    return narrow(-number) if isinstance(number, int) else -number
