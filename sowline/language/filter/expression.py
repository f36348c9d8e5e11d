"""Compiled expressions: compute the value of a text in the filter language for a document."""

from collections.abc import Callable
from functools import lru_cache

from sowline.language.filter.check import check
from sowline.language.filter.closures import Evaluate
from sowline.language.filter.compile import value
from sowline.language.filter.determinism import nondeterministic
from sowline.language.filter.envelope import about_facts, needs_about
from sowline.language.filter.errors import FilterError
from sowline.language.filter.fold import folded
from sowline.language.filter.metadata import Metadata
from sowline.language.filter.parse import check_length, parse
from sowline.language.filter.printer import text_of
from sowline.language.filter.tree import Node, paths_of
from sowline.model.path import Document, Path, Value

CACHED_EXPRESSIONS_MAX = 512
CACHED_EXPRESSION_CHARS_MAX = 4096
"""Longer expressions are not cached, so that the cache's memory has a limit."""


class Expression:
    """A compiled expression. Immutable; expressions with the same tree are equal. `text` is the canonical text.

    `value(document)` returns the value for a document: True, False or None (NULL) for a condition, possibly an array
    for a bare path. It treats all metadata as NULL. `value_about(document, about)` also takes the record's metadata;
    use it if `needs_about` is True. Both never raise, and are safe to call from several threads.
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
        """Compile a tree made by `parse`; raise `FilterError` if that is impossible."""
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
        # Closures can't be pickled: compile the tree again.
        return Expression, (self.tree,)


def compile_tree(tree: Node) -> Evaluate:
    """Return the function that computes a tree's value for a document; raise `FilterError`."""
    check(tree)
    return value(folded(tree))


def compile_expression(text: str) -> Expression:
    """Return the expression for a text; raise `FilterError`, also for a blank text."""
    check_length(text)
    if not text.strip():
        raise FilterError("expected an expression, got a blank text", 1)
    return _cached(text) if len(text) <= CACHED_EXPRESSION_CHARS_MAX else Expression(parse(text))


@lru_cache(maxsize=CACHED_EXPRESSIONS_MAX)
def _cached(text: str) -> Expression:
    return Expression(parse(text))
