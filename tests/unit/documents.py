"""A server of documents: what is written is applied as the materializer does, and its changes arrive at once."""

from typing import Any

from materializer.core import Applier
from materializer.head import Head
from materializer.store import MemoryStore
from materializer.view import View
from sowline.change import Change
from sowline.command import LogRecord
from sowline.position import Position
from tests.unit.sessions import Server

BEGIN = Position(0, -1)


class Documents(Server):
    """One topic `orders` of documents, whose ids are key texts."""

    def __init__(self, more: str = "", **given: Any) -> None:
        super().__init__(
            definition=f"{{name: orders, key: /id, documents: true, resume_window: 1h{more}}}", **given
        )
        self._definition = self.topic.definition
        self._head = Head(BEGIN, BEGIN, limits=self._definition.limits)
        self._store = MemoryStore()
        self.loaded()

    def write(self, value: bytes | None, id: str, **headers: str) -> list[Change]:
        """Write a command, ten seconds after the one before; return its changes, which have arrived."""
        view = View(self._store)
        named = [(f"sow.{name}", text.encode()) for name, text in headers.items()]
        offset = self._head.next_offset
        record = LogRecord(offset, offset * 10_000, id.encode(), value, named)
        step = Applier(self._definition, 0, self._head, view).apply([record])
        made = view.written(self._store.tally())
        self._store.commit(made.entries, made.tally, step.head.encode(), made.dues)
        self._head = step.head
        assert step.dead == []
        for change in step.changes:
            self.take(change)
        return list(step.changes)

    def delta(self, id: str, text: str, **headers: str) -> Change:
        """Write a delta."""
        (change,) = self.write(text.encode(), id, command="delta", **headers)
        return change
