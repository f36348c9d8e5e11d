"""The native reader on a real Kafka: it reads what Python's reader reads, and a load of it leads to the same."""

import random
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from structlog.testing import capture_logs

from sowline.config.kafka_options import KafkaConfig, kafka_config
from sowline.kafka.admin import Cluster
from sowline.kafka.clients import exact_producer, read_range
from sowline.kafka.messages import headers_of
from sowline.kafka.native_reader import read_natively
from tests.integration.raw_headers import produce_raw
from tests.property.test_native_load import DEFINITIONS, loaded, random_messages
from tests.property.world import Written
from tests.waiting import SECONDS_MAX, wait_for

native: ModuleType = pytest.importorskip("sowline_native")

LOADS = 40
"""Partitions of random changes, each with another seed."""

BATCH_MAX = 7
"""So few messages a batch that most loads have several."""

NO_OPTIONS: KafkaConfig = {}

Read = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]


class Rig:
    """A topic of the test's own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        self.kafka = kafka_config(bootstrap)
        self._admin = AdminClient({**self.kafka})

    def make(self, partitions: int = 1) -> None:
        """Make the topic."""
        self._admin.create_topics([NewTopic(self.topic, partitions, 1)])[self.topic].result(SECONDS_MAX)
        wait_for(lambda: self.topic in self._admin.list_topics(timeout=10).topics, "the topic to be there")

    def delete(self) -> None:
        """Delete the topic."""
        self._admin.delete_topics([self.topic])[self.topic].result(SECONDS_MAX)
        wait_for(lambda: self.topic not in self._admin.list_topics(timeout=10).topics, "the topic to be gone")

    def cut(self, offset: int) -> None:
        """Let partition 0 begin at an offset."""
        at = TopicPartition(self.topic, 0, offset)
        self._admin.delete_records([at])[at].result(SECONDS_MAX)

    def write(self, messages: Iterable[Written], partition: int = 0) -> None:
        """Write messages."""
        producer = exact_producer(self.kafka)
        for message in messages:
            key, value, headers = message.key(), message.value(), message.headers()
            producer.produce(self.topic, value, key, partition, headers=list(headers))
        assert producer.flush(SECONDS_MAX) == 0

    def end(self, partition: int = 0) -> int:
        """Return the end of a partition."""
        return Cluster(self.kafka).ends(self.topic, [partition])[partition]

    def by_python(
        self, start: int, end: int, partition: int = 0, options: KafkaConfig = NO_OPTIONS
    ) -> Iterable[Sequence[Message]]:
        """Read with Python's reader."""
        return read_range({**self.kafka, **options}, self.topic, partition, start, end, BATCH_MAX)

    def natively(
        self, start: int, end: int, partition: int = 0, options: KafkaConfig = NO_OPTIONS
    ) -> Iterable[Sequence[Message]]:
        """Read with the native reader."""
        return read_natively(native, {**self.kafka, **options}, self.topic, partition, start, end)


@pytest.fixture
def rig(kafka: str, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """A topic that is not there yet."""
    monkeypatch.setattr("sowline.kafka.native_reader.BATCH_MAX", BATCH_MAX)
    return Rig(kafka, f"{prefix}native")


def plain(batches: Iterable[Sequence[Message]]) -> list[Read]:
    """Return what was read."""
    return [
        (message.offset() or 0, message.key(), message.value(), headers_of(message))
        for batch in batches
        for message in batch
    ]


def read_alike(rig: Rig, start: int, end: int) -> list[Read]:
    """Read with both readers; return what both have read, with nothing left to Python."""
    with capture_logs() as logs:
        found = plain(rig.natively(start, end))
    assert logs == []
    assert found == plain(rig.by_python(start, end))
    return found


@pytest.mark.long
def test_loads_lead_to_the_same(rig: Rig) -> None:
    """Entries, due times, checksums, checkpoints and errors: whatever owners have written."""
    rig.make(LOADS)
    for seed in range(LOADS):
        chance = random.Random(seed)
        rig.write(random_messages(seed, 100), seed)
        end = rig.end(seed)
        definition, pending = chance.choice(DEFINITIONS), chance.choice((1, 300, 2000, 10**9))
        by_python = loaded(definition, rig.by_python(0, end, seed), pending, None)
        assert loaded(definition, rig.natively(0, end, seed), pending, native) == by_python, seed
        assert loaded(definition, rig.natively(0, end, seed), pending, None) == by_python, seed


def test_messages_of_all_kinds(rig: Rig) -> None:
    """Tombstones, empty keys and values, and headers without a value, twice, not at all, or not UTF-8."""
    rig.make()
    written = [
        Written(0, b"k", None, []),
        Written(1, b"", b"", [("sow", b"")]),
        Written(2, b"k", b"v", [("sow", None), ("sow", b"x"), ("other", b"\0\xff")]),
        Written(3, None, b"v" * 100_000, []),  # type: ignore[arg-type]
    ]
    rig.write(written)
    produce_raw(rig.bootstrap, rig.topic, b"v", b"k", [(b"\xff", b"x"), (b"sow", b"y")])
    found = read_alike(rig, 0, 5)
    assert [message[:3] for message in found[:4]] == [(m.at, m.name, m.body) for m in written]
    assert len(found) == 5


@pytest.mark.parametrize(("start", "end"), [(0, 30), (3, 30), (0, 29), (5, 6), (7, 22), (4, 1000), (9, 9)])
def test_a_range_of_offsets(rig: Rig, start: int, end: int) -> None:
    """From the start up to the end, or up to that of the partition."""
    rig.make()
    rig.write(Written(at, b"%d" % at, b"v", []) for at in range(30))
    assert [message[0] for message in read_alike(rig, start, end)] == list(range(start, min(end, 30)))


def test_transactions(rig: Rig) -> None:
    """What was aborted is not read, and the markers at the end hold nothing up."""
    rig.make()
    producer = Producer({**rig.kafka, "transactional.id": rig.topic})
    producer.init_transactions()
    for number, end in enumerate([producer.commit_transaction, producer.abort_transaction] * 3):
        producer.begin_transaction()
        for _ in range(5):
            producer.produce(rig.topic, b"%d" % number, b"k")
        end()
    found = read_alike(rig, 0, rig.end())
    assert [int(value or b"") for _, _, value, _ in found] == [n for n in (0, 2, 4) for _ in range(5)]


def test_a_head_that_is_gone(rig: Rig) -> None:
    """Both readers raise the same error: a load that began behind the head would lack its records."""
    rig.make()
    rig.write(Written(at, b"k", b"v", []) for at in range(9))
    rig.cut(5)
    assert errors_alike(rig, 0, 9)


def test_a_topic_that_is_replaced_while_it_is_read(rig: Rig) -> None:
    """The offsets of the old topic do not exist in the new one."""
    rig.make()
    rig.write(Written(at, b"k", b"v" * 100, []) for at in range(100))
    few = {"queued.min.messages": "1", "fetch.message.max.bytes": "1000"}
    batches = iter(rig.natively(0, 200, options=few))
    assert next(batches)
    rig.delete()
    rig.make()
    with pytest.raises(KafkaException):
        list(batches)
    assert errors_alike(rig, 50, 100)


def errors_alike(rig: Rig, start: int, end: int, options: KafkaConfig = NO_OPTIONS) -> tuple[Any, ...]:
    """Return code and text of the error that both readers raise."""
    raised = []
    for read in (rig.by_python, rig.natively):
        with pytest.raises(KafkaException) as error:
            list(read(start, end, options=options))
        raised.append((error.value.args[0].code(), error.value.args[0].str()))
    assert raised[0] == raised[1]
    return raised[0]


@pytest.mark.parametrize(
    "options", [{"no.such.setting": "1"}, {"fetch.wait.max.ms": "many"}, {"isolation.level": "none"}]
)
def test_a_setting_that_librdkafka_refuses(rig: Rig, options: dict[str, str]) -> None:
    """Python's client raises its error, and the log has the reason."""
    with capture_logs() as logs:
        _, text = errors_alike(rig, 0, 9, options)
    assert [(line["event"], line["why"]) for line in logs] == [("Python reads a load", text)]


def test_messages_stay_as_long_as_their_batch(rig: Rig) -> None:
    """A batch may be used after its reader is closed."""
    rig.make()
    rig.write(Written(at, b"%d" % at, b"v" * 1000, [("sow", b"x")]) for at in range(30))
    batches = list(rig.natively(0, 30))
    keys = [message.key() for batch in batches for message in batch]
    assert keys == [b"%d" % at for at in range(30)]
    for batch in batches:
        offsets = [message.offset() for message in batch]
        assert [message.offset() for message in batch[1::2]] == offsets[1::2]
        assert [message.offset() for message in batch[::-1]] == offsets[::-1]
        assert (batch[-1].offset(), batch[0].partition(), batch[0].error()) == (offsets[-1], 0, None)
        for index in (len(batch), -len(batch) - 1):
            with pytest.raises(IndexError):
                batch[index]
