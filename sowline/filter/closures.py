"""The closures that a filter is made of: each asks its operands' closures and joins the answers."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from sowline.filter.arithmetic import Operation, signed
from sowline.filter.arrays import between, compare
from sowline.filter.evaluate import Verdict, any_true, inverted, truth
from sowline.filter.predicates import Judge
from sowline.filter.shortcuts import Test
from sowline.path import Document, Value

Evaluate = Callable[[Document], Value]
Judgement = Callable[[Document], Verdict]
Constant = TypeVar("Constant")


def always(constant: Constant) -> Callable[[Document], Constant]:
    """The same for every document."""
    return lambda document: constant


def all_hold(tests: Sequence[Test]) -> Test:
    """Whether every test holds, asked in order until one doesn't."""
    if len(tests) == 2:
        first, second = tests
        return lambda document: first(document) and second(document)
    if len(tests) == 3:
        first, second, third = tests
        return lambda document: first(document) and second(document) and third(document)

    def every(document: Document) -> bool:
        for test in tests:  # noqa: SIM110  (a generator would cost as much again)
            if not test(document):
                return False
        return True

    return every


def any_holds(tests: Sequence[Test]) -> Test:
    """Whether some test holds, asked in order until one does."""
    if len(tests) == 2:
        first, second = tests
        return lambda document: first(document) or second(document)
    if len(tests) == 3:
        first, second, third = tests
        return lambda document: first(document) or second(document) or third(document)

    def some(document: Document) -> bool:
        for test in tests:  # noqa: SIM110  (a generator would cost as much again)
            if test(document):
                return True
        return False

    return some


def is_exactly(wanted: bool, judgement: Judgement) -> Test:
    """Whether the judgement is TRUE (or FALSE, where that is wanted): NULL is neither."""
    return lambda document: judgement(document) is wanted


def inverting(judgement: Judgement) -> Judgement:
    """NOT."""
    return lambda document: inverted(judgement(document))


def joining(join: Callable[[Iterable[Verdict]], Verdict], judgements: Sequence[Judgement]) -> Judgement:
    """AND or OR, as `join` says."""
    return lambda document: join(judgement(document) for judgement in judgements)


def judging(judge: Judge, operand: Evaluate) -> Judgement:
    """A predicate of one operand."""
    return lambda document: judge(operand(document))


def comparing(name: str, left: Evaluate, right: Evaluate) -> Judgement:
    """A comparison of two operands."""
    return lambda document: compare(name, left(document), right(document))


def betweening(operand: Evaluate, low: Evaluate, high: Evaluate) -> Judgement:
    """BETWEEN, where an end is no constant."""
    return lambda document: between(operand(document), low(document), high(document))


def containing(operand: Evaluate, items: Sequence[Evaluate]) -> Judgement:
    """IN, where an item is no constant."""

    def contained(document: Document) -> Verdict:
        value = operand(document)
        return any_true(compare("=", value, item(document)) for item in items)

    return contained


def as_truth(operand: Evaluate) -> Judgement:
    """A value where a condition is due."""
    return lambda document: truth(operand(document))


def signing(sign: str, operand: Evaluate) -> Evaluate:
    """Unary `+` or `-`."""
    return lambda document: signed(sign, operand(document))


def calculating(first: Evaluate, steps: Sequence[tuple[Operation, Evaluate]]) -> Evaluate:
    """A chain of arithmetic, left to right."""
    if len(steps) == 1:
        operate, second = steps[0]
        return lambda document: operate(first(document), second(document))

    def calculate(document: Document) -> Value:
        result = first(document)
        for operate, operand in steps:
            result = operate(result, operand(document))
        return result

    return calculate
