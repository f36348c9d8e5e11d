"""Writes to the documents of a topic: what becomes of their content and of the account of their writes. Pure."""

from typing import Any, NamedTuple

import orjson

from materializer.record import Record
from sowline.command import Command, LogRecord
from sowline.document import UNDEFINED, Delta, parse_delta
from sowline.document.fold import (
    Outcome,
    Write,
    change_id_of_position,
    change_id_of_writer,
    fold,
)
from sowline.document.tree import Literal
from sowline.document.writes import Writes, document_of
from sowline.errors import SowlineError
from sowline.key import require_same_key
from sowline.topics import TopicDefinition

LEVELS_MAX = 254
"""Of a document: what writes its body goes no deeper."""

DELETION = parse_delta("~")


class Written(NamedTuple):
    """A document after a write: its body, None if it is gone, the account of its writes, and what became of this one.

    `outcome` is None where the content changed.
    """

    body: bytes | None
    writes: Writes
    outcome: str | None


class Documents:
    """Folds the writes to the documents of one topic. The template's fields lie over whatever is written."""

    def __init__(self, definition: TopicDefinition) -> None:
        self._table = definition.name
        self._key_paths = definition.key_paths
        self._template: dict[str, Any] = definition.template

    def written(self, text: str, current: Record | None, write: Write) -> Written:
        """Fold a write into the document with this key text; raises SowlineError where it may not be made."""
        content = UNDEFINED if current is None or current.body is None else orjson.loads(current.body)
        before = document_of(self._table, text, content, None if current is None else current.writes)
        folded = fold(before, write, self._template)
        after = folded.document.content
        outcome = None if folded.outcome is Outcome.APPLIED else folded.outcome.value
        writes = Writes.of(folded, write.change_id)
        if after is UNDEFINED:
            return Written(None, writes, outcome)
        if outcome is not None:
            assert current is not None, "what has not changed was there"
            return Written(current.body, writes, outcome)
        require_same_key(after, self._key_paths, text)
        return Written(_body_of(after), writes, outcome)


def _body_of(content: Any) -> bytes:
    try:
        return orjson.dumps(content)
    except orjson.JSONEncodeError as error:
        raise SowlineError(
            "too deep", f"expected at most {LEVELS_MAX} levels of objects and arrays in a document: {error}"
        ) from error


def write_of(delta: Delta, record: LogRecord, command: Command, partition: int, time: int) -> Write:
    """Return the write that a log record makes: its id is the writer's, or the place where it was first written."""
    if command.change_id is not None:
        change_id = change_id_of_writer(command.change_id)
    else:
        change_id = change_id_of_position(*(command.origin or (partition, record.offset)))
    return Write(delta, change_id, time, frozenset(command.tags))


def delta_of(value: bytes | None) -> Delta:
    """Return the delta that a log record spells; raises `bad delta`."""
    try:
        return parse_delta((value or b"").decode())
    except UnicodeDecodeError as error:
        raise SowlineError("bad delta", f"expected UTF-8: {error}") from error


def literal(document: Any) -> Delta:
    """Return the delta that writes a document as it was read from a body."""
    return Delta(Literal(document), source="")
