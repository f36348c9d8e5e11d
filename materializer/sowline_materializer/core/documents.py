"""Applies writes to the documents of a topic: to their content and their metadata. Pure."""

from typing import Any, NamedTuple

import msgspec
import orjson

from sowline.commands.command import Command, LogRecord, Origin
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.language.emodb import UNDEFINED, Delta, Undefined, parse_delta
from sowline.language.emodb.fold import (
    DocumentDelta,
    FoldOutcome,
    change_id_of_position,
    change_id_of_writer,
    fold,
)
from sowline.language.emodb.template import hidden_by, own_content, read_template, read_with
from sowline.language.emodb.tree import LiteralDelta
from sowline.language.emodb.values import same
from sowline.language.emodb.writes import Writes, document_of
from sowline.model.body import write_body
from sowline.model.key import require_same_key
from sowline.model.nesting import check_nesting
from sowline_materializer.core.record import Record

LEVELS_MAX = 254
"""The maximum depth of a document. Every replay has to refuse the same writes, so it is not that of a library."""

DELETION = parse_delta("~")


class DocumentWrite(NamedTuple):
    """A document after a write: its body, None if it is deleted, its metadata, and the outcome of the write.

    `outcome` is None if the content changed. `size_bytes` counts the body and the fields that the template hides.
    """

    body: bytes | None
    writes: Writes
    outcome: str | None
    size_bytes: int = 0


class Documents:
    """Applies the writes to the documents of one topic. Bodies have the fields of a template, which no write sees.

    The template is that of `Limits`, as text.
    """

    def __init__(self, definition: TopicDefinition, template: str | None) -> None:
        self._table = definition.name
        self._key_paths = definition.key_paths
        self._template = read_template(template)

    def content(self, current: Record | None) -> dict[str, Any] | Undefined:
        """Return the content of a document, without the template; UNDEFINED if it was deleted or never written."""
        if current is None or current.body is None:
            return UNDEFINED
        read: dict[str, Any] = orjson.loads(current.body)
        # A state of an earlier version has no hidden fields: the template had replaced them
        # (test_a_state_of_an_earlier_version_is_read_without_the_template).
        hidden = None if current.writes is None else current.writes.hidden
        return own_content(read, hidden or {}, self._template) if self._template else read

    def content_text(self, current: Record | None) -> bytes | None:
        """Return the content of a document as JSON; None if it was deleted or never written."""
        if not self._template or current is None or current.body is None:
            return None if current is None else current.body
        return write_body(self.content(current))

    def read_with(self, template: str | None, current: Record) -> DocumentWrite | None:
        """Return a live document as it reads with another template; None if nothing of it is stored otherwise."""
        assert current.writes is not None, "a document has metadata"
        assert current.body is not None, "a deleted document is not read"
        fields = read_template(template)
        content = self.content(current)
        assert content is not UNDEFINED, "it is live"
        read, hidden = read_with(content, fields), hidden_by(fields, content) or None
        # The hidden fields count, even if the document reads the same. With `{"a": 1}`, a template that begins to set
        # a to 1 hides the field. Without it, a later template without a would leave the document without a
        # (test_a_field_that_a_template_repeats_comes_back).
        reads_the_same = same(read, orjson.loads(current.body))
        if reads_the_same and same(hidden, current.writes.hidden):
            return None
        # The last write may have been redundant. The change that this makes is not: subscribers with `no_redundant`
        # get it (test_a_change_of_the_template_is_not_redundant).
        writes = msgspec.structs.replace(current.writes, hidden=hidden, redundant=False)
        body = current.body if reads_the_same else _body_of(read)
        return DocumentWrite(body, writes, None, len(body) + (len(_body_of(hidden)) if hidden else 0))

    def written(self, text: str, current: Record | None, write: DocumentDelta) -> DocumentWrite:
        """Apply a write to the document with this key text; raise SowlineError if the write is not allowed."""
        writes = None if current is None else current.writes
        folded = fold(document_of(self._table, text, self.content(current), writes), write)
        after = folded.document.content
        outcome = None if folded.outcome is FoldOutcome.APPLIED else folded.outcome.value
        now = Writes.of(folded, write.change_id, self._template)
        if after is UNDEFINED:
            return DocumentWrite(None, now, outcome)
        hidden = len(_body_of(now.hidden)) if now.hidden else 0
        if outcome is not None:
            assert current is not None, "what has not changed was there"
            assert current.body is not None, "what has not changed was there"
            return DocumentWrite(current.body, now, outcome, len(current.body) + hidden)
        # A delta may change a key field: the document would then be stored under the key of another one.
        require_same_key(after, self._key_paths, text)
        body = _body_of(read_with(after, self._template) if self._template else after)
        return DocumentWrite(body, now, outcome, len(body) + hidden)


def size_of(current: Record) -> int:
    """Return the size of a live document that limits count: its body, and the fields that the template hides."""
    hidden = None if current.writes is None else current.writes.hidden
    return len(current.body or b"") + (len(write_body(hidden)) if hidden else 0)


def _body_of(content: Any) -> bytes:
    body = write_body(content)
    check_nesting(body, LEVELS_MAX)
    return body


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
