"""Deltas and conditions ready for use."""

from functools import lru_cache
from typing import Generic, TypeVar

from sowline.emodb import tree
from sowline.emodb.evaluate import apply, holds
from sowline.emodb.intrinsics import UNKNOWN, Intrinsics
from sowline.emodb.parse import read_condition, read_delta
from sowline.emodb.printer import text_of
from sowline.emodb.values import Json, Undefined

CACHED_TEXTS_MAX = 512
CACHED_TEXT_CHARS_MAX = 4096
"""Longer texts are parsed again each time, so that the cache's memory has a limit."""

Node = TypeVar("Node", bound=tree.Delta | tree.Condition)


class Canonical(Generic[Node]):
    """What a delta and a condition have in common: a tree, and its one text, which says whether two are equal.

    `source` is a text in which all that the tree has of words and escapes stands as well, if there is one: it saves
    the way to the canonical text.
    """

    __slots__ = ("_text", "source", "tree")

    def __init__(self, node: Node, source: str | None = None) -> None:
        self.tree: Node = node
        self.source = source
        self._text: str | None = None

    @property
    def text(self) -> str:
        """The canonical text."""
        if self._text is None:
            self._text = text_of(self.tree)
        return self._text

    @property
    def needs_about(self) -> bool:
        """Whether the answer may depend on intrinsics."""
        # A string that holds one of these is taken for a condition: that costs a little, and is never wrong.
        text = self.text if self.source is None else self.source
        return "intrinsic" in text or "partition" in text

    @property
    def may_hold_escapes(self) -> bool:
        """Whether characters may have been written as escapes: half of a surrogate pair comes in no other way."""
        return self.source is None or "\\u" in self.source

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Canonical) and type(self) is type(other) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


class Delta(Canonical[tree.Delta]):
    """A change of a document. Immutable; equal to every delta of the same canonical text.

    Safe to use from several threads.
    """

    __slots__ = ()

    def apply(self, value: Json | Undefined, about: Intrinsics = UNKNOWN) -> Json | Undefined:
        """What it makes of a value or of UNDEFINED: UNDEFINED where it deletes. Never raises.

        The value stays as it is, though the result shares parts with it and with the delta: change neither.
        """
        return apply(self.tree, value, about)


class Condition(Canonical[tree.Condition]):
    """What may hold of a value. Immutable; equal to every condition of the same canonical text.

    `matches(value)` knows nothing but the value; `matches_about(value, about)` the document's intrinsics too. Both
    take UNDEFINED, never raise, and are safe to call from several threads.
    """

    __slots__ = ()

    def matches(self, value: Json | Undefined) -> bool:
        """Whether it holds of a value of which no intrinsics are known: they are null, `~deleted` false."""
        return holds(self.tree, value, UNKNOWN)

    def matches_about(self, value: Json | Undefined, about: Intrinsics) -> bool:
        """Whether it holds of a value of a document with these intrinsics."""
        return holds(self.tree, value, about)


def parse_delta(text: str) -> Delta:
    """The delta that the text spells. Raises `DocumentError` with reason `bad delta`."""
    return _cached_delta(text) if len(text) <= CACHED_TEXT_CHARS_MAX else Delta(read_delta(text), text)


def compile_condition(text: str) -> Condition:
    """The condition that the text spells. Raises `DocumentError` with reason `bad condition`."""
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
