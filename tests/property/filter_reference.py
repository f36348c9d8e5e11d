"""The filter language once more, slow and obviously right: a direct walk of the tree.

Every pair of array elements is tried. What scalars and functions are has modules beside this one
(`scalar_reference.py`, `function_reference.py`).
"""

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from sowline.language.filter.tree import (
    Affixed,
    And,
    Arithmetic,
    Between,
    Call,
    Comparison,
    Field,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Or,
    Signed,
)
from tests.property.function_reference import reference_call
from tests.property.scalar_reference import (
    reference_affix,
    reference_and,
    reference_calculate,
    reference_compare,
    reference_like,
    reference_not,
    reference_number,
    reference_or,
)


def reference_read(node: Any, steps: tuple[str | int, ...]) -> list[Any]:
    """All scalars that the path reaches, as a flat list."""
    if not steps:
        if isinstance(node, list):
            return [leaf for element in node for leaf in reference_read(element, ())]
        return [] if isinstance(node, dict) else [None if node == "" else node]
    if isinstance(steps[0], int):
        elements = node if isinstance(node, list) else [node]
        return [leaf for element in elements[steps[0] :][:1] for leaf in reference_read(element, steps[1:])]
    if isinstance(node, list):
        # Subscripts further on count what all elements together gave, so the whole list takes the step at once.
        found = list(reference_members(node, steps[0]))
        return reference_read(found, steps[1:])
    if isinstance(node, dict) and steps[0] in node:
        return reference_read(node[steps[0]], steps[1:])
    return []


def reference_members(nodes: list[Any], name: str) -> Iterator[Any]:
    """The members of that name; a list among them gives its elements, as a merged array has them."""
    for node in nodes:
        if isinstance(node, list):
            yield from reference_members(node, name)
        elif isinstance(node, dict) and name in node:
            member = node[name]
            yield from member if isinstance(member, list) else [member]


def reference_verdict(node: Node, document: dict[str, Any]) -> bool | None:
    """What a node is of a document, as a condition."""
    scalar = reference_values(node, document)[0]
    if isinstance(scalar, bool):
        return scalar
    number = reference_number(scalar)
    return None if number is None or math.isnan(number) else number != 0


Reader = Callable[[Node], list[Any]]
"""What a node is of the document at hand."""


def reference_logic(node: Not | And | Or, document: dict[str, Any]) -> bool | None:
    """NOT, AND and OR of what nodes are as conditions."""
    match node:
        case Not(operand):
            return reference_not(reference_verdict(operand, document))
        case And(terms):
            return reference_and([reference_verdict(term, document) for term in terms])
        case Or(terms):
            return reference_or([reference_verdict(term, document) for term in terms])


def reference_pairs(operand: Node, items: tuple[Node, ...], values: Reader) -> list[tuple[Any, Any]]:
    """Each scalar of a node, with each of a list's."""
    return [(one, other) for one in values(operand) for item in items for other in values(item)]


def reference_between(node: Between, values: Reader) -> bool | None:
    """BETWEEN of nodes, for any three of their scalars."""
    triples = itertools.product(values(node.operand), values(node.low), values(node.high))
    return reference_or(
        [
            reference_and([reference_compare(">=", one, a), reference_compare("<=", one, b)])
            for one, a, b in triples
        ]
    )


def reference_predicate(node: Comparison | Between | In | Like | Affixed, values: Reader) -> bool | None:
    """A predicate holds where it does for any of the scalars that its operands are."""
    match node:
        case Comparison(name, left, right):
            return reference_or(
                [reference_compare(name, *pair) for pair in reference_pairs(left, (right,), values)]
            )
        case Between():
            return reference_between(node, values)
        case In(operand, items):
            equal = reference_pairs(operand, items, values)
            return reference_or([reference_compare("=", *pair) for pair in equal])
        case Like(operand, pattern, raw):
            return reference_or([reference_like(one, pattern, raw) for one in values(operand)])
        case Affixed(end, operand, items):
            affixed = reference_pairs(operand, items, values)
            return reference_or([reference_affix(end, *pair) for pair in affixed])


def reference_missing(node: IsNaN | IsNull, value: Any) -> bool:
    """IS NAN and IS NULL, of one scalar."""
    if isinstance(node, IsNull):
        return value is None
    number = reference_number(value)
    return number is not None and math.isnan(number)


def reference_arithmetic(node: Arithmetic, values: Reader) -> Any:
    """A sum or a product, from left to right."""
    result = values(node.first)[0]
    for operator, operand in node.rest:
        result = reference_calculate(operator, result, values(operand)[0])
    return result


def reference_values(node: Node, document: dict[str, Any]) -> list[Any]:
    """What a node is of a document: a list of scalars, never empty."""
    values = partial(reference_values, document=document)
    match node:
        case Literal(value):
            return [None if value == "" else value]
        case Field(path):
            return reference_read(document, path.steps) or [None]
        case Signed(sign, operand):
            return [reference_calculate("*", 1 if sign == "+" else -1, values(operand)[0])]
        case Arithmetic():
            return [reference_arithmetic(node, values)]
        case Comparison() | Between() | In() | Like() | Affixed():
            return [reference_predicate(node, values)]
        case IsNaN(operand) | IsNull(operand):
            return [reference_missing(node, values(operand)[0])]
        case Call("IF", (condition, chosen, otherwise)):
            return values(chosen if reference_verdict(condition, document) else otherwise)[:1]
        case Call(name, arguments):
            return [reference_call(name, [values(argument) for argument in arguments])]
        case Not() | And() | Or():
            return [reference_logic(node, document)]
    raise AssertionError(node)
