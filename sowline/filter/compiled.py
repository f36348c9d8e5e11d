"""A filter ready for use: its tree, the paths it mentions, and the closure that tells what matches."""

from collections.abc import Callable
from functools import lru_cache

from sowline.filter.check import check
from sowline.filter.compile import holds
from sowline.filter.errors import FilterError
from sowline.filter.fold import folded
from sowline.filter.parse import parse
from sowline.filter.printer import text_of
from sowline.filter.tree import Field, Node, walk
from sowline.path import Document, Path

FILTER_CHARS_MAX = 64 * 1024
CACHED_FILTERS_MAX = 512
CACHED_FILTER_CHARS_MAX = 4096
"""Longer filters are compiled anew each time, so that the cache's memory has a limit."""


class Filter:
    """A compiled filter. Immutable; equal to every filter of the same tree; its text is canonical.

    `matches(document)` is True when the filter is TRUE of the document, False when it is FALSE or NULL. It
    never raises, and it is safe to call from several threads.
    """

    __slots__ = ("matches", "paths", "text", "tree")

    matches: Callable[[Document], bool]
    paths: frozenset[Path]
    text: str
    tree: Node

    def __init__(self, tree: Node) -> None:
        """A filter of a tree that `parse` made; raises `FilterError` where the tree can't be compiled."""
        check(tree)
        self.tree = tree
        self.text = text_of(tree)
        self.paths = frozenset(node.path for node in walk(tree) if isinstance(node, Field))
        self.matches = holds(folded(tree))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Filter({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[type["Filter"], tuple[Node]]:
        # Closures can't be pickled; the tree says it all.
        return Filter, (self.tree,)


def compile_filter(text: str) -> Filter:
    """The filter that the text spells; a blank text matches everything. Raises `FilterError`."""
    if len(text) > FILTER_CHARS_MAX:
        raise FilterError(
            f"expected a filter of at most {FILTER_CHARS_MAX} characters, got {len(text)}",
            FILTER_CHARS_MAX + 1,
        )
    return _cached(text) if len(text) <= CACHED_FILTER_CHARS_MAX else Filter(parse(text))


@lru_cache(maxsize=CACHED_FILTERS_MAX)
def _cached(text: str) -> Filter:
    return Filter(parse(text))


ALL = Filter(parse(""))
"""Matches every document."""
