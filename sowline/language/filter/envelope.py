"""Compiles filters that use a record's metadata, by rewriting them into filters on an envelope.

An envelope is a dict with the record's document and each fact about it. In the rewritten filter a message function
is a field of the envelope, and a path of the document is one level further down. So the compiler for documents also
compiles these filters, shortcuts included, and calls share no state. In enrichment, the envelope also has the
record's previous body.
"""

from collections.abc import Callable
from typing import TypeVar

from sowline.language.filter.envelope_condition import DOCUMENT, TAGS
from sowline.language.filter.functions import FUNCTIONS
from sowline.language.filter.metadata import Metadata
from sowline.language.filter.tree import Call, Field, FieldOf, Meets, Node, rebuilt, walk
from sowline.model.path import Document, Path

PREVIOUS = "previous"

_STATES = {"CURRENT": DOCUMENT, "PREVIOUS": PREVIOUS}

_HASHED = {"sow_key_hash": "sow_key"}
"""Facts that are the hash of another fact."""

Result = TypeVar("Result")


def needs_about(tree: Node) -> bool:
    """Return whether the tree uses metadata in addition to the document."""
    return any(_needs_metadata(node) if isinstance(node, Meets) else _fact(node) for node in walk(tree))


def about_facts(
    of_document: Callable[[Document], Result],
    compiled: Callable[[Node], Callable[[Document], Result]],
    tree: Node,
) -> Callable[[Document, Metadata], Result]:
    """Return the closure of a tree for a document and its metadata; `of_document` is its closure for documents."""
    if not needs_about(tree):
        return lambda document, about: of_document(document)
    of_envelope = compiled(enveloped(tree))

    def of_both(document: Document, about: Metadata) -> Result:
        # A new envelope for each call: threads share the compiled filter (test_threads_share_a_filter).
        envelope = about._asdict()
        envelope[DOCUMENT] = document
        return of_envelope(envelope)

    return of_both


def enveloped(node: Node) -> Node:
    """Return the tree for an envelope: a dict with the members of `Metadata`, `DOCUMENT` and, if used, `PREVIOUS`."""
    if isinstance(node, FieldOf):
        return Field(Path((_STATES[node.state], *node.path.steps)))
    if isinstance(node, Field):
        return Field(Path((DOCUMENT, *node.path.steps)))
    if isinstance(node, Meets):
        return Meets(node.condition, in_envelope=True)
    fact = _fact(node)
    if fact is None:
        return rebuilt(node, enveloped)
    if fact in _HASHED:
        return Call("CRC64", (Field(Path((_HASHED[fact],))),))
    return Field(Path((fact,)))


def _needs_metadata(node: Meets) -> bool:
    return node.condition.needs_about or TAGS in node.condition.text


def _fact(node: Node) -> str | None:
    """Return the name of the fact if the node is a message function, else None."""
    return FUNCTIONS[node.name].fact if isinstance(node, Call) and node.name in FUNCTIONS else None
