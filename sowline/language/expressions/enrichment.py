"""Computes fields of an incoming message: in preprocessing, before its key is known, or in enrichment, after it.

A field is `expression AS /path` with optional hints, in the language of filters. A stage is a list of fields. It is a
pure function of the message, its metadata and, in enrichment, the record's previous body. `docs/enrichment.md`
specifies both stages.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import orjson

from sowline.errors import SowlineError
from sowline.language.expressions.projection import AGGREGATES
from sowline.language.filter import FilterError, Metadata
from sowline.language.filter.check import check
from sowline.language.filter.closures import Evaluate
from sowline.language.filter.determinism import with_time
from sowline.language.filter.envelope import PREVIOUS, enveloped, needs_about
from sowline.language.filter.envelope_condition import DOCUMENT
from sowline.language.filter.expression import compile_tree
from sowline.language.filter.functions import FUNCTIONS
from sowline.language.filter.parse import parse_enriched
from sowline.language.filter.printer import text_of
from sowline.language.filter.tree import Call, Field, FieldOf, Node, rebuilt, walk
from sowline.model.json_parts import Part
from sowline.model.merge import merge, take_out
from sowline.model.path import Document, Path, Value

CHARS_MAX = 16 * 1024
"""The maximum number of characters in one field."""
FIELDS_MAX = 64
"""The maximum number of fields in one stage."""
OUTPUT_LEVELS_MAX = 32

_TIME = frozenset({"UNIX_TIMESTAMP", "TODAY", "TODAY_UTC"})
_FACTS_BEFORE_THE_KEY = frozenset({"topic", "size", "correlation"})
_FACTS = _FACTS_BEFORE_THE_KEY | {"sow_key", "sow_key_hash", "bookmark", "updated"}
_NOW = "now"

Output = tuple[str, ...]
"""The path of a computed field, as names."""


class EnrichmentError(SowlineError):
    """A text is not a valid field of a stage. `column` (1-based) is the position of the error in the text."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__("bad configuration", message)
        self.column = column


@dataclass(frozen=True, slots=True)
class ComputedField:
    """One field: the expression's tree, the path for its value, and its hints."""

    expression: Node
    output: Output
    optional: bool = False
    """Whether NULL is left out instead of written as null."""
    set_current: bool = False
    """Whether later fields see the value."""

    @property
    def text(self) -> str:
        """The canonical text, which `parse_preprocessing` or `parse_enrichment` reads back."""
        hints = " HINT OPTIONAL" * self.optional + " HINT SET_CURRENT" * self.set_current
        return f"{text_of(self.expression)} AS {Path(self.output)}{hints}"


class Stage:
    """The compiled fields of one stage. Immutable; stages with the same fields are equal."""

    __slots__ = ("_steps", "fields", "needs_about", "needs_previous")

    fields: tuple[ComputedField, ...]
    needs_previous: bool
    """Whether a field uses the record's previous body."""
    needs_about: bool
    """Whether a field uses metadata of the message or of its record."""

    def __init__(self, fields: Iterable[ComputedField]) -> None:
        """Compile parsed fields, of which no two outputs are `overlapping`."""
        self.fields = tuple(fields)
        nodes = (node for field in self.fields for node in walk(field.expression))
        self.needs_previous = any(isinstance(node, FieldOf) for node in nodes)
        self.needs_about = any(needs_about(field.expression) for field in self.fields)
        self._steps = [
            _StageStep(field, compile_tree(_computable(field.expression))) for field in self.fields
        ]

    def apply(
        self,
        body: bytes,
        document: Document,
        about: Metadata,
        now: float | None = None,
        previous: Document | None = None,
    ) -> bytes:
        """Return the body, a valid JSON object, with the computed fields. All others keep their exact text.

        The arguments are those of `computed`.
        """
        gone, delta = self.computed(document, about, now, previous)
        if gone:
            body = take_out(body, gone)
        return merge(body, orjson.dumps(delta)) if delta else body

    def computed(
        self,
        document: Document,
        about: Metadata,
        now: float | None = None,
        previous: Document | None = None,
    ) -> tuple[list[str], Document]:
        """Return the paths of the fields to take out of a body, and the computed fields to merge into it then.

        `document` is the parsed body; the method changes it in the same way. `about` counts only with `needs_about`.
        `now` is the time for functions of time, in seconds since 1970. `previous` is the record's previous body: only
        enrichment can use it.
        """
        envelope: dict[str, Any] = {_NOW: now, DOCUMENT: document, PREVIOUS: previous or {}}
        # The ten facts take a quarter of the time of a computed field, and few fields use one.
        if self.needs_about:
            envelope.update(about._asdict())
        results: list[tuple[_StageStep, Value]] = []
        gone: list[str] = []
        for step in self._steps:
            value = _writable(step.value_of(envelope))
            results.append((step, value))
            if step.set_current and step.change(document, value):
                gone.append(step.path)
        for step, value in results:
            # Set only now: until here, the other fields saw the message without them.
            if not step.set_current and step.change(document, value):
                gone.append(step.path)
        delta: Document = {}
        for step, value in results:
            step.change(delta, value)
        return gone, delta

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stage) and self.fields == other.fields

    def __hash__(self) -> int:
        return hash(self.fields)

    def __reduce__(self) -> tuple[type["Stage"], tuple[tuple[ComputedField, ...]]]:
        # Closures can't be pickled: compile the fields again.
        return Stage, (self.fields,)


class _StageStep:
    """A field, compiled."""

    __slots__ = ("above", "name", "optional", "path", "set_current", "value_of")

    def __init__(self, field: ComputedField, value_of: Evaluate) -> None:
        *self.above, self.name = field.output
        self.path = str(Path(field.output))
        self.optional = field.optional
        self.set_current = field.set_current
        self.value_of = value_of

    def change(self, document: Document, value: Value) -> bool:
        """Set the field in the document, or remove it if optional and NULL; return whether a field was removed."""
        if value is None and self.optional:
            return self._remove(document)
        for name in self.above:
            below: Part = document.get(name)
            if not isinstance(below, dict):
                below = document[name] = {}
            document = below
        document[self.name] = value
        return False

    def _remove(self, document: Document) -> bool:
        for name in self.above:
            below: Part = document.get(name)
            if not isinstance(below, dict):
                return False
            document = below
        there = self.name in document
        document.pop(self.name, None)
        return there


def _writable(value: Value) -> Value:
    """Return the value for JSON: None for NaN and infinities."""
    return None if isinstance(value, float) and not isfinite(value) else value


def _computable(node: Node) -> Node:
    """Return the tree for an envelope that also has the time."""
    # The time is given, not read from a clock: a replay computes the same values.
    return with_time(enveloped(node), Field(Path((_NOW,))))


def parse_preprocessing(text: str) -> ComputedField:
    """Return one field of preprocessing; raise `EnrichmentError`."""
    return _parsed(text, before_the_key=True)


def parse_enrichment(text: str) -> ComputedField:
    """Return one field of enrichment; raise `EnrichmentError`."""
    return _parsed(text, before_the_key=False)


def _parsed(text: str, before_the_key: bool) -> ComputedField:
    if len(text) > CHARS_MAX:
        raise EnrichmentError(
            f"expected a field of at most {CHARS_MAX} characters, got {len(text)}", CHARS_MAX + 1
        )
    try:
        written = parse_enriched(text)
        _check(written.expression, before_the_key)
    except FilterError as error:
        raise EnrichmentError(error.message, error.column) from None
    output = _output(written.path, written.column)
    # Fields are compared by their texts: without this, `/a OF CURRENT` and `/a` would be two topics
    # (test_the_digest_compares_what_computed_fields_mean).
    expression = _plain(written.expression)
    return ComputedField(expression, output, "OPTIONAL" in written.hints, "SET_CURRENT" in written.hints)


def _plain(node: Node) -> Node:
    """Return the tree in canonical form: `OF CURRENT` is the default, so it is dropped."""
    if isinstance(node, FieldOf) and node.state == "CURRENT":
        return Field(node.path)
    return rebuilt(node, _plain)


def _stateless(node: Node) -> Node:
    """Return the tree without `OF PREVIOUS` and `OF CURRENT`, so that it can be checked like a filter."""
    return Field(node.path) if isinstance(node, FieldOf) else rebuilt(node, _stateless)


def _check(tree: Node, before_the_key: bool) -> None:
    calls = [node for node in walk(tree) if isinstance(node, Call)]
    for call in calls:
        # Before `check`, which would call an aggregate an unknown function.
        if call.name in AGGREGATES:
            raise EnrichmentError(
                f"expected a function of one message at column {call.column}, got the aggregate {call.name}",
                call.column,
            )
    check(_stateless(tree))
    for call in calls:
        _check_call(call, before_the_key)
    for node in walk(tree):
        if isinstance(node, FieldOf) and node.state == "PREVIOUS" and before_the_key:
            raise EnrichmentError(
                f"expected a path of the message at column {node.column}, got {text_of(node)}: the record is"
                " not known before enrichment",
                node.column,
            )


def _check_call(call: Call, before_the_key: bool) -> None:
    function = FUNCTIONS[call.name]
    answers = call.name in _TIME or (function.deterministic and function.fact is None)
    if not (answers or function.fact in _FACTS):
        raise EnrichmentError(
            f"expected a function that gives the same result on every replay at column {call.column},"
            f" got {call.name}",
            call.column,
        )
    early = call.name not in _TIME and (function.fact is None or function.fact in _FACTS_BEFORE_THE_KEY)
    if before_the_key and not early:
        raise EnrichmentError(
            f"expected a function of the message alone at column {call.column}, got {call.name}, which only"
            " enrichment can use",
            call.column,
        )


def _output(path: Path, column: int) -> Output:
    names = tuple(step for step in path.steps if isinstance(step, str))
    if len(names) < len(path.steps):
        raise EnrichmentError(f"expected a path of names only at column {column}, got {path}", column)
    if len(names) > OUTPUT_LEVELS_MAX:
        raise EnrichmentError(
            f"expected a path of at most {OUTPUT_LEVELS_MAX} names at column {column}, got {len(names)}",
            column,
        )
    return names


def overlapping(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two paths are the same field, or one contains the other."""
    return all(ours == theirs for ours, theirs in zip(one, other, strict=False))
