"""Finds functions whose result does not depend on the record alone, and refuses them or fixes their time."""

from typing import Protocol

from sowline.language.filter.errors import FilterError
from sowline.language.filter.functions import FUNCTIONS
from sowline.language.filter.tree import Call, Node, rebuilt, walk


class HasTree(Protocol):
    """A filter or an expression."""

    @property
    def tree(self) -> Node:
        """The tree from which it was compiled."""
        ...


def nondeterministic(tree: Node) -> tuple[str, ...]:
    """Return the functions whose result depends on more than the record and its metadata, each once, in order.

    Functions that are not in the filter language (such as aggregates) are ignored.
    """
    return tuple(dict.fromkeys(call.name for call in _calls(tree)))


def require_deterministic(compiled: HasTree, where: str) -> None:
    """Raise `FilterError` for the first call whose result may differ for the same record.

    `where` says for the message what can't have such a call, for example `the filter of an oof subscription`.
    """
    for call in _calls(compiled.tree):
        raise FilterError(
            f"{call.name} at column {call.column} can't be used in {where}; expected only functions that depend on"
            " nothing but the record",
            call.column,
        )


def with_time(tree: Node, now: Node) -> Node:
    """Return the tree with `now`, in seconds since 1970, in place of the current time."""
    match tree:
        case Call("UNIX_TIMESTAMP"):
            return now
        case Call("TODAY", zones):
            return Call("DATE", (now, *(with_time(zone, now) for zone in zones)))
        case Call("TODAY_UTC"):
            return Call("DATE_UTC", (now,))
        case _:
            return rebuilt(tree, lambda node: with_time(node, now))


def _calls(tree: Node) -> list[Call]:
    calls = (node for node in walk(tree) if isinstance(node, Call) and node.name in FUNCTIONS)
    return [call for call in calls if not FUNCTIONS[call.name].deterministic]
