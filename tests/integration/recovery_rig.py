"""A topic on a real Kafka whose state is lost, in part or as a whole, and recovered."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from sowline.changes.change import Change
from sowline.changes.event import Event
from sowline.changes.progress import PROGRESS_KEY
from sowline.commands.command import LogRecord
from sowline.config.settings import read_settings
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import parse_topics
from sowline.kafka.admin import Cluster, ensure_topics
from sowline.kafka.clients import exact_producer, read_range
from sowline.kafka.messages import event_of
from sowline.model.key import partition_of
from sowline.model.position import Position
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import Record
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.partition import Partition
from sowline_materializer.store.integrity import survey
from sowline_materializer.store.rocksdb import MARK, RocksStore
from sowline_materializer.worker.batch import as_log_record
from sowline_materializer.worker.counts import WorkerStatistics
from sowline_materializer.worker.worker import Worker
from tests.memory_store import MemoryStore
from tests.property.world import dump
from tests.waiting import SECONDS_MAX, wait_for

NEVER = 10**15

PARTITIONS = 2

BASE = next(text for text in map(str, range(100, 200)) if partition_of(text, PARTITIONS) == 0)
"""The key of a record of partition 0 that is written once and never touched."""


class Rig:
    """A topic on a real Kafka, a disk, and workers that run one after the other in a thread."""

    def __init__(self, kafka: str, name: str, directory: Path, more: str = "") -> None:
        self.name = name
        self.define(more)
        self.settings = read_settings(kafka=kafka, data_dir=directory, group=name, batch_records_max=7)
        self.admin = AdminClient({**self.settings.kafka_client})
        self.cluster = Cluster(self.settings.kafka_client)
        self.accept_loss = False

    def define(self, more: str) -> None:
        """Say what is defined, for the workers to come; `more` is what stands beside the key."""
        given = f"name: {self.name}, key: /id, partitions: {PARTITIONS}{', ' if more else ''}{more}"
        self.topics = parse_topics(f"topics: [{{{given}}}]")

    @property
    def topic(self) -> TopicDefinition:
        """The topic's definition."""
        return self.topics.topics[0]

    def topic_partition(self, partition: int) -> tuple[str, int]:
        """Return how a worker calls a partition."""
        return self.topic.log, partition

    def path(self, partition: int = 0) -> Path:
        """Return where a partition's store lies."""
        return self.settings.data_dir / self.topic.log / str(partition)

    # the log

    def write(self, start: int = 0) -> None:
        """Write some of everything to each partition; keys and deltas depend on where to start."""
        producer = exact_producer(self.settings.kafka_client)
        for number in range(start, start + 12):
            for partition in range(PARTITIONS):
                for value, headers in mixed(number):
                    producer.produce(self.topic.log, value, None, partition, headers=list(headers))
        assert producer.flush(SECONDS_MAX) == 0

    def log(self, partition: int) -> list[LogRecord]:
        """Return what a partition's log holds."""
        return [as_log_record(message) for message in self.messages(self.topic.log, partition)]

    def changes(self, partition: int) -> list[Event]:
        """Return the events of a changes partition."""
        return [event_of(message) for message in self.messages(self.topic.changes, partition)]

    def messages(self, topic: str, partition: int) -> list[Any]:
        """Return all messages of a partition."""
        start = self.cluster.starts(topic, [partition])[partition]
        end = self.cluster.ends(topic, [partition])[partition]
        batches = read_range(self.settings.kafka_client, topic, partition, start, end)
        return [message for batch in batches for message in batch]

    def cut_log(self, partition: int, offset: int) -> None:
        """Let a log begin at an offset: what was before is gone."""
        topic_partition = TopicPartition(self.topic.log, partition, offset)
        self.admin.delete_records([topic_partition])[topic_partition].result(SECONDS_MAX)

    def delete(self, *names: str) -> None:
        """Delete Kafka topics, and wait until they are gone."""
        for future in self.admin.delete_topics(list(names)).values():
            future.result(SECONDS_MAX)
        wait_for(lambda: not set(names) & set(self.admin.list_topics(timeout=10).topics), "topics to be gone")

    # the worker

    def worker(self, stop: threading.Event) -> Worker:
        """Return a new worker."""
        settings = self.settings.model_copy(update={"accept_loss": self.accept_loss})
        return Worker(settings, self.topics, stop)

    @contextmanager
    def working(self) -> Iterator[Worker]:
        """Run a worker; it ends without an error, or the test fails."""
        ensure_topics(self.settings.kafka_client, self.topics)
        stop, errors = threading.Event(), []
        worker = self.worker(stop)

        def run() -> None:
            try:
                worker.run()
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield worker
        finally:
            stop.set()
            thread.join(SECONDS_MAX)
        assert not thread.is_alive()
        assert errors == []

    def settle(self, worker: Worker) -> WorkerStatistics:
        """Wait until a worker has applied everything, and what that forwarded; returns what it says then."""

        def settled() -> WorkerStatistics | None:
            ends = self.cluster.newest_ends(self.topic.log, range(PARTITIONS))
            now = worker.statistics()
            at = {
                topic_partition: Position.parse(text).offset + 1
                for topic_partition, text in now.positions.items()
            }
            done = {topic_partition[1]: offset for topic_partition, offset in at.items()}
            done |= {partition: ends[partition] for (_, partition) in now.stopped}
            same = self.cluster.newest_ends(self.topic.log, range(PARTITIONS)) == ends
            return now if done == ends and same else None

        return wait_for(settled, "everything to be applied")

    def work(self) -> WorkerStatistics:
        """Run a worker until everything is applied."""
        with self.working() as worker:
            return self.settle(worker)

    # the state

    def state(self, partition: int = 0) -> tuple[dict[bytes, Record], Checkpoint]:
        """Return the records and the head that a partition's store holds; nobody may have it open."""
        store = RocksStore(self.path(partition), create=False)
        try:
            assert survey(store).checksum == store.checksum()
            data = store.checkpoint()
            assert data is not None
            return dump(store, 0, NEVER), Checkpoint.decode(data)
        finally:
            store.close()

    def made_by_log(self, partition: int = 0) -> dict[bytes, Record]:
        """Return the records that the log makes when it is applied from its begin, in memory."""
        store = MemoryStore()
        log_id = self.cluster.topic_id(self.topic.log)
        start = Checkpoint(definition=self.topic.digest, limits=self.topic.limits, log_id=log_id)
        opened = OpenedPartition(store, start, start.position)
        replay = Partition(self.topic, partition, opened)
        replay.commit(replay.prepare(self.log(partition), 0), 0)
        return dump(store, 0, NEVER)

    def compacted(self, partition: int = 0) -> dict[bytes, Record]:
        """Return the records that the changes load to once nothing but the last event of each key is left."""
        last: dict[bytes, Event] = {}
        for event in self.changes(partition):
            key = event.sow_key if isinstance(event, Change) else PROGRESS_KEY
            last.pop(key, None)
            last[key] = event
        store = MemoryStore()
        loader = ChangesLoader(store, self.topic)
        loader.load(list(last.values()))
        loader.finish()
        return dump(store, 0, NEVER)

    def check(self) -> None:
        """Stores, changes and logs agree."""
        for partition in range(PARTITIONS):
            expected = self.made_by_log(partition)
            assert self.state(partition)[0] == expected
            assert self.compacted(partition) == expected


def mixed(number: int) -> Iterator[tuple[bytes | None, list[tuple[str, bytes]]]]:
    """Yield a publish, a delta, now and then a delete, a repeat and a bad record."""
    about = [("sow.publisher", b"p"), ("sow.sequence", b"%d" % (number + 1))]
    yield b'{"id":%d,"n":%d}' % (number % 7, number), about
    yield b'{"id":%d,"d":%d}' % (number % 5, number), [("sow.command", b"delta_publish")]
    if number % 4 == 3:
        yield b'{"id":%d,"n":-1}' % (number % 7), about
        yield b"{", []
        yield b'{"id":%d}' % (number % 3), [("sow.command", b"sow_delete")]
    if number % 12 == 8:
        yield None, [("sow.command", b"sow_delete"), ("sow.filter", b"/n < 4")]


def tables(rig: Rig) -> list[Path]:
    """Return the table files of partition 0."""
    return sorted(rig.path().glob("db/*.sst"))


def flip_a_byte(rig: Rig) -> None:
    """Damage the block of a table."""
    for table in tables(rig):
        data = bytearray(table.read_bytes())
        data[len(data) // 4] ^= 0xFF
        table.write_bytes(bytes(data))


def truncate_manifest(rig: Rig) -> None:
    """Cut the list of the store's files in half."""
    manifest = max(rig.path().glob("db/MANIFEST-*"))
    manifest.write_bytes(manifest.read_bytes()[: manifest.stat().st_size // 2])


def lose_store(rig: Rig) -> None:
    """Delete the local state of all partitions."""
    shutil.rmtree(rig.settings.data_dir)


def leave_half_made(rig: Rig) -> None:
    """Let the store be one that a crash interrupted in the making."""
    (rig.path() / MARK).unlink()


def lose_changes(rig: Rig) -> None:
    """Delete the changes topic."""
    rig.delete(rig.topic.changes)


def lose_both(rig: Rig) -> None:
    """Delete local state and changes."""
    lose_store(rig)
    lose_changes(rig)


def lose_nothing(rig: Rig) -> None:
    """Leave all as it is."""
