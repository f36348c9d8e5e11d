"""The sources of recovery on a real Kafka: whatever was lost, a partition ends in the one state of its log."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

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
from sowline_materializer.core.batch_state import BatchState
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


@pytest.fixture
def rig(kafka: str, prefix: str, tmp_path: Path) -> Rig:
    """A topic of the test's own, with something on its log that no worker has seen."""
    rig = Rig(kafka, f"{prefix}source", tmp_path / "sow")
    ensure_topics(rig.settings.kafka_client, rig.topics)
    rig.write()
    producer = exact_producer(rig.settings.kafka_client)
    producer.produce(rig.topic.log, b'{"id":"%s"}' % BASE.encode(), None, 0)
    assert producer.flush(SECONDS_MAX) == 0
    return rig


@pytest.fixture
def worked(rig: Rig) -> Rig:
    """The same after a worker has applied it all and ended, and more was written."""
    rig.work()
    rig.check()
    rig.write(12)
    return rig


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


@pytest.mark.parametrize(
    "lose",
    [lose_nothing, flip_a_byte, truncate_manifest, leave_half_made, lose_store, lose_changes, lose_both],
)
def test_all_recovery_sources_lead_to_one_state(worked: Rig, lose: Callable[[Rig], None]) -> None:
    """Whatever is lost, the state is that of the log, and so is what the changes load to."""
    lose(worked)
    worked.work()
    worked.check()
    assert worked.state()[1].position.era == 0


def test_damage_is_met_again_and_again(worked: Rig) -> None:
    """A partition recovers from each damage, also from one that follows another."""
    for lose in (flip_a_byte, lose_store, truncate_manifest):
        lose(worked)
        worked.work()
    worked.check()


def test_records_that_are_gone_unseen_stop_their_partition(worked: Rig) -> None:
    """It says which, the others go on, and the worker lives; with `accept_loss` a new era goes on without them."""
    before = worked.state()[0]
    end = worked.cluster.ends(worked.topic.log, [0])[0]
    worked.cut_log(0, end)
    next_offset = worked.state()[1].next_offset
    now = worked.work()
    assert list(now.stopped) == [worked.topic_partition(0)]
    assert f"offsets {next_offset} to {end - 1} are gone" in now.stopped[worked.topic_partition(0)]
    assert "--accept-loss" in now.stopped[worked.topic_partition(0)]
    assert worked.state(1)[0] == worked.made_by_log(1)
    worked.accept_loss = True
    worked.work()
    records, checkpoint = worked.state()
    assert checkpoint.position.era == 1
    kept = {key: record for key, record in records.items() if record.position.era == 0}
    assert BASE in {record.key_text for record in kept.values()}
    assert kept.items() <= before.items()
    assert worked.compacted() == records
    worked.write(24)
    worked.work()
    assert worked.state()[1].position.era == 1
    assert worked.compacted() == worked.state()[0]


def test_an_unforeseen_exception_stops_its_partition(worked: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops before the record, the others go on, and a worker without the fault continues there."""
    # The native core would apply the record.
    worked.settings = worked.settings.model_copy(update={"core": "python"})
    fails_at = worked.cluster.ends(worked.topic.log, [0])[0] + 5
    worked.write(24)
    begin = BatchState.begin

    def failing(state: BatchState, record: LogRecord) -> None:
        if (state.partition, record.offset) == (0, fails_at):
            raise TypeError("nobody foresaw this")
        begin(state, record)

    with monkeypatch.context() as patched:
        patched.setattr(BatchState, "begin", failing)
        now = worked.work()
        assert list(now.stopped) == [worked.topic_partition(0)]
        assert f"the log record at offset {fails_at}, got TypeError" in now.stopped[worked.topic_partition(0)]
        assert worked.state()[1].next_offset == fails_at
        assert worked.state(1)[0] == worked.made_by_log(1)
    assert worked.work().stopped == {}
    worked.check()


def test_a_log_without_its_begin_is_no_recovery_source(worked: Rig) -> None:
    """With the store and the changes gone too, the partition says so and stops."""
    lose_both(worked)
    worked.cut_log(0, 5)
    now = worked.work()
    assert "begins at offset 5" in now.stopped[worked.topic_partition(0)]
    worked.accept_loss = True
    assert worked.work().stopped == {}


def test_a_replaced_log_begins_an_era(rig: Rig) -> None:
    """The state is kept, what the new log says comes on top, and a later load knows both."""
    rig.work()
    before = [rig.state(partition)[0] for partition in range(PARTITIONS)]
    rig.delete(rig.topic.log)
    rig.work()
    for partition in range(PARTITIONS):
        records, checkpoint = rig.state(partition)
        assert (records, checkpoint.position) == (before[partition], Position(1, -1))
    rig.write(40)
    rig.work()
    after = [rig.state(partition) for partition in range(PARTITIONS)]
    lose_store(rig)
    rig.work()
    for partition in range(PARTITIONS):
        records, checkpoint = rig.state(partition)
        assert (records, checkpoint.position, checkpoint.origins) == (
            after[partition][0],
            after[partition][1].position,
            after[partition][1].origins,
        )
        assert checkpoint.position.era == 1


def stale(rig: Rig) -> list[Change]:
    """Return the oldest change of each key of partition 0."""
    oldest: dict[bytes, Change] = {}
    for event in rig.changes(0):
        if isinstance(event, Change):
            oldest.setdefault(event.sow_key, event)
    return list(oldest.values())


def write_stale(rig: Rig) -> None:
    """Write the oldest changes once more, as a worker does that was thought dead."""
    producer = exact_producer(rig.settings.kafka_client)
    for change in stale(rig):
        producer.produce(rig.topic.changes, change.body, change.sow_key, 0, headers=change.headers())  # type: ignore[arg-type]
    assert producer.flush(SECONDS_MAX) == 0


def test_stale_owner_writes_are_put_right_by_a_live_owner(rig: Rig) -> None:
    """The owner sees the jump in its offsets and writes the newest of each key again."""
    with rig.working() as worker:
        rig.settle(worker)
        write_stale(rig)
        rig.write(12)
        rig.settle(worker)
        wait_for(lambda: worker.statistics().counts.stale_owner_writes, "stale-owner writes to be seen")
    rig.check()


@pytest.mark.parametrize("lose", [lose_nothing, lose_store])
def test_stale_owner_writes_are_put_right_by_the_next_owner(rig: Rig, lose: Callable[[Rig], None]) -> None:
    """Written while nobody was there, they are found at the next open, on either recovery source."""
    rig.work()
    write_stale(rig)
    assert rig.compacted() != rig.made_by_log()
    lose(rig)
    rig.work()
    rig.check()


def test_a_log_gets_its_append_time(kafka: str, prefix: str, tmp_path: Path) -> None:
    """A log that somebody made with the producers' times is set to the broker's. What it has moves no log time."""
    rig = Rig(kafka, f"{prefix}time", tmp_path)
    config = {"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": str(2**63 - 1)}
    new = NewTopic(rig.topic.log, PARTITIONS, 1, config=config)
    rig.admin.create_topics([new])[rig.topic.log].result(SECONDS_MAX)
    wait_for(lambda: rig.topic.log in rig.admin.list_topics(timeout=10).topics, "the topic to be known")
    now = time.time_ns() // 1_000_000
    producer = Producer({"bootstrap.servers": kafka})
    for producers_time in (now - 5000, 1000 * now, 2 * now):
        producer.produce(rig.topic.log, b"{}", partition=0, timestamp=producers_time)
    assert producer.flush(SECONDS_MAX) == 0
    ensure_topics(rig.settings.kafka_client, rig.topics)
    resource = ConfigResource(ResourceType.TOPIC, rig.topic.log)

    def time_type() -> str:
        found = rig.admin.describe_configs([resource])[resource].result(SECONDS_MAX)
        return str(found["message.timestamp.type"].value)

    wait_for(lambda: time_type() == "LogAppendTime", "the setting to be known")
    rig.write()
    types = [message.timestamp()[0] for message in rig.messages(rig.topic.log, 0)]
    assert (types[:3], set(types[3:])) == ([1, 1, 1], {2})
    with ExitStack() as stack:
        rig.settle(stack.enter_context(rig.working()))
    rig.check()
    assert now - 60_000 < rig.state()[1].time < now + 3_600_000
    refused = [
        dict(message.headers() or [])["sow.reason"] for message in rig.messages(rig.topic.kafka.dead, 0)
    ]
    assert refused.count(b"bad time") == 1
