"""An expression ready for use: the value that a text of the filter language has for a document."""

from collections.abc import Callable
from functools import lru_cache

from sowline.filter.check import check
from sowline.filter.closures import Evaluate
from sowline.filter.compile import value
from sowline.filter.determinism import nondeterministic
from sowline.filter.envelope import about_facts, needs_about
from sowline.filter.errors import FilterError
from sowline.filter.fold import folded
from sowline.filter.metadata import Metadata
from sowline.filter.parse import check_length, parse
from sowline.filter.printer import text_of
from sowline.filter.tree import Node, paths_of
from sowline.model.path import Document, Path, Value

CACHED_EXPRESSIONS_MAX = 512
CACHED_EXPRESSION_CHARS_MAX = 4096
"""Longer expressions are compiled again each time, so that the cache's memory has a limit."""


class Expression:
    """A compiled expression. Immutable; equal to every expression of the same tree; its text is canonical.

    `value(document)` is what it is of a document: a condition is TRUE, FALSE or NULL (`None`), and a bare path
    may be an array. What is known beside the document is NULL there; `value_about(document, about)` knows it,
    and is only needed where `needs_about`. Both never raise, and are safe to call from several threads.
    """

    __slots__ = ("needs_about", "nondeterministic", "paths", "text", "tree", "value", "value_about")

    needs_about: bool
    nondeterministic: tuple[str, ...]
    paths: frozenset[Path]
    text: str
    tree: Node
    value: Evaluate
    value_about: Callable[[Document, Metadata], Value]

    def __init__(self, tree: Node) -> None:
        """An expression of a tree as `parse` makes them; raises `FilterError` where it can't be compiled."""
        self.value = compile_tree(tree)
        self.tree = tree
        self.text = text_of(tree)
        self.paths = paths_of(tree)
        self.needs_about = needs_about(tree)
        self.nondeterministic = nondeterministic(tree)
        self.value_about = about_facts(self.value, compile_tree, tree)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[type["Expression"], tuple[Node]]:
        # Closures can't be pickled; the tree says it all.
        return Expression, (self.tree,)


def compile_tree(tree: Node) -> Evaluate:
    """The closure that gives the tree's value of a document; raises `FilterError`."""
    check(tree)
    return value(folded(tree))


def compile_expression(text: str) -> Expression:
    """The expression that the text spells. Raises `FilterError`, also for a blank text."""
    check_length(text)
    if not text.strip():
        raise FilterError("expected an expression, got a blank text", 1)
    return _cached(text) if len(text) <= CACHED_EXPRESSION_CHARS_MAX else Expression(parse(text))


@lru_cache(maxsize=CACHED_EXPRESSIONS_MAX)
def _cached(text: str) -> Expression:
    return Expression(parse(text))
