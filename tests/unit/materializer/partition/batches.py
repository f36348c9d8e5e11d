"""A partition that applies and commits batches of log records."""

from dataclasses import replace
from typing import Any

import pytest

from sowline.changes.event import Event
from sowline.commands.command import LogRecord
from sowline.config.topic_definition import define_topic
from sowline.model.position import Position
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.partition import Partition
from tests.memory_store import MemoryStore

DEFINITION = define_topic(name="orders", key="/id", repeat_window="100ms")


def opened(store: MemoryStore, **given: Any) -> OpenedPartition[MemoryStore]:
    """Return a store as a recovery hands it over."""
    data = store.checkpoint()
    begin = Checkpoint(definition=DEFINITION.digest, limits=DEFINITION.limits, log_id="log")
    checkpoint = begin if data is None else Checkpoint.decode(data)
    emitted_to = given.pop("emitted_to", checkpoint.position)
    return OpenedPartition(store, replace(checkpoint, **given), emitted_to)


@pytest.fixture
def store() -> MemoryStore:
    """A new store."""
    return MemoryStore()


@pytest.fixture
def partition(store: MemoryStore) -> Partition:
    """A partition that has applied nothing."""
    return Partition(DEFINITION, 0, opened(store))


def record(offset: int, value: bytes | None, time: int = 0, **headers: str) -> LogRecord:
    """Return a log record with headers of ours."""
    return LogRecord(offset, time, None, value, [(f"sow.{k}", v.encode()) for k, v in headers.items()])


def run(partition: Partition, *records: LogRecord, changes_end: int = 0) -> list[Event]:
    """Apply and commit a batch; return its events."""
    prepared = partition.prepare(records, 100)
    partition.commit(prepared, changes_end)
    return prepared.events


def positions(events: list[Event]) -> list[tuple[str, Position]]:
    """Return what kind each event is, and where it stands."""
    return [(type(event).__name__, event.position) for event in events]
