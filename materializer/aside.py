"""Copies of a partition's state, made aside by each of the three roads, while whoever owns it goes on."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path

from materializer.beside import look
from materializer.entries import Entries
from materializer.head import Head
from materializer.partition import Partition
from materializer.record import Record, decode_record
from materializer.recovery import Extent, Loader, Opened, as_event, extent_of, first_limits, offsets_of
from materializer.store import RocksStore, Store
from materializer.worker import as_log_record
from sowline.cluster import Cluster, compaction_lag_ms
from sowline.command import LogRecord
from sowline.errors import SowlineError
from sowline.kafka import KafkaConfig, read_range
from sowline.position import Position
from sowline.topics import TopicDefinition

WHOLE_SECONDS_MAX = 10.0
"""How long a log record's changes may be under way before nobody is thought to write the rest."""

PAUSE_SECONDS = 0.05
"""Between two looks for that rest."""

Tell = Callable[[str, int, int], None]
"""Told how far long work is: what it does, how much is done, and of how much."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A partition's state where nobody else sees it."""

    store: RocksStore
    head: Head

    def records(self) -> Iterator[tuple[bytes, Record]]:
        """Yield the records in the order of their SOW keys; of deleted ones those whose numbers still count.

        The others may be there or not, for when they are cleared away depends on the road.
        """
        since = self.head.remembered_since
        for key, data in self.store.scan():
            record = decode_record(data)
            if not record.is_forgettable or record.time >= since:
                yield key, record


class Aside:
    """Makes copies of one partition, each in a new directory below `directory`."""

    def __init__(
        self, kafka: KafkaConfig, definition: TopicDefinition, partition: int, directory: Path, tell: Tell
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
        self.tell = tell
        self._numbers = count()

    @property
    def name(self) -> str:
        """What the partition is called: its log's name and its number."""
        return f"{self.definition.log} [{self.partition}]"

    def extent(self) -> Extent:
        """Return what Kafka holds of the partition now."""
        return extent_of(self._cluster, self.definition, self.partition)

    def new_path(self) -> Path:
        """Return a path of its own for a copy."""
        return self._directory / str(next(self._numbers))

    # road 1

    def from_store(self, path: Path) -> Copy | None:
        """Return the local state at `path`, whoever has it open; None if there is none."""
        if not RocksStore.exists(path):
            return None
        return Copy(*look(path, self.new_path()))

    # road 2

    def from_changes(self, extent: Extent) -> Copy:
        """Return what the changes load to, up to their end or, if that is amid one log record's, up to its last.

        Raises `state missing` if there are none, `changes incomplete` if the rest does not come.
        """
        return self.load(extent, Loader)[0]

    def load(self, extent: Extent, loader_class: type[Loader]) -> tuple[Copy, Loader]:
        """Return what the changes load to, and the loader that is done with them."""
        if extent.changes_start >= extent.changes_end:
            raise SowlineError(
                "state missing",
                f"expected changes in {self.definition.changes} [{self.partition}], found none: no materializer has "
                "had this partition yet, or the topic was deleted",
            )
        store = RocksStore(self.new_path(), create=True)
        loader = loader_class(store, self.definition)
        head = self._load_whole(loader, extent.changes_start, extent.changes_end)
        head = replace(head, changes_id=extent.changes_id)
        store.commit({}, store.tally(), head.encode())
        return Copy(store, head), loader

    def _load_whole(self, loader: Loader, start: int, end: int) -> Head:
        """Load up to an end seen so lately that compaction has taken nothing before it for what is behind it."""
        seen_at = time.monotonic()
        deadline: float | None = None
        while True:
            self._load(loader, start, end)
            now = time.monotonic()
            is_late = now - seen_at > compaction_lag_ms(self.definition) / 2000
            if loader.is_whole and not is_late:
                return loader.head(end)
            if deadline is None or is_late:
                deadline = now + WHOLE_SECONDS_MAX
            elif now > deadline:
                raise SowlineError(
                    "changes incomplete",
                    f"{self.definition.changes} [{self.partition}] ends amid what is written together, and the rest "
                    "does not come. Start a materializer, and try again",
                )
            time.sleep(PAUSE_SECONDS)
            seen_at = time.monotonic()
            start, end = end, self._cluster.ends(self.definition.changes, [self.partition])[self.partition]

    def _load(self, loader: Loader, start: int, end: int) -> None:
        for messages in read_range(self._kafka, self.definition.changes, self.partition, start, end):
            loader.load([as_event(message) for message in messages], offsets_of(messages))
            self.tell(
                f"loading {self.name} from the changes", (messages[-1].offset() or 0) - start, end - start
            )

    # road 3

    def from_log(self, extent: Extent, of: Head) -> Copy:
        """Return the state at the begin of the era that `of` is in, which had no records; `lead_on` goes on.

        Raises `log incomplete` where the log does not hold the whole era.
        """
        self.require_whole_era(extent, of)
        assert of.begin is not None, "that was looked at"
        offset, log_time = of.begin
        before = Position(of.position.era, offset - 1)
        end = max(extent.log_end, of.next_offset)
        limits = first_limits(self._kafka, self.definition, self.partition, offset, end)
        head = Head(
            of.position if of.position.offset < offset else before,
            of.last_change if of.last_change.offset < offset else before,
            log_time,
            definition=self.definition.digest,
            log_id=extent.log_id,
            limits=limits or of.limits,
            numbers_since=log_time,
            begin=of.begin,
        )
        store = RocksStore(self.new_path(), create=True)
        store.commit({}, store.tally(), head.encode())
        return Copy(store, head)

    def require_whole_era(self, extent: Extent, of: Head) -> None:
        """Raise `log incomplete` where the log does not hold all of the era that `of` is in, or that had records."""
        if of.log_id != extent.log_id:
            why = "it is not the log that the state was made from"
        elif of.begin is None:
            why = f"era {of.position.era} began with records that no log made"
        elif extent.log_start > of.begin[0]:
            why = f"it begins at offset {extent.log_start}, and the era of the state at {of.begin[0]}"
        else:
            return
        raise SowlineError("log incomplete", f"the log {self.name} does not make the state: {why}")

    def lead_on(self, copy: Copy, until: Position) -> Copy:
        """Apply the log to a copy that is not a look into a store, up to that position of its era."""
        start, end = copy.head.next_offset, until.offset + 1
        opened = Opened(copy.store, copy.head, until)
        partition = Partition(self.definition, self.partition, opened)
        for records in self.log(start, end, f"applying the log {self.name}"):
            partition.commit(partition.prepare(records, end), 0)
        return Copy(copy.store, partition.head)

    def log(self, start: int, end: int, what: str) -> Iterator[list[LogRecord]]:
        """Yield the log's records between two offsets, in batches; `what` is what is done with them."""
        for messages in read_range(self._kafka, self.definition.log, self.partition, start, end):
            yield [as_log_record(message) for message in messages]
            self.tell(what, (messages[-1].offset() or 0) - start, end - start)

    def twin(self, copy: Copy) -> Copy:
        """Return a copy of a copy, to be led on."""
        store = RocksStore(self.new_path(), create=True)
        fill(store, copy.store.scan(), copy.head)
        return Copy(store, copy.head)


def fill(store: Store, entries: Iterable[tuple[bytes, bytes]], head: Head, batch_max: int = 1000) -> None:
    """Put a state's entries, and then its head, into an empty store."""
    left = iter(entries)
    while batch := list(islice(left, batch_max)):
        filled = Entries(store)
        for key, data in batch:
            filled.put(key, None, data)
        filled.commit()
    store.commit({}, store.tally(), head.encode())
