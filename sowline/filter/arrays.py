"""ANY: an operator on arrays is true when it is true of some element, or of some pair of elements.

Pairs are never tried one by one: two arrays of 100,000 elements would take minutes. Each relation looks
only at the few elements that can decide it.
"""

import operator
from collections.abc import Callable, Iterable
from math import isnan

from sowline.filter.evaluate import Relation, Verdict, all_true, any_true, related
from sowline.filter.numbers import Number, parse_number
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
    """The array's elements; a scalar is an array of one."""
    return value if isinstance(value, list) else [value]


def compare(name: str, left: Value, right: Value) -> Verdict:
    """`left <name> right`, where either may be an array."""
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
    """Whether some element lies between the ends. Each end, too, may be any element of its array."""
    lows, highs = _extremes(elements(low), min), _extremes(elements(high), max)
    return any_true(
        all_true((compare(">=", one, lows), compare("<=", one, highs))) for one in elements(operand)
    )


def any_element(test: Callable[[Scalar], Verdict], value: Value) -> Verdict:
    """A test of one scalar, made of an array."""
    return any_true(map(test, value)) if isinstance(value, list) else test(value)


def _deciding(name: str, lefts: list[Scalar], rights: list[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
    """Shorter arrays of which some pair is in the relation exactly if some pair of the whole ones is."""
    if name == "!=":
        # Of distinct elements only a string and a number can be equal ('01' and 1), never two strings; so a
        # pair that differs is found among the first few.
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
    """The strings, the numbers, and the numbers that strings spell. (NaN equals nothing, not even itself.)"""
    texts = {value for value in values if isinstance(value, str)}
    numbers = {value for value in values if isinstance(value, int | float) and not isnan(value)}
    spelled = {number for number in map(parse_number, texts) if number is not None}
    return texts, numbers, spelled


def _extremes(values: list[Scalar], pick: Callable[..., Scalar]) -> list[Scalar]:
    """The elements that can decide `<` or `>`: NULL, and of each way to compare the outermost.

    Those are the outermost number; the outermost string, as text and as the number it spells; and any one
    string that spells none. What none of these satisfies no other element does.
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
