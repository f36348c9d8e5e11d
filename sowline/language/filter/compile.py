"""Compiles a tree to closures.

A condition compiles to one of three closures, depending on its context: `holds` (is it TRUE?), `fails` (is it
FALSE?), or `verdict` (TRUE, FALSE or NULL). The first two return plain booleans, so AND and OR need not handle NULL:
`NOT x` holds if x fails. Each closure calls one closure per operand, so the work is linear in the tree.
"""

from typing import assert_never

from sowline.language.filter.arithmetic import OPERATIONS
from sowline.language.filter.closures import (
    Evaluate,
    Judgment,
    affixing,
    all_hold,
    always,
    any_holds,
    as_truth,
    betweening,
    calculating,
    calling,
    choosing,
    comparing,
    containing,
    inverting,
    is_exactly,
    joining,
    judging,
    signing,
)
from sowline.language.filter.envelope_condition import meeting
from sowline.language.filter.evaluate import all_true, any_true, truth
from sowline.language.filter.functions import FUNCTIONS
from sowline.language.filter.predicates import constant, judged
from sowline.language.filter.shortcuts import Test, shortcut
from sowline.language.filter.tree import (
    Affixed,
    And,
    Arithmetic,
    Between,
    Call,
    Comparison,
    Field,
    FieldOf,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Meets,
    Node,
    Not,
    Or,
    Signed,
)
from sowline.model.path import reader


def holds(node: Node) -> Test:
    """Return a function that tells whether the condition is TRUE for a document."""
    match node:
        case Not(operand):
            return fails(operand)
        case And(terms):
            return all_hold([holds(term) for term in terms])
        case Or(terms):
            return any_holds([holds(term) for term in terms])
        case Literal():
            return always(truth(constant(node)) is True)
        case _:
            one = judged(node)
            short = shortcut(node, *one) if one else None
            return short or is_exactly(True, verdict(node))


def fails(node: Node) -> Test:
    """Return a function that tells whether the condition is FALSE for a document."""
    match node:
        case Not(operand):
            return holds(operand)
        case And(terms):
            return any_holds([fails(term) for term in terms])
        case Or(terms):
            return all_hold([fails(term) for term in terms])
        # Not the opposite of `holds`: a condition that is NULL neither holds nor fails, and NOT must not make it TRUE
        # (test_null_is_neither_true_nor_false).
        case _:
            return is_exactly(False, verdict(node))


def verdict(node: Node) -> Judgment:
    """Return a function that gives the verdict on a condition for a document; for a value, its truth."""
    match node:
        case Not(operand):
            return inverting(verdict(operand))
        case And(terms):
            return joining(all_true, [verdict(term) for term in terms])
        case Or(terms):
            return joining(any_true, [verdict(term) for term in terms])
        case Comparison() | Between() | In() | Like() | Affixed() | IsNull() | IsNaN():
            return _predicate(node)
        case _:
            return as_truth(value(node))


def value(node: Node) -> Evaluate:
    """Return a function that gives the value of an expression for a document; for a condition, its verdict."""
    match node:
        case Literal():
            return always(constant(node))
        case Field(path):
            return reader(path)
        case FieldOf(path, state):
            raise AssertionError(f"no document holds {path} OF {state}")
        case Signed(sign, operand):
            return signing(sign, value(operand))
        case Arithmetic(first, rest):
            return calculating(value(first), [(OPERATIONS[name], value(operand)) for name, operand in rest])
        case Call():
            return _call(node)
        case Meets(condition, in_envelope):
            return meeting(condition) if in_envelope else condition.matches
        case Comparison() | Between() | In() | Like() | Affixed() | IsNull() | IsNaN() | Not() | And() | Or():
            return verdict(node)
        case _:
            assert_never(node)


def _call(node: Call) -> Evaluate:
    # Other functions get all of their arguments. IF must not evaluate the one that it does not choose
    # (test_if_evaluates_what_it_chooses).
    if node.name == "IF":
        condition, chosen, otherwise = node.arguments
        return choosing(holds(condition), value(chosen), value(otherwise))
    function = FUNCTIONS[node.name].applied_to(len(node.arguments))
    return calling(function, [value(argument) for argument in node.arguments])


def _predicate(node: Comparison | Between | In | Like | Affixed | IsNull | IsNaN) -> Judgment:
    one = judged(node)
    if one is not None:
        operand, judge = one
        return judging(judge, value(operand))
    match node:
        case Comparison(name, left, right):
            return comparing(name, value(left), value(right))
        case Between(operand, low, high):
            return betweening(value(operand), value(low), value(high))
        case In(operand, items):
            return containing(value(operand), [value(item) for item in items])
        case Affixed(end, operand, items):
            return affixing(end, value(operand), [value(item) for item in items])
        case _:
            raise AssertionError(f"a predicate of one operand without its judge: {node}")
