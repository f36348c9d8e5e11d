"""Deltas and conditions ready for use."""

from functools import lru_cache
from typing import Generic, TypeVar

from sowline.language.emodb import tree
from sowline.language.emodb.evaluate import apply, holds
from sowline.language.emodb.intrinsics import UNKNOWN, Intrinsics
from sowline.language.emodb.parse import read_condition, read_delta
from sowline.language.emodb.printer import text_of
from sowline.language.emodb.values import Json, Undefined

CACHED_TEXTS_MAX = 512
CACHED_TEXT_CHARS_MAX = 4096
"""Longer texts are not cached, so that the cache's memory is limited."""

Node = TypeVar("Node", bound=tree.Delta | tree.Condition)


class Canonical(Generic[Node]):
    """The common base of deltas and conditions: a tree, and its canonical text, which decides equality.

    `source`, if given, is a text with all words and escapes of the tree: it is cheaper to search than the canonical
    text.
    """

    __slots__ = ("_text", "source", "tree")

    def __init__(self, node: Node, source: str | None = None) -> None:
        self.tree: Node = node
        self.source = source
        self._text: str | None = None

    @property
    def text(self) -> str:
        """The canonical text."""
        # Written only when it is asked for: most deltas are applied, but never compared or shown.
        if self._text is None:
            self._text = text_of(self.tree)
        return self._text

    @property
    def needs_about(self) -> bool:
        """Whether the answer may depend on intrinsics."""
        # A string that contains one of these is taken for a test of intrinsics. That costs little, and is never
        # wrong.
        text = self.text if self.source is None else self.source
        return "intrinsic" in text or "partition" in text

    @property
    def may_hold_escapes(self) -> bool:
        """Whether the text may contain escapes. Half of a surrogate pair can only be written as one."""
        return self.source is None or "\\u" in self.source

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


class Delta(Canonical[tree.Delta]):
    """A change of a document. Immutable; equal to every delta of the same canonical text.

    Safe to use from several threads.
    """

    __slots__ = ()

    def apply(self, value: Json | Undefined, about: Intrinsics = UNKNOWN) -> Json | Undefined:
        """Return the new value for a value or UNDEFINED; UNDEFINED if the delta deletes. Never raises.

        The value is not changed, but the result shares parts with it and with the delta: don't change the result.
        """
        return apply(self.tree, value, about)


class Condition(Canonical[tree.Condition]):
    """A condition on a value. Immutable; equal to every condition with the same canonical text.

    `matches(value)` knows only the value; `matches_about(value, about)` also knows the document's intrinsics. Both
    accept UNDEFINED, never raise, and are safe to call from several threads.
    """

    __slots__ = ()

    def matches(self, value: Json | Undefined) -> bool:
        """Whether the condition holds for a value without intrinsics: they are null, and `~deleted` is false."""
        return holds(self.tree, value, UNKNOWN)

    def matches_about(self, value: Json | Undefined, about: Intrinsics) -> bool:
        """Whether the condition holds for the value of a document with these intrinsics."""
        return holds(self.tree, value, about)


def parse_delta(text: str) -> Delta:
    """Parse a delta; raise `DocumentError` with reason `bad delta`."""
    return _cached_delta(text) if len(text) <= CACHED_TEXT_CHARS_MAX else Delta(read_delta(text), text)


def compile_condition(text: str) -> Condition:
    """Parse a condition; raise `DocumentError` with reason `bad condition`."""
    return (
        _cached_condition(text)
        if len(text) <= CACHED_TEXT_CHARS_MAX
        else Condition(read_condition(text), text)
    )


@lru_cache(maxsize=CACHED_TEXTS_MAX)
def _cached_delta(text: str) -> Delta:
    return Delta(read_delta(text), text)


@lru_cache(maxsize=CACHED_TEXTS_MAX)
def _cached_condition(text: str) -> Condition:
    return Condition(read_condition(text), text)
