"""The emitter: what goes to Kafka, and when it gives up."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from msgspec.structs import replace

from sowline.changes.change import Change
from sowline.changes.progress import CATCH_UP_KEY, PROGRESS_KEY, Progress
from sowline.commands.command import CopyOf, LogRecord, Origin
from sowline.config.topics import parse_topics
from sowline.kafka.leader_watch import LeaderWatch
from sowline.model.position import Position
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.step import DeadLetter, Forward
from sowline_materializer.emitter import Emitter, NotWritten
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.owner_commands import Append
from sowline_materializer.partition.partition import Partition
from tests.memory_store import MemoryStore
from tests.panics import panic

TOPICS = parse_topics("topics: [{name: orders, key: /id}, {name: told, key: /id, delta: true}]").topics
ORDERS, WITH_DELTAS = TOPICS
POSITION = Position(0, 1)
CHANGE = Change(b"7", b"{}", None, POSITION, Position(0, 0), "publish", 5)
PROGRESS = Progress(POSITION, POSITION, 2, {}, "d", "l", 5, {})


class FakeMessage:
    """A message as a delivery report names it."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        self._coordinates = topic, partition, offset

    def topic(self) -> str:
        """Return the topic."""
        return self._coordinates[0]

    def partition(self) -> int:
        """Return the partition."""
        return self._coordinates[1]

    def offset(self) -> int:
        """Return the offset."""
        return self._coordinates[2]


class FakeProducer:
    """Takes what is produced and reports it when it is flushed."""

    def __init__(self) -> None:
        self.produced: list[tuple[Any, ...]] = []
        self.reports: list[tuple[Any, FakeMessage]] = []
        self.error: KafkaError | None = None
        self.failure: Exception | None = None
        self.stuck = 0
        self.no_space_for: list[Any] = []

    def produce(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int,
        report: Any,
        on_delivery: None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Take a message, if there is space."""
        if value in self.no_space_for:
            self.no_space_for.remove(value)
            raise BufferError
        self.produced.append((topic, value, key, partition, headers))
        if report is not None:
            self.reports.append((report, FakeMessage(topic, partition, len(self.produced) - 1)))

    def poll(self, seconds: float) -> int:
        """Report nothing."""
        if self.failure is not None:
            raise self.failure
        return 0

    def flush(self, seconds: float) -> int:
        """Return how many messages are left."""
        if self.failure is not None:
            raise self.failure
        if self.stuck:
            self.stuck -= 1
            return 1
        for report, message in self.reports:
            report(self.error, message)
        self.reports = []
        return 0


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> FakeProducer:
    """The producer that an emitter gets."""
    producer = FakeProducer()
    monkeypatch.setattr("sowline_materializer.emitter.exact_producer", lambda *_, **__: producer)
    return producer


@pytest.fixture
def emitter(producer: FakeProducer) -> Emitter:
    """An emitter over the fake producer."""
    return Emitter({}, lambda: False)


def test_events_go_to_their_partition(emitter: Emitter, producer: FakeProducer) -> None:
    """Changes and progress events are written as the contract says, and the end behind them is known."""
    behind = PROGRESS._replace(is_catching_up=True)
    emitter.events(ORDERS, 3, [CHANGE, PROGRESS, behind])
    assert producer.produced == [
        ("orders.changes", b"{}", b"7", 3, CHANGE.headers()),
        ("orders.changes", PROGRESS.value(), PROGRESS_KEY, 3, None),
        ("orders.changes", behind.value(), CATCH_UP_KEY, 3, None),
    ]
    assert emitter.end("orders.changes", 3) is None
    emitter.wait()
    assert (emitter.end("orders.changes", 3), emitter.end("orders.changes", 0)) == (3, None)


def native_changes(count: int) -> list[Change]:
    """Return what the native core makes of so many publishes of two records."""
    native = pytest.importorskip("sowline_native")
    checkpoint = Checkpoint(definition=ORDERS.digest, limits=ORDERS.limits, log_id="log")
    opened = OpenedPartition(MemoryStore(), checkpoint, checkpoint.position)
    partition = Partition(ORDERS, 0, opened, native=native)
    records = [native.LogRecord(n, 1000, None, b'{"id":%d,"n":%d}' % (n % 2, n), None) for n in range(count)]
    return partition.prepare(native.LogRecords(records), count).step.changes


@pytest.mark.parametrize("full", [[], [0], [3], [0, 1, 2, 3, 4], [4]])
def test_changes_of_the_native_core_are_written_in_order(producer: FakeProducer, full: list[int]) -> None:
    """Before, between and behind other events, wherever the producer's queue is full for a moment."""
    native = pytest.importorskip("sowline_native")
    emitter = Emitter({}, lambda: False, native)
    changes = native_changes(5)
    assert all(isinstance(change, native.Change) for change in changes)
    producer.no_space_for = [changes[n].value for n in full]
    emitter.events(ORDERS, 3, [PROGRESS, *changes[:3], CHANGE, *changes[3:]])
    written = [changes[n] for n in range(3)] + [CHANGE] + changes[3:]
    assert producer.produced == [
        ("orders.changes", PROGRESS.value(), PROGRESS_KEY, 3, None),
        *(("orders.changes", one.value, one.sow_key, 3, one.headers()) for one in written),
    ]
    emitter.wait()
    assert emitter.end("orders.changes", 3) == 7
    emitter.events(ORDERS, 3, changes[:1])
    emitter.wait()
    assert emitter.end("orders.changes", 3) == 8


def test_a_panic_leaves_changes_to_python(producer: FakeProducer) -> None:
    """The same messages, one by one."""
    native = pytest.importorskip("sowline_native")
    emitter = Emitter({}, lambda: False, type("Module", (), vars(native) | {"messages": panic}))  # type: ignore[arg-type]
    changes = native_changes(5)
    emitter.events(ORDERS, 3, changes)
    assert producer.produced == [
        ("orders.changes", one.value, one.sow_key, 3, one.headers()) for one in changes
    ]


def test_a_topic_with_deltas_tells_what_updates_changed(emitter: Emitter, producer: FakeProducer) -> None:
    """Only there, and only of updates; values and all other headers are the same."""
    update = replace(CHANGE, body=b'{"id":7,"a":2}', previous=b'{"id":7,"a":1,"b":1}')
    for definition in (ORDERS, WITH_DELTAS):
        emitter.events(definition, 0, [CHANGE, update, PROGRESS])
    plain, with_deltas = producer.produced[:3], producer.produced[3:]
    assert [message[0] for message in with_deltas] == ["told.changes"] * 3
    assert [message[4] for message in plain] == [CHANGE.headers(), update.headers(), None]
    assert [message[4] for message in with_deltas] == [
        CHANGE.headers(),
        update.headers(update.delta(ORDERS.key_paths)),
        None,
    ]
    assert [message[1:4] for message in with_deltas] == [message[1:4] for message in plain]


def test_a_message_type_without_deltas(emitter: Emitter, producer: FakeProducer) -> None:
    """No header lists what an update changed: readers take the whole record."""
    (definition,) = parse_topics(
        "topics: [{name: images, key: {from: kafka_key}, message_type: binary, delta: true}]"
    ).topics
    update = replace(CHANGE, body=b'{"data":"AAA="}', previous=b'{"data":"AAE="}')
    emitter.events(definition, 0, [update])
    assert [message[4] for message in producer.produced] == [update.headers()]


@pytest.mark.parametrize(
    "failure",
    [
        KafkaException(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, fatal=True)),
        SystemError("flush returned NULL without setting an exception"),
    ],
)
def test_a_producer_that_has_failed_wrote_nothing(
    emitter: Emitter, producer: FakeProducer, failure: Exception
) -> None:
    """The worker begins again, with a new producer, whichever way the client says it."""
    emitter.events(ORDERS, 3, [CHANGE])
    producer.failure = failure
    with pytest.raises(NotWritten, match="the producer has failed"):
        emitter.wait()
    with pytest.raises(NotWritten, match="the producer has failed"):
        emitter.appends("orders", 3, [])


def test_a_forward_keeps_its_headers(emitter: Emitter, producer: FakeProducer) -> None:
    """Only the origin is added, behind all others."""
    record = LogRecord(9, 5, b"k", b"{}", [("x", b"1"), ("sow.origin", b"1@1")])
    emitter.forwards("orders", [Forward(2, record, CopyOf("log", Origin(0, 9)))])
    headers = [("x", b"1"), ("sow.origin", b"1@1"), ("sow.origin", b"log:0@9")]
    assert producer.produced == [("orders", b"{}", b"k", 2, headers)]


def test_what_an_owner_appends_goes_to_its_own_partition(emitter: Emitter, producer: FakeProducer) -> None:
    """As it is, in its order; a batch that comes after it is not committed before Kafka has it."""
    expire = Append(b"1", None, [("sow.command", b"expire"), ("sow.guard", b"5")])
    define = Append(None, b"{}", [("sow.command", b"define")])
    emitter.appends("orders", 3, [expire, define])
    assert producer.produced == [
        ("orders", None, b"1", 3, expire.headers),
        ("orders", b"{}", None, 3, define.headers),
    ]
    producer.error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    with pytest.raises(NotWritten):
        emitter.wait()


def test_a_dead_letter_is_the_record_and_the_reason(emitter: Emitter, producer: FakeProducer) -> None:
    """Bytes, headers and key as they came; the letter's own key says where the record stood."""
    letters = [
        DeadLetter(LogRecord(9, 5, b"\xff", b"{", [("x", None)]), "not json", "expected é"),
        DeadLetter(LogRecord(10, 5, None, None), "key missing", "\ud800"),
    ]
    emitter.dead("orders.dead", 3, letters)
    (_, value, key, partition, headers), (_, nothing, _, _, bare) = producer.produced
    assert (value, key, partition, nothing) == (b"{", b"3@9", 0, None)
    assert headers == [
        ("x", None),
        ("sow.original_key", b"\xff"),
        ("sow.reason", b"not json"),
        ("sow.message", "expected é".encode()),
    ]
    assert bare == [("sow.reason", b"key missing"), ("sow.message", b"?")]


def test_a_message_that_kafka_refuses_ends_the_batch(emitter: Emitter, producer: FakeProducer) -> None:
    """Nothing is committed on what was not written."""
    producer.error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    emitter.events(ORDERS, 0, [CHANGE])
    with pytest.raises(NotWritten):
        emitter.wait()
    assert emitter.end("orders.changes", 0) is None


def test_waiting_goes_on_until_kafka_has_it(emitter: Emitter, producer: FakeProducer) -> None:
    """A slow Kafka is waited for."""
    producer.stuck = 3
    emitter.events(ORDERS, 0, [CHANGE])
    emitter.wait()
    assert emitter.end("orders.changes", 0) == 1


def test_waiting_ends_when_the_service_is_to_stop(producer: FakeProducer) -> None:
    """A Kafka that is away does not keep a service from stopping."""
    emitter = Emitter({}, lambda: True)
    producer.stuck = 3
    emitter.events(ORDERS, 0, [CHANGE])
    with pytest.raises(NotWritten, match="stopping"):
        emitter.wait()


def test_waiting_ends_when_a_partition_has_no_leader(
    emitter: Emitter, producer: FakeProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its messages would hold up those of the other partitions; what Kafka has taken is no longer waited for."""
    asked: list[Any] = []

    def look(_: LeaderWatch, now: float, targets: set[Any]) -> dict[Any, Any]:
        asked.append(set(targets))
        return {("orders.changes", 1): (2,)} if len(asked) == 2 else {}

    monkeypatch.setattr(LeaderWatch, "look", look)
    emitter.forwards("orders", [Forward(0, LogRecord(4, 5, b"9", b"{}", []), CopyOf("log", Origin(1, 4)))])
    emitter.wait()
    producer.stuck = 5
    emitter.events(ORDERS, 1, [CHANGE])
    with pytest.raises(NotWritten, match=r"Kafka has no leader of orders.changes \[1\]"):
        emitter.wait()
    assert asked == [{("orders.changes", 1)}] * 2


def test_a_full_queue_lets_the_service_stop(producer: FakeProducer) -> None:
    """A Kafka that is away frees no space: a worker that is to stop waits no longer."""
    stopping = iter([False, True])
    emitter = Emitter({}, lambda: next(stopping))
    producer.no_space_for = [CHANGE.value] * 3
    with pytest.raises(NotWritten, match="stopping"):
        emitter.events(ORDERS, 0, [CHANGE])
    assert producer.produced == []
