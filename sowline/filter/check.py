"""What the grammar lets through and no filter may hold: unknown functions, patterns that RE2 refuses."""

from sowline.filter.errors import FilterError
from sowline.filter.patterns import PatternError, compile_pattern
from sowline.filter.tree import Call, Like, Node, walk


def check(tree: Node) -> None:
    """Raise `FilterError` for the first thing in the tree that can't be compiled."""
    for node in walk(tree):
        if isinstance(node, Call):
            _check_call(node)
        elif isinstance(node, Like):
            _check_pattern(node)


def _check_call(call: Call) -> None:
    raise FilterError(
        f"expected a function that exists at column {call.column}, got {call.name}", call.column
    )


def _check_pattern(like: Like) -> None:
    try:
        compile_pattern(like.pattern, raw=like.raw)
    except PatternError as error:
        raise FilterError(
            f"expected a pattern in RE2's syntax after LIKE at column {like.column}, got one with {error}",
            like.column,
        ) from None
