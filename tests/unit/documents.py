"""A server of documents: what is written is applied as the materializer does, and its changes arrive at once."""

from dataclasses import replace
from typing import Any

from sowline.changes.change import Change
from sowline.commands.command import Headers, LogRecord
from sowline.model.limits import define_value
from sowline.model.position import Position
from sowline_materializer.core.applier import Applier
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.store.overlay import Overlay
from tests.memory_store import MemoryStore
from tests.unit.query_service.sessions import Server

BEGIN = Position(0, -1)


class Documents(Server):
    """One topic `orders` of documents, whose ids are key texts."""

    def __init__(self, more: str = "", **given: Any) -> None:
        super().__init__(
            definition=f"{{name: orders, key: /id, documents: true, resume_window: 1h{more}}}", **given
        )
        self._definition = self.topic.definition
        self._head = Checkpoint(BEGIN, BEGIN, limits=self._definition.limits)
        self._store = MemoryStore()
        self.loaded()

    def write(self, value: bytes | None, id: str | None, **headers: str) -> list[Change]:
        """Write a command, ten seconds after the one before; return its changes, which have arrived."""
        view = Overlay(self._store)
        named: Headers = [(f"sow.{name}", text.encode()) for name, text in headers.items()]
        offset = self._head.next_offset
        key = None if id is None else id.encode()
        record = LogRecord(offset, offset * 10_000, key, value, named)
        step = Applier(self._definition, 0, self._head, view).apply([record])
        made = view.written(self._store.checksum())
        self._store.commit(made.entries, made.checksum, step.checkpoint.encode(), made.expiries)
        self._head = step.checkpoint
        assert step.dead == []
        for change in step.changes:
            self.take(change)
        return list(step.changes)

    def define(self, template: str | None) -> list[Change]:
        """Let the owner define another template; return its changes."""
        held = self._head.limits
        return self.write(define_value(held, replace(held, template=template)), None, command="define")

    def delta(self, id: str, text: str, **headers: str) -> Change:
        """Write a delta."""
        (change,) = self.write(text.encode(), id, command="delta", **headers)
        return change
