"""The operators on scalar values, in SQL-92's three-valued logic.

A verdict is True, False, or None for NULL (unknown). `sowline.language.filter.arrays` extends comparisons to arrays.
"""

from collections.abc import Callable, Iterable
from math import isnan
from typing import Any

from sowline.language.filter.numbers import Number, narrow, parse_number
from sowline.model.path import Scalar, Value

Verdict = bool | None

Relation = Callable[[Any, Any], bool]
"""One of the six of module `operator`: `eq`, `lt`, …"""


def first(value: Value) -> Scalar:
    """Return the value as one scalar: the first element of an array."""
    return value[0] if isinstance(value, list) else value


def to_number(value: Scalar) -> Number | None:
    """Return the value as an operand of arithmetic: NaN for a string that is not a number, None for NULL."""
    if isinstance(value, float) or value is None:
        return value
    if isinstance(value, str):
        number = parse_number(value)
        return float("nan") if number is None else number
    return narrow(int(value))


def to_text(value: Scalar) -> str | None:
    """Return the value as a string, in JSON's notation: `true`, `17`, `0.5`."""
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(narrow(value)) if isinstance(value, int) else repr(value)


def truth(value: Value) -> Verdict:
    """Return the value as a condition: whether it is a number other than 0; None if it is not a number."""
    scalar = first(value)
    if isinstance(scalar, bool):
        return scalar
    number = to_number(scalar)
    # NaN differs from 0, but a text that is no number must not make a condition TRUE.
    return None if number is None or isnan(number) else number != 0


def related(relation: Relation, left: Scalar, right: Scalar) -> Verdict:
    """Compare two scalars: strings by code point, else as numbers; other strings are above all numbers."""
    if left is None or right is None:
        return None
    if isinstance(left, str) is isinstance(right, str):
        return relation(left, right)
    # `relation(1, 0)` is the verdict on any greater and lesser value: a text is above all numbers.
    if isinstance(left, str):
        number = parse_number(left)
        return relation(1, 0) if number is None else relation(number, right)
    number = parse_number(right) if isinstance(right, str) else None
    return relation(0, 1) if number is None else relation(left, number)


def any_true(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the OR of verdicts: True if one is True, else None if one is None, else False."""
    unknown = False
    for verdict in verdicts:
        if verdict:
            return True
        unknown = unknown or verdict is None
    return None if unknown else False


def all_true(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the AND of verdicts: False if one is False, else None if one is None, else True."""
    unknown = False
    for verdict in verdicts:
        if verdict is False:
            return False
        unknown = unknown or verdict is None
    return None if unknown else True


def inverted(verdict: Verdict) -> Verdict:
    """Return the NOT of a verdict: None for None."""
    return None if verdict is None else not verdict
