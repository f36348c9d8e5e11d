"""Copies of a partition's state, made offline from each of the three sources while the owner continues."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeVar

from confluent_kafka import Message

from sowline.changes.changes_reader import Phase
from sowline.codecs.typed_bodies import TypedBodies
from sowline.commands.command import LogRecord
from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.kafka.admin import Cluster
from sowline.kafka.clients import read_range
from sowline.model.log_time import known_log_time
from sowline.model.position import Position
from sowline_materializer.admin.earlier_state import EarlierState
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import Record, decode_record
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.partition.kafka_partition import (
    KafkaExtent,
    PartitionReader,
    kafka_extent,
)
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.partition import Partition
from sowline_materializer.store.bulk_load import BulkLoad
from sowline_materializer.store.interface import DiskStore
from sowline_materializer.store.rocksdb import RocksStore
from sowline_materializer.store.secondary import open_secondary
from sowline_materializer.worker.batch import as_log_record

WHOLE_SECONDS_MAX = 10.0
"""How long the next changes of a log record may take to arrive before the rest is considered lost."""

PAUSE_SECONDS = 0.05
"""Time between two attempts to read that rest."""

L = TypeVar("L", bound=ChangesLoader)

Report = Callable[[str, int, int], None]
"""Receives the progress of long work: its name, how much is done, and the total."""


@dataclass(frozen=True, slots=True)
class OfflineCopy:
    """A copy of a partition's state that no other process sees."""

    store: RocksStore
    checkpoint: Checkpoint

    def records(self) -> Iterator[tuple[bytes, Record]]:
        """Yield the records in the order of their SOW keys; deleted records only if their numbers still count.

        The others may be there or not, because the time at which they are cleared depends on the source.
        """
        since = self.checkpoint.remembered_since
        for key, data in self.store.scan():
            record = decode_record(data)
            if not record.is_forgettable or record.time >= since:
                yield key, record


class OfflineCopies:
    """Makes copies of one partition, each in a new directory below `directory`."""

    def __init__(
        self, kafka: KafkaConfig, definition: TopicDefinition, partition: int, directory: Path, report: Report
    ) -> None:
        if not definition.has_sow:
            raise SowlineError(
                "no sow", f"expected a topic that keeps records, got {definition.name} (sow: false)"
            )
        self.definition = definition
        self.partition = partition
        self._kafka = kafka
        self._cluster = Cluster(kafka)
        self._directory = directory
        self.report = report
        self._numbers = count()

    @property
    def name(self) -> str:
        """The name of the partition: its log's name and its number."""
        return f"{self.definition.log} [{self.partition}]"

    def extent(self) -> KafkaExtent:
        """Return the present extent of the partition in Kafka."""
        return kafka_extent(self._cluster, self.definition, self.partition)

    def new_path(self) -> Path:
        """Return a new path for a copy."""
        return self._directory / str(next(self._numbers))

    # from the local store

    def from_store(self, path: Path) -> OfflineCopy | None:
        """Return the local state at `path`, even if a worker has it open; None if there is none."""
        if not RocksStore.exists(path):
            return None
        store, checkpoint = open_secondary(path, self.new_path())
        return OfflineCopy(store, checkpoint.under(self.definition) or checkpoint)

    # from the changes

    def from_changes(self, extent: KafkaExtent) -> OfflineCopy:
        """Return the state that the changes load to, up to their end.

        If the end is within the changes of one log record, wait for the rest. Raise `state missing` if there are no
        changes, `changes incomplete` if the rest does not come.
        """
        return self.load(extent, ChangesLoader)[0]

    def at(self, position: Position) -> OfflineCopy:
        """Return the records as they were at an earlier position; its checkpoint has only that position.

        Raise `changes incomplete` if the changes no longer have all of them.
        """
        copy, loader = self.load(self.extent(), partial(EarlierState, position=position))
        loader.require_exact()
        return copy

    def load(
        self, extent: KafkaExtent, new_loader: Callable[[DiskStore, TopicDefinition, str], L]
    ) -> tuple[OfflineCopy, L]:
        """Return the state that the changes load to, and the loader after the load."""
        if extent.changes_start >= extent.changes_end:
            raise SowlineError(
                "state missing",
                f"expected changes in {self.definition.changes} [{self.partition}], found none: no materializer has "
                "had this partition yet, or the topic was deleted",
            )
        store = RocksStore(self.new_path(), create=True)
        loader = new_loader(store, self.definition, extent.changes_id)
        checkpoint = self._load_whole(loader, extent.changes_start, extent.changes_end)
        checkpoint = replace(checkpoint.under(self.definition) or checkpoint, changes_id=extent.changes_id)
        loader.finish()
        store.commit({}, store.checksum(), checkpoint.encode())
        return OfflineCopy(store, checkpoint), loader

    def _load_whole(self, loader: ChangesLoader, start: int, end: int) -> Checkpoint:
        """Load until the changes are complete, and do not end within the changes of one log record."""
        deadline: float | None = None
        while True:
            phase = loader.load_range(self._changes(start, end), end, time.monotonic())
            if phase is not Phase.AIMING and loader.is_whole:
                return loader.checkpoint(end)
            now = time.monotonic()
            # The rest of a large delete comes in portions, over more than that time.
            if deadline is None or phase is Phase.AIMING or start < end:
                deadline = now + WHOLE_SECONDS_MAX
            elif now > deadline:
                raise SowlineError(
                    "changes incomplete",
                    f"{self.definition.changes} [{self.partition}] ends within a batch, and the rest has not "
                    "arrived. Start a materializer, and try again",
                )
            time.sleep(PAUSE_SECONDS)
            start, end = end, self._cluster.ends(self.definition.changes, [self.partition])[self.partition]

    def _changes(self, start: int, end: int) -> Iterator[list[Message]]:
        """Yield the messages of the changes between two offsets, and report the progress after each batch."""
        for messages in read_range(self._kafka, self.definition.changes, self.partition, start, end):
            yield messages
            self.report(
                f"loading {self.name} from the changes", (messages[-1].offset() or 0) - start, end - start
            )

    # from the log

    def from_log(self, extent: KafkaExtent, of: Checkpoint) -> OfflineCopy:
        """Return the state at the beginning of the era of `of`, which had no records; `lead_on` continues it.

        Raise `log incomplete` if the log does not hold the whole era.
        """
        self.require_whole_era(extent, of)
        assert of.begin is not None, "that was looked at"
        offset, log_time, schema = of.begin
        log_time = known_log_time(log_time)
        before = Position(of.position.era, offset - 1)
        end = max(extent.log_end, of.next_offset)
        limits = PartitionReader(self._kafka, self.definition, self.partition).limits_at(
            offset, end, of.limits.template
        )
        limits = replace(limits or of.limits, schema=schema)
        checkpoint = Checkpoint(
            position=of.position if of.position.offset < offset else before,
            last_change=of.last_change if of.last_change.offset < offset else before,
            time=log_time,
            definition=self.definition.digest_with(limits.template),
            log_id=extent.log_id,
            limits=limits,
            numbers_since=log_time,
            begin=of.begin,
        )
        store = RocksStore(self.new_path(), create=True)
        store.commit({}, store.checksum(), checkpoint.encode())
        return OfflineCopy(store, checkpoint)

    def require_whole_era(self, extent: KafkaExtent, of: Checkpoint) -> None:
        """Raise `log incomplete` if the log does not hold the whole era of `of`, or if that began with records."""
        if of.log_id != extent.log_id:
            why = "it is not the log that the state was made from"
        elif of.begin is None:
            why = f"era {of.position.era} began with records that no log made"
        elif extent.log_start > of.begin[0]:
            why = f"it begins at offset {extent.log_start}, and the era of the state at {of.begin[0]}"
        else:
            return
        raise SowlineError(
            "log incomplete", f"the log {self.name} no longer has everything that made the state: {why}"
        )

    def lead_on(self, copy: OfflineCopy, until: Position) -> OfflineCopy:
        """Apply the log, up to that position of its era, to a copy that is not a view of a store."""
        start, end = copy.checkpoint.next_offset, until.offset + 1
        opened = OpenedPartition(copy.store, copy.checkpoint, until)
        bodies = PartitionReader(self._kafka, self.definition, self.partition).bodies()
        partition = Partition(self.definition, self.partition, opened, bodies=bodies)
        for records in self.log(start, end, f"applying the log {self.name}"):
            self._require_schemas(bodies, records)
            while partition.are_left(records):
                prepared = partition.prepare(records, end)
                if prepared.failed is not None:
                    # The copy would continue after the record, and lack the records of its batch
                    # (test_a_record_that_can_not_be_applied_ends_the_copy).
                    raise prepared.failed from prepared.failed.__cause__
                partition.commit(prepared, 0)
        return OfflineCopy(copy.store, partition.checkpoint)

    def _require_schemas(self, bodies: TypedBodies | None, records: Iterable[LogRecord]) -> None:
        """Raise `schema missing` if messages name schemas about which their owner has found out nothing yet."""
        missing = [] if bodies is None else bodies.unresolved(record.value for record in records)
        if missing:
            raise SowlineError(
                "schema missing",
                f"expected schema {missing[0]} in {self.definition.kafka.schema_log} [{self.partition}]: the owner of"
                " the partition has not applied the messages that name it. Try again once it has",
            )

    def log(self, start: int, end: int, what: str) -> Iterator[list[LogRecord]]:
        """Yield the log's records between two offsets in batches; `what` names the work for the progress report."""
        for messages in read_range(self._kafka, self.definition.log, self.partition, start, end):
            yield [as_log_record(message) for message in messages]
            self.report(what, (messages[-1].offset() or 0) - start, end - start)

    def twin(self, copy: OfflineCopy) -> OfflineCopy:
        """Return a copy of a copy, to be continued."""
        store = RocksStore(self.new_path(), create=True)
        fill(store, copy.store.scan(), copy.checkpoint)
        return OfflineCopy(store, copy.checkpoint)


def fill(store: DiskStore, entries: Iterable[tuple[bytes, bytes]], checkpoint: Checkpoint) -> None:
    """Write a state's entries, and then its checkpoint, into an empty store."""
    filled = BulkLoad(store)
    for key, data in entries:
        filled.put(key, None, data)
    filled.finish()
    store.commit({}, store.checksum(), checkpoint.encode())
