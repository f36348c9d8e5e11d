"""The closures of compiled filters: each calls the closures of its operands and combines the results."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from sowline.language.filter.arithmetic import Operation, signed
from sowline.language.filter.arrays import between, compare, elements
from sowline.language.filter.evaluate import Verdict, any_true, first, inverted, truth
from sowline.language.filter.functions.registry import bounded
from sowline.language.filter.predicates import Affixes, Judge
from sowline.language.filter.shortcuts import Test
from sowline.model.path import Document, Scalar, Value

Evaluate = Callable[[Document], Value]
Judgment = Callable[[Document], Verdict]
Constant = TypeVar("Constant")


def always(constant: Constant) -> Callable[[Document], Constant]:
    """Return a closure with the same result for every document."""
    return lambda document: constant


def all_hold(tests: Sequence[Test]) -> Test:
    """Return a test whether all tests hold, called in order until one fails."""
    # Most filters join two or three conditions. Written out, the test takes a third less time than as a loop.
    if len(tests) == 2:
        one, other = tests
        return lambda document: one(document) and other(document)
    if len(tests) == 3:
        one, other, third = tests
        return lambda document: one(document) and other(document) and third(document)

    def every(document: Document) -> bool:
        for test in tests:  # noqa: SIM110 - a generator would cost as much again
            if not test(document):
                return False
        return True

    return every


def any_holds(tests: Sequence[Test]) -> Test:
    """Return a test whether any test holds, called in order until one holds."""
    if len(tests) == 2:
        one, other = tests
        return lambda document: one(document) or other(document)
    if len(tests) == 3:
        one, other, third = tests
        return lambda document: one(document) or other(document) or third(document)

    def some(document: Document) -> bool:
        for test in tests:  # noqa: SIM110 - a generator would cost as much again
            if test(document):
                return True
        return False

    return some


def is_exactly(wanted: bool, judgment: Judgment) -> Test:
    """Return a test whether the judgment is exactly `wanted`, TRUE or FALSE; NULL is neither."""
    return lambda document: judgment(document) is wanted


def inverting(judgment: Judgment) -> Judgment:
    """Return the closure for NOT."""
    return lambda document: inverted(judgment(document))


def joining(join: Callable[[Iterable[Verdict]], Verdict], judgments: Sequence[Judgment]) -> Judgment:
    """Return the closure for AND or OR, which `join` computes."""
    return lambda document: join(judgment(document) for judgment in judgments)


def judging(judge: Judge, operand: Evaluate) -> Judgment:
    """Return the closure for a predicate with one operand."""
    return lambda document: judge(operand(document))


def comparing(name: str, left: Evaluate, right: Evaluate) -> Judgment:
    """Return the closure for a comparison of two operands."""
    return lambda document: compare(name, left(document), right(document))


def betweening(operand: Evaluate, low: Evaluate, high: Evaluate) -> Judgment:
    """Return the closure for BETWEEN with an end that is not constant."""
    return lambda document: between(operand(document), low(document), high(document))


def containing(operand: Evaluate, items: Sequence[Evaluate]) -> Judgment:
    """Return the closure for IN with an item that is not constant."""

    def contained(document: Document) -> Verdict:
        value = operand(document)
        return any_true(compare("=", value, item(document)) for item in items)

    return contained


def affixing(end: str, operand: Evaluate, items: Sequence[Evaluate]) -> Judgment:
    """Return the closure for BEGINS WITH or ENDS WITH with an item that is not constant."""

    def affixed(document: Document) -> Verdict:
        affixes = [element for item in items for element in elements(item(document))]
        return Affixes(end, affixes)(operand(document))

    return affixed


def choosing(condition: Test, chosen: Evaluate, otherwise: Evaluate) -> Evaluate:
    """Return the closure for IF, which evaluates only the chosen argument."""
    return lambda document: bounded(first((chosen if condition(document) else otherwise)(document)))


def calling(function: Callable[..., Scalar], arguments: Sequence[Evaluate]) -> Evaluate:
    """Return the closure for a function call."""
    if not arguments:
        return lambda document: function()
    if len(arguments) == 1:
        (only,) = arguments
        return lambda document: function(only(document))
    if len(arguments) == 2:
        one, other = arguments
        return lambda document: function(one(document), other(document))

    def call(document: Document) -> Value:
        return function(*[argument(document) for argument in arguments])

    return call


def as_truth(operand: Evaluate) -> Judgment:
    """Return the closure for a value used as a condition."""
    return lambda document: truth(operand(document))


def signing(sign: str, operand: Evaluate) -> Evaluate:
    """Return the closure for a unary `+` or `-`."""
    return lambda document: signed(sign, operand(document))


def calculating(start: Evaluate, steps: Sequence[tuple[Operation, Evaluate]]) -> Evaluate:
    """Return the closure for a chain of arithmetic, from left to right."""
    if len(steps) == 1:
        operate, second = steps[0]
        return lambda document: operate(start(document), second(document))

    def calculate(document: Document) -> Value:
        result = start(document)
        for operate, operand in steps:
            result = operate(result, operand(document))
        return result

    return calculate
