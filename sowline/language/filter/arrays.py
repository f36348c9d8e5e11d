"""Operators on arrays: true if they are true for any element, or any pair of elements.

Pairs are never tried one by one: two arrays of 100,000 elements would take minutes. Each relation compares only the
few elements that can decide it.
"""

import operator
from collections.abc import Callable, Iterable
from math import isnan

from sowline.language.filter.evaluate import Relation, Verdict, all_true, any_true, related
from sowline.language.filter.numbers import Number, parse_number
from sowline.model.path import Scalar, Value

RELATIONS: dict[str, Relation] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def elements(value: Value) -> list[Scalar]:
    """Return the elements of an array; a scalar is an array of one element."""
    return value if isinstance(value, list) else [value]


def compare(name: str, left: Value, right: Value) -> Verdict:
    """Return the verdict on `left <name> right`; either operand may be an array."""
    relation = RELATIONS[name]
    if not isinstance(left, list) and not isinstance(right, list):
        return related(relation, left, right)
    lefts, rights = elements(left), elements(right)
    if len(lefts) > 1 and len(rights) > 1:
        if name == "=":
            return _any_equal(lefts, rights)
        lefts, rights = _deciding(name, lefts, rights)
    return any_true(related(relation, one, other) for one in lefts for other in rights)


def between(operand: Value, low: Value, high: Value) -> Verdict:
    """Return whether any element of the operand lies between any elements of `low` and `high`."""
    lows, highs = _extremes(elements(low), min), _extremes(elements(high), max)
    return any_true(
        all_true((compare(">=", one, lows), compare("<=", one, highs))) for one in elements(operand)
    )


def any_element(test: Callable[[Scalar], Verdict], value: Value) -> Verdict:
    """Return whether a test of scalars is true for any element of a value."""
    return any_true(map(test, value)) if isinstance(value, list) else test(value)


def _deciding(name: str, lefts: list[Scalar], rights: list[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
    """Return shorter arrays that give the same result: some pair satisfies the relation if one did before."""
    if name == "!=":
        # Distinct elements are equal only if one is a string and one a number ('01' and 1). Two distinct strings
        # always differ, so the search finds a pair that differs among the first few
        # (test_large_arrays_are_not_compared_pair_by_pair).
        return _distinct(lefts), _distinct(rights)
    smaller, larger = (min, max) if name in ("<", "<=") else (max, min)
    return _extremes(lefts, smaller), _extremes(rights, larger)


def _distinct(values: Iterable[Scalar]) -> list[Scalar]:
    return [value for _, value in dict.fromkeys((value.__class__, value) for value in values)]


def _any_equal(lefts: list[Scalar], rights: list[Scalar]) -> Verdict:
    left_texts, left_numbers, left_spelled = _sorted_out(lefts)
    right_texts, right_numbers, right_spelled = _sorted_out(rights)
    common = (
        left_texts & right_texts
        or left_numbers & right_numbers
        or left_spelled & right_numbers
        or left_numbers & right_spelled
    )
    return True if common else None if None in lefts or None in rights else False


def _sorted_out(values: list[Scalar]) -> tuple[set[str], set[Number], set[Number]]:
    """Return the strings, the numbers except NaN (which equals nothing), and the numbers written as strings."""
    texts = {value for value in values if isinstance(value, str)}
    numbers = {value for value in values if isinstance(value, int | float) and not isnan(value)}
    spelled = {number for number in map(parse_number, texts) if number is not None}
    return texts, numbers, spelled


def _extremes(values: list[Scalar], pick: Callable[..., Scalar]) -> list[Scalar]:
    """Return the elements that can decide `<` or `>`: NULL, and the extreme element for each way to compare.

    Those are the extreme number, the extreme string (compared as text, and as a number), and any one string that is
    not a number. If none of these satisfies the relation, no other element does.
    """
    if len(values) == 1:
        return values
    numbers = [value for value in values if isinstance(value, int | float)]
    comparable = [number for number in numbers if not isnan(number)]
    texts = [value for value in values if isinstance(value, str)]
    spelled = [text for text in texts if parse_number(text) is not None]
    found: list[Scalar] = [None] if None in values else []
    found += [pick(comparable)] if comparable else numbers[:1]
    found += [pick(texts)] if texts else []
    found += [pick(spelled, key=parse_number)] if spelled else []
    found += [next(text for text in texts if parse_number(text) is None)] if len(spelled) < len(texts) else []
    return found
