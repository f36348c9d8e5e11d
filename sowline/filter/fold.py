"""Work out what depends on no document: `/a > 2 * 3` is `/a > 6`, and so finds its shortcut."""

from sowline.filter.compile import value
from sowline.filter.evaluate import first
from sowline.filter.functions import FUNCTIONS
from sowline.filter.tree import Call, Field, Literal, Meets, Node, children, rebuilt

FOLDED_TEXT_CHARS_MAX = 4096
"""A longer text is made again for each document: a short filter must not hold much memory."""


def folded(node: Node) -> Node:
    """A tree that means the same, in which what is constant is a literal. Its text isn't the user's any more."""
    if isinstance(node, Literal | Field | Meets):
        return node
    simpler = rebuilt(node, folded)
    if not all(isinstance(operand, Literal) for operand in children(simpler)) or _is_open(simpler):
        return simpler
    result = first(value(simpler)({}))
    is_long = isinstance(result, str) and len(result) > FOLDED_TEXT_CHARS_MAX
    return simpler if is_long else Literal(result)


def _is_open(node: Node) -> bool:
    """Whether the answer depends on more than the arguments: on who asks and when, or on the record itself."""
    if not isinstance(node, Call):
        return False
    function = FUNCTIONS[node.name]
    return not function.deterministic or function.fact is not None
