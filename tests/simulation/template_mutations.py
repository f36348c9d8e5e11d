"""Mistakes in what changes the template of documents."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from sowline_materializer.core.batch_state import BatchState
from sowline_materializer.core.definer import Definer
from sowline_materializer.core.document_writer import DocumentWriter
from sowline_materializer.core.documents import Documents
from tests.simulation.mistake import Mistake, mistakes_in

_read_again = Definer._read_again
_read_with = Documents.read_with
_to_read_again = DocumentWriter.to_read_again


def _template_recorded_with_the_first_portion() -> list[Any]:
    def read_again(self: Definer, record: Any, command: Any, limits: Any) -> bool:
        is_last = _read_again(self, record, command, limits)
        self._state.limits = limits
        return is_last

    return [patch.object(Definer, "_read_again", read_again)]


def _document_left_out() -> list[Any]:
    def to_read_again(self: DocumentWriter, *given: Any) -> Iterator[Any]:
        found = _to_read_again(self, *given)
        next(found, None)
        return found

    return [patch.object(DocumentWriter, "to_read_again", to_read_again)]


def _template_without_the_event_that_ends_it() -> list[Any]:
    return [patch.object(BatchState, "end_without_change", lambda self: None)]


def _template_of_a_killed_owner_begins_again() -> list[Any]:
    def to_read_again(self: DocumentWriter, *given: Any) -> Iterator[Any]:
        if self._state.first_key:
            return _to_read_again(self, *given)
        with patch.object(self._state, "resumed", new=False):
            return iter(list(_to_read_again(self, *given)))

    return [patch.object(DocumentWriter, "to_read_again", to_read_again)]


def _hidden_fields_lost() -> list[Any]:
    return [patch("sowline_materializer.core.documents.hidden_by", lambda template, content: {})]


def _reading_the_same_left_out() -> list[Any]:
    def read_with(self: Documents, template: Any, current: Any) -> Any:
        made = _read_with(self, template, current)
        return None if made is None or made.body == current.body else made

    return [patch.object(Documents, "read_with", read_with)]


TEMPLATE_MISTAKES: dict[str, Mistake] = mistakes_in(globals())
