"""Applies writes to the documents of a topic: to their content and their metadata. Pure."""

from typing import Any, NamedTuple

import orjson

from materializer.core.record import Record
from sowline.config.topic_definition import TopicDefinition
from sowline.emodb import UNDEFINED, Delta, parse_delta
from sowline.emodb.fold import (
    DocumentDelta,
    FoldOutcome,
    change_id_of_position,
    change_id_of_writer,
    fold,
)
from sowline.emodb.tree import LiteralDelta
from sowline.emodb.writes import Writes, document_of
from sowline.errors import SowlineError
from sowline.model.key import require_same_key
from sowline.protocol.command import Command, LogRecord, Origin

LEVELS_MAX = 254
"""The maximum depth of a document, so that its body can be written."""

DELETION = parse_delta("~")


class DocumentWrite(NamedTuple):
    """A document after a write: its body, None if it is deleted, its metadata, and the outcome of the write.

    `outcome` is None if the content changed.
    """

    body: bytes | None
    writes: Writes
    outcome: str | None


class Documents:
    """Applies the writes to the documents of one topic. The template's fields override those that are written."""

    def __init__(self, definition: TopicDefinition) -> None:
        self._table = definition.name
        self._key_paths = definition.key_paths
        self._template: dict[str, Any] = definition.template

    def written(self, text: str, current: Record | None, write: DocumentDelta) -> DocumentWrite:
        """Apply a write to the document with this key text; raise SowlineError if the write is not allowed."""
        content = UNDEFINED if current is None or current.body is None else orjson.loads(current.body)
        before = document_of(self._table, text, content, None if current is None else current.writes)
        folded = fold(before, write, self._template)
        after = folded.document.content
        outcome = None if folded.outcome is FoldOutcome.APPLIED else folded.outcome.value
        writes = Writes.of(folded, write.change_id)
        if after is UNDEFINED:
            return DocumentWrite(None, writes, outcome)
        if outcome is not None:
            assert current is not None, "what has not changed was there"
            return DocumentWrite(current.body, writes, outcome)
        require_same_key(after, self._key_paths, text)
        return DocumentWrite(_body_of(after), writes, outcome)


def _body_of(content: Any) -> bytes:
    try:
        return orjson.dumps(content)
    except orjson.JSONEncodeError as error:
        raise SowlineError(
            "too deep", f"expected at most {LEVELS_MAX} levels of objects and arrays in a document: {error}"
        ) from error


def write_of(delta: Delta, record: LogRecord, command: Command, partition: int, time: int) -> DocumentDelta:
    """Return the write that a log record makes: its id is the writer's, or its first position."""
    if command.change_id is not None:
        change_id = change_id_of_writer(command.change_id)
    else:
        first = command.origin.source if command.origin is not None else Origin(partition, record.offset)
        change_id = change_id_of_position(*first)
    return DocumentDelta(delta, change_id, time, frozenset(command.tags))


def delta_of(value: bytes | None) -> Delta:
    """Return the delta in a log record; raise `bad delta`."""
    try:
        return parse_delta((value or b"").decode())
    except UnicodeDecodeError as error:
        raise SowlineError("bad delta", f"expected UTF-8: {error}") from error


def literal(document: Any) -> Delta:
    """Return the delta that writes a document as it was read from a body."""
    return Delta(LiteralDelta(document), source="")
