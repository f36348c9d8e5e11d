"""Constant folding: computes the parts of a filter that do not depend on the document.

`/a > 2 * 3` becomes `/a > 6`, for which there is a shortcut (`sowline.language.filter.shortcuts`).
"""

from sowline.language.filter.compile import value
from sowline.language.filter.evaluate import first
from sowline.language.filter.functions import FUNCTIONS
from sowline.language.filter.tree import Call, Field, Literal, Meets, Node, children, rebuilt

FOLDED_TEXT_CHARS_MAX = 4096
"""Longer constant texts are not folded but computed for each document."""


def folded(node: Node) -> Node:
    """Return an equivalent tree with literals for constant parts. Its text may differ from the user's."""
    if isinstance(node, Literal | Field | Meets):
        return node
    simpler = rebuilt(node, folded)
    if not all(isinstance(operand, Literal) for operand in children(simpler)) or _is_open(simpler):
        return simpler
    result = first(value(simpler)({}))
    # A short filter could otherwise keep a megabyte of text in memory (test_long_constants_are_not_kept).
    is_long = isinstance(result, str) and len(result) > FOLDED_TEXT_CHARS_MAX
    return simpler if is_long else Literal(result)


def _is_open(node: Node) -> bool:
    """Return whether the result of a node depends on more than its arguments: on the time, or on the record."""
    if not isinstance(node, Call):
        return False
    function = FUNCTIONS[node.name]
    return not function.deterministic or function.fact is not None
