"""Which filters are functions of a record alone, and the refusal of others where only such will do."""

from typing import Protocol

from sowline.filter.errors import FilterError
from sowline.filter.functions import FUNCTIONS
from sowline.filter.tree import Call, Node, walk


class HasTree(Protocol):
    """A filter or an expression."""

    @property
    def tree(self) -> Node:
        """What it was compiled from."""


def nondeterministic(tree: Node) -> tuple[str, ...]:
    """The functions used that aren't functions of the record and what is known about it, each once, in order.

    A function that isn't in the language (one of aggregation, say) doesn't count.
    """
    return tuple(dict.fromkeys(call.name for call in _calls(tree)))


def require_deterministic(compiled: HasTree, where: str) -> None:
    """Raise `FilterError` for the first call that may answer differently for the same record.

    `where` names the place that can't have it: `the filter of an oof subscription`, say.
    """
    for call in _calls(compiled.tree):
        raise FilterError(
            f"{call.name} at column {call.column} can't be used in {where}; expected only functions whose answer"
            " depends on nothing but the record",
            call.column,
        )


def _calls(tree: Node) -> list[Call]:
    calls = (node for node in walk(tree) if isinstance(node, Call) and node.name in FUNCTIONS)
    return [call for call in calls if not FUNCTIONS[call.name].deterministic]
