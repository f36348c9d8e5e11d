"""What the operators do with values, in SQL-92's three-valued logic.

A verdict is `True`, `False`, or `None` for NULL: not known. Arrays are ANY: see `arrays`.
"""

from collections.abc import Callable, Iterable
from math import isnan
from typing import Any

from sowline.filter.numbers import Number, narrow, parse_number
from sowline.model.path import Scalar, Value

Verdict = bool | None

Relation = Callable[[Any, Any], bool]
"""One of the six of module `operator`: `eq`, `lt`, …"""


def first(value: Value) -> Scalar:
    """The value where one scalar is due: of an array, its first element."""
    return value[0] if isinstance(value, list) else value


def to_number(value: Scalar) -> Number | None:
    """The value as an operand of arithmetic: a string that spells no number is NaN, NULL stays NULL."""
    if isinstance(value, float) or value is None:
        return value
    if isinstance(value, str):
        number = parse_number(value)
        return float("nan") if number is None else number
    return narrow(int(value))


def to_text(value: Scalar) -> str | None:
    """The value as a string, as JSON writes it: `true`, `17`, `0.5`."""
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(narrow(value)) if isinstance(value, int) else repr(value)


def truth(value: Value) -> Verdict:
    """The value as a condition: is its number other than 0? What is no number is neither true nor false."""
    scalar = first(value)
    if isinstance(scalar, bool):
        return scalar
    number = to_number(scalar)
    return None if number is None or isnan(number) else number != 0


def related(relation: Relation, left: Scalar, right: Scalar) -> Verdict:
    """Compare scalars: strings by code point, else as numbers; what spells none is above all numbers."""
    if left is None or right is None:
        return None
    if isinstance(left, str) is isinstance(right, str):
        return relation(left, right)
    if isinstance(left, str):
        number = parse_number(left)
        return relation(1, 0) if number is None else relation(number, right)
    number = parse_number(right) if isinstance(right, str) else None
    return relation(0, 1) if number is None else relation(left, number)


def any_true(verdicts: Iterable[Verdict]) -> Verdict:
    """OR: true if any is; else NULL if any is; else false."""
    unknown = False
    for verdict in verdicts:
        if verdict:
            return True
        unknown = unknown or verdict is None
    return None if unknown else False


def all_true(verdicts: Iterable[Verdict]) -> Verdict:
    """AND: false if any is; else NULL if any is; else true."""
    unknown = False
    for verdict in verdicts:
        if verdict is False:
            return False
        unknown = unknown or verdict is None
    return None if unknown else True


def inverted(verdict: Verdict) -> Verdict:
    """NOT: of NULL, NULL."""
    return None if verdict is None else not verdict
