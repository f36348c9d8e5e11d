"""Topics whose message type has schemas, over a real Kafka and a real registry: their state is exact, and needs the
registry only once for each schema.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import orjson
import pytest
import yaml

from sowline import Client
from sowline.codecs.codec import codec_of
from sowline.codecs.framing import frame
from sowline.codecs.schema import Schema
from sowline.model.key import partition_of
from sowline.registry.client import Registry
from tests.integration.services import (
    ROOT,
    System,
    headers_of,
    http_refusal,
    system,
    wait_for,
)

PARTITIONS = 2
FIELDS: list[dict[str, Any]] = [{"name": "id", "type": "long"}, {"name": "qty", "type": "int"}]
STATE = {"name": "state", "type": "string", "default": "open"}


def avro(*fields: dict[str, Any]) -> Schema:
    """Return the schema of an order."""
    return Schema("avro", json.dumps({"type": "record", "name": "Order", "fields": list(fields)}))


ORDER = avro(*FIELDS)
WITH_STATE = avro(*FIELDS, STATE)
RENAMED = avro(FIELDS[0], {"name": "quantity", "aliases": ["qty"], "type": "int"}, STATE)
PROTO = Schema(
    "protobuf", 'syntax = "proto3"; message Order { int64 id = 1; int32 qty = 2; optional string note = 3; }'
)


class Relay:
    """A port that passes connections on to a registry, until it is away."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "", parts.port or 80)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = urlunsplit(parts._replace(netloc=f"127.0.0.1:{self._listener.getsockname()[1]}"))
        self.is_away = False
        self.connections = 0
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                given, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            if self.is_away:
                given.close()
                continue
            threading.Thread(target=self._pass_on, args=(given,), daemon=True).start()

    def _pass_on(self, given: socket.socket) -> None:
        with given, socket.create_connection(self._target) as target:
            back = threading.Thread(target=_copy, args=(target, given), daemon=True)
            back.start()
            _copy(given, target)
            back.join()

    def close(self) -> None:
        """End; connections that are open end with the registry."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    while data := _received(source):
        target.sendall(data)
    target.shutdown(socket.SHUT_WR)


def _received(source: socket.socket) -> bytes:
    try:
        return source.recv(1 << 16)
    except OSError:
        return b""


class Typed:
    """A system with one typed topic, and one of JSON, whose materializer uses a registry."""

    def __init__(self, made: System, name: str, relay: Relay | None) -> None:
        self.system = made
        self.name = name
        self.relay = relay
        self.materializer = made.service("materializer", registry="" if relay is None else relay.url)
        self.query = made.service("query_service")

    def start(self) -> None:
        """Start the services, and wait until they are ready."""
        for service in (self.materializer, self.query):
            service.start()
        for service in (self.materializer, self.query):
            service.wait_ready()

    def define(self, reader: Schema) -> None:
        """Pin another reader schema, for the services to come."""
        topics = yaml.safe_load(self.system.config.read_text())
        topics["topics"][0]["reader_schema"] = {"text": reader.text}
        self.system.config.write_text(yaml.safe_dump(topics))

    def send(
        self, schema: Schema, schema_id: int, *, headers: tuple[tuple[str, bytes], ...] = (), **body: Any
    ) -> None:
        """Write a message of any producer to the log, in the partition of its key."""
        codec = codec_of(schema)
        value = frame("confluent", schema.type, schema_id, codec.write(orjson.dumps(body)))
        key = str(body["id"])
        self.system.produce(self.name, value, key.encode(), partition_of(key, PARTITIONS), headers)

    def records(self) -> list[Any]:
        """Return the bodies of all records, once everything is applied."""
        self.system.wait_settled(self.query.url, self.name)
        with Client(self.query.url) as client:
            found = [message.data for message in client.sow(self.name) if message.command == "sow"]
        return sorted(found, key=lambda body: body["id"])

    def dead(self) -> list[tuple[str, str]]:
        """Return reasons and sentences of the dead letters."""
        self.system.wait_settled(self.query.url, self.name)
        letters = [headers_of(message) for message in self.system.read(f"{self.name}.dead")]
        return [(one["sow.reason"].decode(), one["sow.message"].decode()) for one in letters]

    def entries(self) -> list[str]:
        """Return the keys of `<log>.schemas`."""
        return [(message.key() or b"").decode() for message in self.system.read(f"{self.name}.schemas")]  # type: ignore[union-attr]

    def lose(self) -> None:
        """Lose the local state and the changes: only the log is left."""
        self.materializer.stop()
        self.query.stop()
        shutil.rmtree(self.system.directory / "sow")
        self.system.cluster.delete_topics([f"{self.name}.changes"])

    def operate(self, *arguments: str) -> str:
        """Run the command on the topic, and return what it prints."""
        where = ["--kafka", self.system.kafka, "--config", str(self.system.config)]
        where += ["--data-dir", str(self.system.directory / "sow")]
        command = [sys.executable, "-m", "sowline", arguments[0], self.name, *arguments[1:], *where]
        group = {"SOWLINE_GROUP": self.system.group}
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | group, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@contextmanager
def typed(
    kafka: str, directory: Path, reader: Schema = ORDER, relay: Relay | None = None, **given: Any
) -> Iterator[Typed]:
    """Lend a system with a typed topic; its services have not started."""
    name = f"t{uuid.uuid4().hex[:12]}"
    topic = {
        "name": name,
        "key": ["/id"],
        "partitions": PARTITIONS,
        "message_type": reader.type,
        "reader_schema": {"text": reader.text},
        **given,
    }
    with system(kafka, directory, [topic, {"name": f"{name}-json", "key": ["/id"]}]) as made:
        yield Typed(made, name, relay)


@pytest.fixture
def relay(registry: str) -> Iterator[Relay]:
    """A registry that can be away."""
    with closing(Relay(registry)) as relay:
        yield relay


@pytest.fixture
def subject() -> str:
    """A subject of the test's own."""
    return f"s{uuid.uuid4().hex[:12]}-value"


def ids_of(registry: str, subject: str, *schemas: Schema) -> list[int]:
    """Register schemas in their order; return their ids."""
    with closing(Registry(registry)) as client:
        return [client.register(subject, schema) for schema in schemas]


def test_a_registry_is_needed_once_for_each_schema(
    kafka: str, registry: str, relay: Relay, subject: str, tmp_path: Path
) -> None:
    """Whatever is lost later, the log and `<log>.schemas` lead to the same state, with the registry away."""
    old, new = ids_of(registry, subject, ORDER, WITH_STATE)
    with typed(kafka, tmp_path, WITH_STATE, relay) as topic:
        topic.start()
        for number in range(20):
            topic.send(ORDER, old, id=number, qty=number)
            topic.send(WITH_STATE, new, id=number + 100, qty=number, state="done")
        topic.send(
            ORDER,
            old,
            headers=(("sow.command", b"delta_publish"), ("sow.fields", b"/id,/qty")),
            id=100,
            qty=7,
        )
        expected = [{"id": n, "qty": n, "state": "open"} for n in range(20)]
        expected += [{"id": n + 100, "qty": n or 7, "state": "done"} for n in range(20)]
        assert topic.records() == expected
        ids = sorted(key for key in topic.entries() if key.startswith("id:"))
        assert ids == sorted([f"id:{old}", f"id:{new}"] * PARTITIONS)
        relay.is_away, asked = True, relay.connections
        topic.lose()
        topic.start()
        assert topic.records() == expected
        assert (relay.connections, topic.dead()) == (asked, [])
        topic.materializer.stop()
        verified = [json.loads(line) for line in topic.operate("verify", "--json").splitlines()]
        assert [one["equal"] for one in verified] == [True] * PARTITIONS


def test_messages_wait_for_a_registry_that_is_away(
    kafka: str, registry: str, relay: Relay, subject: str, tmp_path: Path
) -> None:
    """Nothing becomes a dead letter; other topics go on, and the service says what it waits for."""
    [order] = ids_of(registry, subject, ORDER)
    with typed(kafka, tmp_path, ORDER, relay) as topic:
        topic.start()
        relay.is_away = True
        topic.send(ORDER, order, id=1, qty=5)
        waits = "waiting for the schema registry: expected a schema registry to answer"
        url = f"{topic.materializer.url}/readyz"
        wait_for(lambda: waits in http_refusal(url), "the service to say that it waits for the registry")
        assert topic.materializer.metric("sowline_partitions_awaiting_schemas") == 1
        topic.send(ORDER, order, id=1, qty=6)
        topic.system.write(f"{topic.name}-json", {"id": 1})
        topic.system.wait_settled(topic.query.url, f"{topic.name}-json")
        relay.is_away = False
        assert topic.records() == [{"id": 1, "qty": 6}]
        assert topic.dead() == []
        topic.materializer.wait_ready()


def test_a_worker_that_is_killed_while_it_waits_loses_nothing(
    kafka: str, registry: str, relay: Relay, subject: str, tmp_path: Path
) -> None:
    """What it held back is still on the log."""
    [order] = ids_of(registry, subject, ORDER)
    with typed(kafka, tmp_path, ORDER, relay) as topic:
        topic.start()
        relay.is_away = True
        for number in range(10):
            topic.send(ORDER, order, id=number, qty=5)
        metric = "sowline_partitions_awaiting_schemas"
        wait_for(lambda: topic.materializer.metric(metric) == PARTITIONS, "the partitions to wait")
        topic.materializer.kill()
        relay.is_away = False
        topic.materializer.start()
        topic.materializer.wait_ready()
        assert topic.records() == [{"id": number, "qty": 5} for number in range(10)]


def test_what_the_registry_does_not_know_is_a_dead_letter(
    kafka: str, registry: str, relay: Relay, subject: str, tmp_path: Path
) -> None:
    """With the id, and for an incompatible schema with its subject; what comes after it is applied."""
    text = avro(FIELDS[0], {"name": "qty", "type": "string"})
    [order] = ids_of(registry, subject, ORDER)
    [other] = ids_of(registry, f"other-{subject}", text)
    [proto] = ids_of(registry, f"proto-{subject}", PROTO)
    with typed(kafka, tmp_path, ORDER, relay) as topic:
        topic.start()
        topic.send(ORDER, 999_999, id=1, qty=5)
        topic.send(text, other, id=1, qty="5")
        topic.send(PROTO, proto, id=1)
        topic.send(ORDER, order, id=1, qty=5)
        assert topic.records() == [{"id": 1, "qty": 5}]
        unknown, incompatible, of_another_type = topic.dead()
        assert unknown[0] == "unknown schema" and unknown[1].startswith("schema 999999: ")
        assert incompatible[0] == "incompatible schema"
        assert incompatible[1].startswith(f"schema {other} of other-{subject}: ")
        assert of_another_type[0] == "incompatible schema"


def test_protobuf_and_json_schema_are_read_by_their_ids(
    kafka: str, registry: str, relay: Relay, subject: str, tmp_path: Path
) -> None:
    """Unknown fields of a newer Protobuf schema are kept, and a message without its required fields is refused."""
    newer = Schema("protobuf", PROTO.text.replace("3; }", "3; double price = 9; }"))
    old, new = ids_of(registry, subject, PROTO, newer)
    with typed(kafka, tmp_path / "proto", PROTO, relay) as topic:
        topic.start()
        topic.send(PROTO, old, id=1, qty=5, note="n")
        topic.send(newer, new, id=2, qty=5, price=1.5)
        first, second = topic.records()
        assert first == {"id": 1, "qty": 5, "note": "n"}
        assert codec_of(newer).write(codec_of(newer).upgraded(orjson.dumps(second))) == codec_of(newer).write(
            b'{"id":2,"qty":5,"price":1.5}'
        )
    schema = Schema("json-schema", json.dumps({"type": "object", "required": ["id", "qty"]}))
    [order] = ids_of(registry, f"json-{subject}", schema)
    with typed(kafka, tmp_path / "json", schema, relay) as topic:
        topic.start()
        topic.send(schema, order, id=1, qty=5)
        value = frame("confluent", "json-schema", order, b'{"id":2}')
        topic.system.produce(topic.name, value, b"2", partition_of("2", PARTITIONS))
        assert topic.records() == [{"id": 1, "qty": 5}]
        assert [reason for reason, _ in topic.dead()] == ["bad message"]


def test_a_reader_schema_that_changes(kafka: str, tmp_path: Path) -> None:
    """Records are rewritten as they change, and all by a rebuild; a log that is applied again leads to the same."""
    schemas = {1: {"text": ORDER.text}, 2: {"text": WITH_STATE.text}, 3: {"text": RENAMED.text}}
    with typed(kafka, tmp_path, WITH_STATE, schemas=schemas) as topic:
        topic.start()
        for number in (1, 2):
            topic.send(ORDER, 1, id=number, qty=5)
        assert topic.records() == [{"id": n, "qty": 5, "state": "open"} for n in (1, 2)]
        topic.materializer.stop()
        topic.query.stop()
        topic.define(RENAMED)
        topic.start()
        wait_for(
            lambda: topic.materializer.log.count("topic limits changed") == PARTITIONS,
            "the definition to be changed in each partition",
        )
        topic.send(ORDER, 1, id=3, qty=6)
        topic.send(
            RENAMED,
            3,
            headers=(("sow.command", b"delta_publish"), ("sow.fields", b"/id,/state")),
            id=1,
            quantity=0,
            state="done",
        )
        mixed = [
            {"id": 1, "quantity": 5, "state": "done"},
            {"id": 2, "qty": 5, "state": "open"},
            {"id": 3, "quantity": 6, "state": "open"},
        ]
        assert topic.records() == mixed
        topic.lose()
        topic.start()
        assert topic.records() == mixed
        topic.materializer.stop()
        verified = [json.loads(line) for line in topic.operate("verify", "--json").splitlines()]
        assert [one["equal"] for one in verified] == [True] * PARTITIONS
        topic.operate("rebuild", "--yes")
        topic.materializer.start().wait_ready()
        mixed[1] = {"id": 2, "quantity": 5, "state": "open"}
        assert topic.records() == mixed
        topic.materializer.stop()
        verified = [json.loads(line) for line in topic.operate("verify", "--json").splitlines()]
        assert [one["equal"] for one in verified] == [True] * PARTITIONS


def test_a_reader_schema_that_can_not_read_the_records_is_refused(kafka: str, tmp_path: Path) -> None:
    """The partitions stop with a sentence, and the old schema makes them go on."""
    with typed(kafka, tmp_path, ORDER, schemas={1: {"text": ORDER.text}}) as topic:
        topic.start()
        topic.send(ORDER, 1, id=1, qty=5)
        assert topic.records() == [{"id": 1, "qty": 5}]
        topic.materializer.stop()
        topic.define(avro(FIELDS[0], {"name": "qty", "type": "string"}))
        topic.materializer.start()
        wait_for(lambda: topic.materializer.answers, "the service to answer")
        url = f"{topic.materializer.url}/readyz"
        wait_for(lambda: "/qty" in http_refusal(url), "the partitions to stop")
        topic.materializer.stop()
        topic.define(ORDER)
        topic.materializer.start().wait_ready()


def test_messages_without_a_frame_are_of_the_reader_schema(kafka: str, tmp_path: Path) -> None:
    """No registry and no ids: the definition says everything."""
    with typed(kafka, tmp_path, PROTO, framing="none") as topic:
        topic.start()
        value = codec_of(PROTO).write(b'{"id":1,"qty":5}')
        topic.system.produce(topic.name, value, b"1", partition_of("1", PARTITIONS))
        assert topic.records() == [{"id": 1, "qty": 5}]
        assert sorted(topic.entries()) == [f"reader:{PROTO.digest}"] * PARTITIONS
