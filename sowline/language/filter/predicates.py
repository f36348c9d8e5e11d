"""Predicates on one operand with constants: `/a > 5`, `/a IN ('x', 'y')`, `/a LIKE '^x'`, `/a IS NULL`.

Most conditions of most filters are of this kind. Each is compiled to a judge: a function from the operand's value to
the verdict.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import isnan
from operator import methodcaller

from sowline.language.filter.arrays import any_element, between, compare
from sowline.language.filter.evaluate import Verdict, any_true, first, to_number, to_text
from sowline.language.filter.numbers import Number, parse_number
from sowline.language.filter.patterns import RegexTest, TextTest, compile_pattern
from sowline.language.filter.tree import Affixed, Between, Comparison, In, IsNaN, IsNull, Like, Literal, Node
from sowline.model.path import Scalar, Value

Judge = Callable[[Value], Verdict]

AFFIX_METHODS = {"BEGINS": "startswith", "ENDS": "endswith"}

MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def constant(literal: Literal) -> Scalar:
    """Return the value of a literal; `''` is NULL."""
    return None if literal.value == "" else literal.value


def judged(node: Node) -> tuple[Node, Judge] | None:
    """Return the operand and the judge of a predicate with one operand; None for any other node."""
    match node:
        case Comparison(name, operand, Literal() as literal):
            return operand, _comparison(name, constant(literal))
        case Comparison(name, Literal() as literal, operand):
            return operand, _comparison(MIRRORED[name], constant(literal))
        case Between(operand, Literal() as low, Literal() as high):
            return operand, partial(between, low=constant(low), high=constant(high))
        case Like(operand, pattern, raw):
            return operand, _like(compile_pattern(pattern, raw=raw))
        case IsNull(operand):
            return operand, _is_null
        case IsNaN(operand):
            return operand, _is_nan
        case Affixed(end, operand, items):
            literals = [constant(item) for item in items if isinstance(item, Literal)]
            return (operand, Affixes(end, literals)) if len(literals) == len(items) else None
        case In(operand, items):
            literals = [constant(item) for item in items if isinstance(item, Literal)]
            return (operand, Membership(literals)) if len(literals) == len(items) else None
        case _:
            return None


def _comparison(name: str, literal: Scalar) -> Judge:
    def judge(value: Value) -> Verdict:
        return compare(name, value, literal)

    return judge


def _like(test: TextTest) -> Judge:
    def judge_scalar(value: Scalar) -> Verdict:
        text = to_text(value)
        return None if text is None else test(text)

    if not isinstance(test, RegexTest):
        return partial(any_element, judge_scalar)

    def judge(value: Value) -> Verdict:
        # The elements of an array are searched one after another, so the limit is for their total length
        # (test_a_text_that_is_too_long_for_a_pattern).
        if isinstance(value, list) and not test.allows(
            text for text in map(to_text, value) if text is not None
        ):
            return None
        return any_element(judge_scalar, value)

    return judge


def _is_null(value: Value) -> Verdict:
    return first(value) is None


def _is_nan(value: Value) -> Verdict:
    number = to_number(first(value))
    return number is not None and isnan(number)


class Affixes:
    """The judge for `BEGINS WITH` (or `ENDS WITH`) with constants."""

    def __init__(self, end: str, items: Sequence[Scalar]) -> None:
        texts = tuple(text for text in map(to_text, items) if text is not None)
        self.test: TextTest = methodcaller(AFFIX_METHODS[end], texts)
        # As in SQL, a NULL in the list makes the answer unknown: NOT must not be TRUE then.
        self._absent: Verdict = None if None in items else False

    def __call__(self, value: Value) -> Verdict:
        """Return the verdict for a value."""
        return any_element(self._judge, value)

    def _judge(self, value: Scalar) -> Verdict:
        text = to_text(value)
        return None if text is None else True if self.test(text) else self._absent


class Membership:
    """The judge for `IN` with constants, by hashing. The result is that of `=` with any of them."""

    def __init__(self, items: Sequence[Scalar]) -> None:
        self.texts = frozenset(item for item in items if isinstance(item, str))
        self._numbers: frozenset[Number] = frozenset(
            item for item in items if isinstance(item, int | float) and not isnan(item)
        )
        spelled = map(parse_number, self.texts)
        self.numbers = self._numbers | {number for number in spelled if number is not None}
        """The values that a number can equal: the numbers, and the strings that are numbers."""
        self.compares_texts_only = not self._numbers
        # As in SQL, a NULL in the list makes the answer unknown: NOT IN must not be TRUE then.
        self._absent: Verdict = None if None in items else False

    def __call__(self, value: Value) -> Verdict:
        """Return the verdict for a value."""
        return any_true(map(self._judge, value)) if isinstance(value, list) else self._judge(value)

    def _judge(self, value: Scalar) -> Verdict:
        if value is None:
            return None
        found = self._holds_text(value) if isinstance(value, str) else value in self.numbers
        return True if found else self._absent

    def _holds_text(self, text: str) -> bool:
        return text in self.texts or (bool(self._numbers) and parse_number(text) in self._numbers)
