"""What filters make of single scalars, slow and obviously right: numbers, texts, comparisons and three-valued logic.

Every text is searched by way of RE2.
"""

import math
from fractions import Fraction
from typing import Any

import re2


def reference_number(value: Any) -> Any:
    """The value as a number; NaN for a string that spells none."""
    if not isinstance(value, str):
        return None if value is None else value if isinstance(value, float) else int(value)
    try:
        float(value)
    except ValueError:
        return math.nan
    spells_integer = value.lstrip("+-").isdigit()
    return math.nan if value.strip() != value else int(value) if spells_integer else float(value)


RELATIONS: dict[str, Any] = {
    "=": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def reference_compare(name: str, left: Any, right: Any) -> bool | None:
    """One comparison of two scalars."""
    if left is None or right is None:
        return None
    if isinstance(left, str) != isinstance(right, str):
        for text, above in ((left, (1, 0)), (right, (0, 1))):
            if isinstance(text, str) and math.isnan(reference_number(text)):
                return bool(RELATIONS[name](*above))
        left, right = reference_number(left), reference_number(right)
    return bool(RELATIONS[name](left, right))


def reference_or(verdicts: list[bool | None]) -> bool | None:
    """OR of any number of verdicts."""
    return True if True in verdicts else None if None in verdicts else False


def reference_not(verdict: bool | None) -> bool | None:
    """NOT of a verdict."""
    return None if verdict is None else not verdict


def reference_and(verdicts: list[bool | None]) -> bool | None:
    """AND of any number of verdicts."""
    return reference_not(reference_or([reference_not(verdict) for verdict in verdicts]))


def reference_calculate(operator: str, left: Any, right: Any) -> Any:
    """One arithmetic operation on two scalars."""
    left, right = reference_number(left), reference_number(right)
    if left is None or right is None:
        return None
    if math.isnan(left) or math.isnan(right):
        return math.nan
    if operator in "/%" and right == 0:
        return None
    if isinstance(left, float) or isinstance(right, float):
        return reference_float(operator, float(left), float(right))
    quotient = math.trunc(Fraction(left, right)) if right else 0
    results = {
        "+": left + right,
        "-": left - right,
        "*": left * right,
        "/": quotient,
        "%": left - right * quotient,
    }
    result = results[operator]
    return result if -(2**63) <= result < 2**64 else float(result)


def reference_float(operator: str, left: float, right: float) -> float:
    """One arithmetic operation on doubles."""
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right
    return math.nan if math.isinf(left) else math.fmod(left, right)


def reference_text(value: Any) -> str:
    """The text of what isn't NULL."""
    return value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else repr(value)


def reference_affix(end: str, value: Any, affix: Any) -> bool | None:
    """BEGINS WITH or ENDS WITH, of two scalars."""
    if value is None or affix is None:
        return None
    text, wanted = reference_text(value), reference_text(affix)
    return text[: len(wanted)] == wanted if end == "BEGINS" else text[::-1][: len(wanted)] == wanted[::-1]


def reference_like(value: Any, pattern: str, raw: bool) -> bool | None:
    """LIKE on one scalar: always by way of RE2."""
    if value is None:
        return None
    text = reference_text(value)
    return pattern in text if raw else re2.search(pattern, text) is not None
