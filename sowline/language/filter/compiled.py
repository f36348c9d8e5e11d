"""Compiled filters: the tree of a filter, its paths, and the functions that match documents."""

from collections.abc import Callable
from functools import lru_cache

from sowline.language.filter.check import check
from sowline.language.filter.compile import holds
from sowline.language.filter.determinism import nondeterministic, with_time
from sowline.language.filter.envelope import about_facts, needs_about
from sowline.language.filter.fold import folded
from sowline.language.filter.metadata import Metadata
from sowline.language.filter.parse import check_length, parse
from sowline.language.filter.printer import text_of
from sowline.language.filter.tree import Literal, Node, paths_of
from sowline.model.path import Document, Path

CACHED_FILTERS_MAX = 512
CACHED_FILTER_CHARS_MAX = 4096
"""Longer filters are not cached, so that the cache's memory has a limit."""


class Filter:
    """A compiled filter. Immutable; filters with the same tree are equal. `text` is the canonical text.

    `matches(document)` returns True if the filter is TRUE for the document, False if it is FALSE or NULL. It treats
    all metadata as NULL. `matches_about(document, about)` also takes the record's metadata; use it if `needs_about`
    is True. Both never raise, and are safe to call from several threads. `nondeterministic` has the names of the
    functions used whose result depends on more than the record and its metadata.
    """

    __slots__ = ("matches", "matches_about", "needs_about", "nondeterministic", "paths", "text", "tree")

    matches: Callable[[Document], bool]
    matches_about: Callable[[Document, Metadata], bool]
    needs_about: bool
    nondeterministic: tuple[str, ...]
    paths: frozenset[Path]
    text: str
    tree: Node

    def __init__(self, tree: Node) -> None:
        """Compile a tree made by `parse`; raise `FilterError` if that is impossible."""
        # First, because no pattern above the limits may be compiled (test_what_is_too_large_never_reaches_re2).
        check(tree)
        self.tree = tree
        self.text = text_of(tree)
        self.paths = paths_of(tree)
        self.needs_about = needs_about(tree)
        self.nondeterministic = nondeterministic(tree)
        self.matches = holds(folded(tree))
        self.matches_about = about_facts(self.matches, lambda whole: holds(folded(whole)), tree)

    def at(self, seconds: float) -> "Filter":
        """Return the filter whose current time is always this, in seconds since 1970."""
        return Filter(with_time(self.tree, Literal(seconds))) if self.nondeterministic else self

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Filter({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[type["Filter"], tuple[Node]]:
        # Closures can't be pickled: compile the tree again.
        return Filter, (self.tree,)


def compile_filter(text: str) -> Filter:
    """Return the filter for a text; a blank text matches every document. Raise `FilterError`."""
    check_length(text)
    return _cached(text) if len(text) <= CACHED_FILTER_CHARS_MAX else Filter(parse(text))


@lru_cache(maxsize=CACHED_FILTERS_MAX)
def _cached(text: str) -> Filter:
    return Filter(parse(text))


ALL = Filter(parse(""))
"""The filter that matches every document."""
