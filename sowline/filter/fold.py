"""Work out what depends on no document: `/a > 2 * 3` is `/a > 6`, and so finds its short road."""

from dataclasses import replace

from sowline.filter.compile import value
from sowline.filter.evaluate import first
from sowline.filter.tree import (
    And,
    Arithmetic,
    Between,
    Call,
    Comparison,
    Field,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Or,
    Signed,
    children,
)


def folded(node: Node) -> Node:
    """A tree that means the same, in which only literals are constant. Its text isn't the user's any more."""
    if isinstance(node, Literal | Field | Call):
        return node
    simpler = _with_folded_operands(node)
    if all(isinstance(operand, Literal) for operand in children(simpler)):
        return Literal(first(value(simpler)({})))
    return simpler


def _with_folded_operands(
    node: Signed | Arithmetic | Comparison | Between | In | Like | IsNull | Not | And | Or,
) -> Node:
    match node:
        case Signed() | Like() | IsNull() | Not():
            return replace(node, operand=folded(node.operand))
        case Arithmetic(start, rest):
            return Arithmetic(folded(start), tuple((name, folded(operand)) for name, operand in rest))
        case Comparison(name, left, right):
            return Comparison(name, folded(left), folded(right))
        case Between(operand, low, high):
            return Between(folded(operand), folded(low), folded(high))
        case In(operand, items):
            return In(folded(operand), tuple(map(folded, items)))
        case And(terms):
            return And(tuple(map(folded, terms)))
        case Or(terms):
            return Or(tuple(map(folded, terms)))
