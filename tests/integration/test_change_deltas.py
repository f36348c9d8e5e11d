"""A changes topic with deltas, read by a plain Kafka consumer that keeps copies of its own and applies them."""

import json
import random
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from sowline.model.key import partition_of
from sowline.model.limits import HEADROOM_BYTES
from tests.integration.changes import PROGRESS, check_chain, read_changes
from tests.integration.load import KEYS, Publishers, model_of, new_seed, write_marks
from tests.integration.model import Body, Position
from tests.integration.positions import position_of
from tests.integration.services import Service, System, headers_of, system
from tests.waiting import wait_for

BYTES_MAX = 1_000_000


def parsed(body: bytes) -> Body:
    """Return a body with the exact text of its fractions."""
    found = json.loads(body, parse_float=lambda text: ["fraction", text])
    assert isinstance(found, dict)
    return found


def merge_into(record: dict[str, Any], changed: dict[str, Any]) -> None:
    """Do what the contract says of a delta: objects field by field, all other values whole."""
    for name, value in changed.items():
        held = record.get(name)
        if isinstance(value, dict) and isinstance(held, dict):
            merge_into(held, value)
        else:
            record[name] = value


def take_out(record: dict[str, Any], path: str) -> None:
    """Take out what `removed` names: `/a/b`, in brackets where a name is no plain word."""
    *above, last = path.strip("[").strip("]").strip("/").split("/")
    for name in above:
        record = record[name]
    del record[last]


class Copies:
    """The records as a consumer keeps them that takes deltas where there are any, and values elsewhere."""

    def __init__(self) -> None:
        self.records: dict[bytes, Body] = {}
        self.positions: dict[int, Position] = {}
        self.taken = {"delta": 0, "whole": 0, "gone": 0, "removed": 0}

    def take(self, message: Message) -> None:
        """Apply a change; what comes out is always the value that the change carries, too."""
        key, value, headers = message.key(), message.value(), headers_of(message)
        assert isinstance(key, bytes)
        about = json.loads(headers["sow"])
        partition, position = message.partition() or 0, position_of(about["position"])
        if position <= self.positions.get(partition, (-1, 0)):
            return
        self.positions[partition] = position
        if value is None:
            self.taken["gone"] += 1
            assert not headers.keys() & {"sow.delta"}
            assert "removed" not in about
            self.records.pop(key, None)
        elif "sow.delta" in headers:
            self.taken["delta"] += 1
            self.taken["removed"] += "removed" in about
            merge_into(self.records[key], parsed(headers["sow.delta"]))
            for path in about.get("removed", ()):
                take_out(self.records[key], path)
        else:
            self.taken["whole"] += 1
            assert "removed" not in about
            self.records[key] = parsed(value)
        assert value is None or self.records[key] == parsed(value)


class Rig:
    """One topic with deltas, a materializer and a query service."""

    def __init__(self, made: System) -> None:
        self.system = made
        self.topic = made.topics.topics[0].name
        self.materializer: Service = made.service("materializer").start().wait_ready()
        self.query: Service = made.service("query_service").start().wait_ready()

    def produce(self, body: bytes, key: str) -> None:
        """Write a body byte for byte to where it belongs."""
        partition = partition_of(key, self.system.topic(self.topic).partitions)
        self.system.produce(self.topic, body, key.encode(), partition)

    def changes(self) -> list[Message]:
        """Return the changes in order, without progress events."""
        return [one for one in self.system.read(f"{self.topic}.changes") if one.key() not in PROGRESS]

    def copies(self) -> Copies:
        """Apply all changes one by one."""
        copies = Copies()
        for message in self.changes():
            copies.take(message)
        return copies


@pytest.fixture
def rig(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A system of the test's own."""
    name = f"t{uuid.uuid4().hex[:12]}-told"
    topic = {"name": name, "key": ["/id"], "partitions": 2, "delta": True, "record_bytes_max": BYTES_MAX}
    with system(kafka, tmp_path_factory.mktemp("topic"), [topic]) as made:
        yield Rig(made)


def test_form(rig: Rig) -> None:
    """A new record has none, an update its key and what changed, exactly as written; a deletion none."""
    rig.system.write(rig.topic, {"id": 1, "price": 1.5, "more": {"level": 1, "text": "é"}, "odd name": 0})
    rig.produce(b'{"id":1, "price":1.50, "more":{"level":1}}', "1")
    publisher = rig.system.publisher()
    publisher.delta_publish(rig.topic, {"id": 1, "price": None})
    publisher.delta_publish(rig.topic, {"id": 1})
    publisher.sow_delete(rig.topic, data={"id": 1})
    publisher.flush()
    rig.system.wait_settled(rig.query.url, rig.topic)
    headers = [headers_of(message) for message in rig.changes()]
    assert [one.get("sow.delta") for one in headers] == [
        None,
        b'{"id":1,"price":1.50}',
        b'{"id":1,"price":null}',
        b'{"id":1}',
        None,
    ]
    assert [json.loads(one["sow"]).get("removed") for one in headers] == [
        None,
        ["/more/text", "[/odd name]"],
        None,
        None,
        None,
    ]


def test_largest(rig: Rig) -> None:
    """A record of the largest size that changes as a whole fits with its delta beside both bodies.

    A topic that was made without room for deltas is given it.
    """
    rig.materializer.stop()
    before = str(2 * BYTES_MAX + HEADROOM_BYTES)
    limit = [ConfigEntry("max.message.bytes", before, incremental_operation=AlterConfigOpType.SET)]
    change = ConfigResource(ResourceType.TOPIC, f"{rig.topic}.changes", incremental_configs=limit)
    admin = AdminClient({"bootstrap.servers": rig.system.kafka})
    admin.incremental_alter_configs([change])[change].result()
    rig.materializer.start().wait_ready()
    noise = random.Random(1)
    for _ in range(3):
        text = noise.randbytes(BYTES_MAX // 2 - 20).hex()
        rig.produce(json.dumps({"id": 1, "text": text}).encode(), "1")
    rig.system.wait_settled(rig.query.url, rig.topic)
    assert rig.copies().taken == {"delta": 2, "whole": 1, "gone": 0, "removed": 0}


def test_switched(rig: Rig) -> None:
    """Deltas may come and go with any start: the state is the same, and so is all else that is written."""
    for number, (old, new) in enumerate([("true", "true"), ("true", "false"), ("false", "true")]):
        rig.materializer.stop()
        text = rig.system.config.read_text()
        rig.system.config.write_text(text.replace(f"delta: {old}", f"delta: {new}"))
        rig.materializer.start().wait_ready()
        rig.system.write(rig.topic, {"id": 1, "qty": number}, {"id": 1, "qty": number + 0.5})
        rig.system.wait_settled(rig.query.url, rig.topic)
    given = ["sow.delta" in headers_of(message) for message in rig.changes()]
    assert given == [False, True, False, False, True, True]
    check_chain(read_changes(rig.system, rig.topic)[0], model_of(rig.system, rig.topic))


def test_random_writes(rig: Rig) -> None:
    """Whatever is written, deltas lead to the values; followers and the state are what they would be without."""
    seed = new_seed()
    with Publishers(rig.system, rig.topic, seed, count=2) as publishers:
        wait_for(lambda: publishers.written > 300, "publishers to write")
        rig.materializer.kill()
        for number in range(2 * KEYS):
            rig.produce(json.dumps({"id": number % KEYS, "qty": number}).encode(), str(number % KEYS))
        rig.materializer.start()
        wait_for(lambda: publishers.written > 1500, "publishers to write on")
    write_marks(rig.system, rig.query.url, rig.topic)
    copies = rig.copies()
    assert all(copies.taken.values()), copies.taken
    model = model_of(rig.system, rig.topic)
    assert {key.decode(): body for key, body in copies.records.items()} == model.sow()
    check_chain(read_changes(rig.system, rig.topic)[0], model)
