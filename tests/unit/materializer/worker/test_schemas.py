"""What a worker finds out about schemas before it applies messages."""

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from sowline.codecs.resolutions import Resolution, Resolutions, entry_value, id_key, reader_key
from sowline.codecs.schema import Schema
from sowline.commands.command import LogRecord
from sowline.config.topic_definition import define_topic
from sowline.errors import SowlineError
from sowline.registry.client import RegistryAway, resolved
from sowline_materializer.partition.kafka_partition import PartitionReader
from sowline_materializer.worker import schemas as module
from sowline_materializer.worker.owned import OwnedPartitions
from sowline_materializer.worker.schemas import Schemas

ORDER = Schema("avro", '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}')
NEWER = Schema("avro", ORDER.text.replace("Order", "NewOrder"))
ENTRY = entry_value(Resolution(ORDER))
OWNED = ("orders", 0)


class Consumer:
    """Notes which partitions are paused."""

    def __init__(self) -> None:
        self.paused: list[int] = []

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Pause partitions."""
        self.paused += [one.partition for one in partitions]

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Continue with partitions."""
        for one in partitions:
            self.paused.remove(one.partition)


class SchemaLog:
    """A partition of `<log>.schemas` in memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entries: list[tuple[bytes, bytes]] = []

        def read(_: PartitionReader, resolutions: Resolutions) -> None:
            for key, value in self.entries:
                resolutions.add(key, value)

        monkeypatch.setattr(PartitionReader, "read_schemas", read)

    def schemas(self, topic: str, partition: int, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Write entries, as an emitter does."""
        assert (topic, partition) == ("orders.schemas", 0)
        self.entries += entries


class Asked:
    """A registry that gives one answer to everything, or raises it."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[int] = []

    def resolve(self, schema_id: int) -> Any:
        """Answer."""
        self.asked.append(schema_id)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def close(self) -> None:
        """End."""


class Played:
    """A worker's schemas over a log in memory; its pool runs at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, registry: Asked | None, **given: Any) -> None:
        self.time = 0.0
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.time))
        monkeypatch.setattr(module, "ThreadPoolExecutor", AtOnce)
        self.log = SchemaLog(monkeypatch)
        self.consumer: Any = Consumer()
        fields = {"message_type": "avro", "reader_schema": {"text": ORDER.text}, **given}
        self.definition = define_topic(**{"name": "orders", "key": "/id", **fields})
        self.owned = OwnedPartitions({"orders": self.definition})
        emitter: Any = self.log
        client: Any = registry
        self.schemas = Schemas({}, self.owned, emitter, client)

    def open(self, held: Schema = ORDER) -> None:
        """Open the partition, whose state has this reader schema."""
        bodies = self.schemas.opened(OWNED, held.digest)
        partition: Any = SimpleNamespace(bodies=bodies)
        self.owned.partitions[OWNED] = partition

    def ready(self, *records: LogRecord) -> bool:
        """Return whether messages can be applied at once."""
        return OWNED in self.schemas.take_ready(self.consumer, {OWNED: records})

    def released(self) -> list[LogRecord]:
        """Return the messages that can be applied by now."""
        return list(self.schemas.release(self.consumer).get(OWNED, []))

    @property
    def resolutions(self) -> Resolutions:
        """What the partition knows."""
        bodies = self.owned.partitions[OWNED].bodies
        assert bodies is not None
        return bodies.resolutions


class AtOnce:
    """A pool that does what it is given at once."""

    def __init__(self, *_: object) -> None:
        """Start no thread."""

    def submit(self, call: Any, *given: Any) -> Any:
        """Call, and return what came of it."""
        try:
            found = call(*given)
        except SowlineError as error:
            return SimpleNamespace(done=lambda: True, result=_raising(error))
        return SimpleNamespace(done=lambda: True, result=lambda: found)

    def shutdown(self, **_: object) -> None:
        """End no thread."""


def _raising(error: SowlineError) -> Any:
    def result() -> None:
        raise error

    return result


def message(schema_id: int, offset: int = 0) -> LogRecord:
    """Return a message that names a schema."""
    return LogRecord(offset, 0, None, b"\0" + schema_id.to_bytes(4, "big") + b"\2")


@pytest.fixture
def away() -> Asked:
    """A registry that is away."""
    return Asked(RegistryAway("expected a schema registry to answer, but: connection refused"))


def keys(played: Played) -> Iterator[bytes]:
    """Return the keys of the entries."""
    return (key for key, _ in played.log.entries)


def test_an_owner_writes_its_reader_schema_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: the next owner finds it."""
    played = Played(monkeypatch, None)
    played.open()
    played.open()
    assert list(keys(played)) == [reader_key(ORDER.digest)]


def test_a_state_of_an_unknown_reader_schema_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the schema, its records can't be read."""
    with pytest.raises(SowlineError, match=r"expected the reader schema .* of the state") as error:
        Played(monkeypatch, None).open(NEWER)
    assert error.value.reason == "schema missing"


def test_messages_wait_until_the_registry_answers(monkeypatch: pytest.MonkeyPatch, away: Asked) -> None:
    """In their order, and their partition is paused meanwhile."""
    played = Played(monkeypatch, away)
    played.open()
    first, second = message(7), message(7, 1)
    assert not played.ready(first)
    assert not played.ready(second)
    assert played.consumer.paused == [0]
    assert played.released() == []
    assert "connection refused" in played.schemas.waiting()[OWNED]
    away.answer = SimpleNamespace(schema=ORDER, subject="orders-value", version=3)
    played.time += 1
    assert played.released() == []
    assert played.released() == [first, second]
    assert (played.consumer.paused, played.schemas.waiting()) == ([], {})
    assert played.resolutions.writer(7) == Resolution(ORDER, "orders-value", 3)
    assert played.ready(message(7, 2))


def test_an_entry_of_a_replaced_owner_is_found(monkeypatch: pytest.MonkeyPatch, away: Asked) -> None:
    """It may be written after this owner has read the entries."""
    played = Played(monkeypatch, away)
    played.open()
    assert not played.ready(message(7))
    played.log.entries.append((id_key(7), ENTRY))
    played.time += 1
    assert len(played.released()) == 1


def test_a_replaced_owner_reads_the_schema_of_a_define(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next owner wrote both."""
    played = Played(monkeypatch, None)
    played.open()
    played.log.entries.append((reader_key(NEWER.digest), entry_value(Resolution(NEWER))))
    define = LogRecord(0, 0, None, b"{}", [("sow.command", b"define")])
    assert played.ready(define)
    assert played.resolutions.reader(NEWER.digest) == NEWER


def test_the_definition_is_asked_before_the_registry(monkeypatch: pytest.MonkeyPatch, away: Asked) -> None:
    """The pinned id, and the schemas of other ids."""
    pinned = {"text": ORDER.text, "id": 5, "subject": "orders-value"}
    played = Played(monkeypatch, away, reader_schema=pinned, schemas={6: {"text": NEWER.text}})
    played.open()
    assert played.ready(message(5), message(6))
    assert (played.resolutions.writer(5), away.asked) == (Resolution(ORDER, "orders-value"), [])
    assert played.resolutions.writer(6) == Resolution(NEWER)


def test_an_id_that_nothing_names_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a registry, the definition has all there is."""
    played = Played(monkeypatch, None)
    played.open()
    assert played.ready(message(9))
    assert played.resolutions.writer(9) == Resolution(None)


def test_what_is_taken_away_is_dropped(monkeypatch: pytest.MonkeyPatch, away: Asked) -> None:
    """The next owner reads it from the log."""
    played = Played(monkeypatch, away)
    played.open()
    assert not played.ready(message(7))
    assert played.schemas.is_waiting(OWNED)
    played.schemas.forget(OWNED)
    assert not played.schemas.is_waiting(OWNED)


def test_a_schema_that_can_not_be_used_is_an_answer() -> None:
    """It is definite, so messages must not wait for another one."""
    registry: Any = Asked(SowlineError("bad schema", "expected AVRO, PROTOBUF or JSON for schema 7, got XML"))
    assert resolved(registry, 7).problem == "expected AVRO, PROTOBUF or JSON for schema 7, got XML"


def test_a_partition_whose_messages_break_something_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before they are applied, or while they wait; the worker goes on."""
    played = Played(monkeypatch, Asked(RegistryAway("away")))

    def breaking(_: Any) -> None:
        raise KeyError("no such")

    for is_waiting in (False, True):
        played.open()
        if is_waiting:
            assert not played.ready(LogRecord(0, 0, None, b"\0\0\0\0\x09\x02"))
        monkeypatch.setattr(played.owned.partitions[OWNED].bodies, "unresolved", breaking)
        partition: Any = played.owned.partitions[OWNED]
        partition.checkpoint, partition.close = SimpleNamespace(next_offset=0), lambda: None
        assert played.released() == [] if is_waiting else not played.ready(LogRecord(0, 0, None, b""))
        assert "got KeyError: 'no such'" in played.owned.stopped.pop(OWNED)
        assert played.owned.partitions == {}
        assert played.released() == []
        assert played.owned.stopped == {}
