"""A partition of documents in the pure core, which tests write to record by record."""

from typing import Any

from sowline.changes.change import Change
from sowline.changes.event import read_event
from sowline.commands.command import Headers, LogRecord
from sowline.config.topic_definition import define_topic
from sowline.model.position import Position
from sowline_materializer.core.applier import Applier
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.step import Step
from sowline_materializer.store.overlay import Overlay
from tests.memory_store import MemoryStore

GIVEN: dict[str, Any] = {"name": "reviews", "key": "/id", "documents": True}
START = Position(0, -1)


class DocumentLog:
    """A partition of documents, written to record by record."""

    def __init__(self, **more: Any) -> None:
        self.definition = define_topic(**{**GIVEN, **more})
        self.checkpoint = Checkpoint(START, START, limits=self.definition.limits)
        self.store = MemoryStore()

    def write(self, value: bytes | None, key: bytes | None = b"a", **headers: str) -> Step:
        """Apply one log record, a second after the one before, and keep what it makes."""
        view = Overlay(self.store)
        named: Headers = [(f"sow.{name}", text.encode()) for name, text in headers.items()]
        offset = self.checkpoint.next_offset
        record = LogRecord(offset, offset * 1000, key, value, named)
        step = Applier(self.definition, 0, self.checkpoint, view).apply([record])
        written = view.written(self.store.checksum())
        self.store.commit(written.entries, written.checksum, step.checkpoint.encode(), written.expiries)
        self.checkpoint = step.checkpoint
        return step

    def change(self, value: bytes | None, key: bytes | None = b"a", **headers: str) -> Change:
        """Write, and return the one change that it makes, as readers of Kafka get it."""
        (change,) = self.write(value, key, **headers).changes
        assert read_event(change.sow_key, change.value, change.headers()) == change
        return change

    def delta(self, text: str, key: bytes | None = b"a", **headers: str) -> Change:
        """Write a delta."""
        return self.change(text.encode(), key, command="delta", **headers)

    def refused(self, value: bytes | None, key: bytes | None = b"a", **headers: str) -> str:
        """Write what is refused, and return why."""
        step = self.write(value, key, **headers)
        assert step.changes == []
        return step.dead[0].reason
