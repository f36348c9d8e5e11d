"""Partitions of the native core and of Python's, and what both make of the same log records."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from sowline.changes.progress import Progress
from sowline.codecs.resolutions import Resolution, Resolutions, entry_value, id_key, reader_key
from sowline.codecs.typed_bodies import TypedBodies
from sowline.commands.command import LogRecord
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.model.log_time import LOG_APPEND_TIME
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.partition import Partition, Prepared
from sowline_materializer.store.cache import RecordCache
from sowline_materializer.store.integrity import survey
from sowline_materializer.store.write_behind import WriteBehindStore
from tests.memory_store import MemoryStore
from tests.property.log_inputs import Sent

native: Any = pytest.importorskip("sowline_native")

CACHES = (0, 300, 2_000, 1 << 20)
"""Bytes for records in memory: none stays after a commit, one or two do, or all."""


def partition_of(
    definition: TopicDefinition,
    module: Any,
    cache: RecordCache | None = None,
    disk: MemoryStore | None = None,
) -> tuple[Partition, MemoryStore]:
    """Return a partition with nothing in it, except for what `disk` has."""
    disk = disk or MemoryStore()
    checkpoint = Checkpoint(definition=definition.digest, limits=definition.limits, log_id="log")
    opened = OpenedPartition(disk, checkpoint, checkpoint.position)
    store = WriteBehindStore(disk, module)
    return Partition(definition, 0, opened, cache, store, module, bodies_of(definition)), disk


def bodies_of(definition: TopicDefinition) -> TypedBodies | None:
    """Return what reads the messages of a topic; None for JSON.

    Schema 1 is the reader schema, and schema 2 does not exist.
    """
    reader, resolutions = definition.reader, Resolutions()
    if reader is None:
        return None
    resolutions.add(reader_key(reader.digest), entry_value(Resolution(reader)))
    resolutions.add(id_key(1), entry_value(Resolution(reader)))
    resolutions.add(id_key(2), entry_value(Resolution(None)))
    return TypedBodies(reader.type, definition.framing, resolutions)


def log_records(records: Sequence[tuple[Any, ...]]) -> Any:
    """Return log records as the native core reads them."""
    return native.LogRecords([native.LogRecord(*record) for record in records])


def output_of(definition: TopicDefinition, prepared: Prepared) -> Any:
    """Return all that a batch writes to Kafka."""
    step, declared, keys = prepared.step, definition.declared, definition.key_fields
    events = [
        (event.key, event.value(), None)
        if isinstance(event, Progress)
        else (event.sow_key, event.value, event.headers(event.delta(keys) if declared.delta else None))
        for event in prepared.events
    ]
    ops = [(change.op, change.position, change.previous) for change in step.changes]
    dead = [(fields_of(letter.record), letter.reason, letter.message) for letter in step.dead]
    forwards = [(one.partition, fields_of(one.record), one.origin) for one in step.forwards]
    return (
        events,
        ops,
        list(step.outcomes.items()),
        dead,
        forwards,
        step.unreported,
        step.tombstones,
        step.commands,
    )


def state_of(disk: MemoryStore) -> Any:
    """Return all that a store holds."""
    return disk.checkpoint(), disk.checksum(), dict(disk.scan()), list(disk.expiries())


def apply_alike(one: Partition, other: Partition, records: list[tuple[Any, ...]], end: int) -> Prepared:
    """Let the native core and Python's apply the same log records and commit them; return what the native core made.

    `end` is the end of the changes before. Raise AssertionError where the cores differ.
    """
    mine = one.prepare(log_records(records), 100)
    expected = other.prepare([LogRecord(*record) for record in records], 100)
    assert output_of(one.definition, mine) == output_of(one.definition, expected), "events"
    for partition, prepared in ((one, mine), (other, expected)):
        partition.commit(prepared, end + len(mine.events))
    assert one.checkpoint == other.checkpoint, "checkpoints"
    return mine


def fields_of(record: LogRecord) -> Any:
    """Return the fields of a log record of either kind."""
    return record.offset, record.time, record.key, record.value, record.headers, record.time_type


def check(
    limits: dict[str, Any],
    sent: list[Sent],
    cuts: list[int],
    discarded: bool,
    producers: dict[int, tuple[int, int]] | None = None,
    kafka_keys: Sequence[bytes | None] = (None,),
) -> None:
    """Apply log records with both cores, and compare all that they write.

    `producers` has the times of log records that are not the broker's, by offset. The log records have the Kafka keys
    by turns; a delete without a body has one in any case.
    """
    definition = define_topic(**{"name": "orders", **limits})
    cache = RecordCache(lambda: CACHES[len(sent) % len(CACHES)])
    (one, disk), (other, other_disk) = partition_of(definition, native, cache), partition_of(definition, None)
    assert (one.core, other.core) == ("native", "python")
    time, records = 1000, []
    for offset, (body, later, headers) in enumerate(sent):
        time += later
        time_type, own = (producers or {}).get(offset, (LOG_APPEND_TIME, time))
        key = kafka_keys[offset % len(kafka_keys)] or (b"1" if body is None else None)
        records.append((offset, own, key, body, headers, time_type))
    bounds = [0, *sorted(min(cut, len(records)) for cut in cuts), len(records)]
    end = 0
    for start, stop in pairwise(bounds):
        if discarded:
            one.prepare(log_records(records[start:stop]), 100)
        end += len(apply_alike(one, other, records[start:stop], end).events)
        assert list(one.due(time + 500)) == list(other.due(time + 500))
    assert one.core == "native"
    for partition in (one, other):
        partition.close()
    assert state_of(disk) == state_of(other_disk)
    assert survey(disk).checksum == disk.checksum()
