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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
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
from tests.integration.services import ROOT, Service, System, headers_of, http_refusal, system
from tests.waiting import wait_for

PARTITIONS = 2
FIELDS: list[dict[str, Any]] = [{"name": "id", "type": "long"}, {"name": "qty", "type": "int"}]
STATE = {"name": "state", "type": "string", "default": "open"}


def avro(*fields: dict[str, Any]) -> Schema:
    """Return the schema of an order."""
    return Schema("avro", json.dumps({"type": "record", "name": "Order", "fields": list(fields)}))


ORDER = avro(*FIELDS)
WITH_STATE = avro(*FIELDS, STATE)
RENAMED = avro(FIELDS[0], {"name": "quantity", "aliases": ["qty"], "type": "int"}, STATE)
DESCRIBED = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["id", "qty"],
}
OBJECT = Schema("json-schema", json.dumps(DESCRIBED))
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
        self._is_away = False
        self._open: set[socket.socket] = set()
        self.connections = 0
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def leave(self) -> None:
        """Be away: open connections end, and new ones at once."""
        self._is_away = True
        for one in list(self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def come_back(self) -> None:
        """Answer again."""
        self._is_away = False

    def _accept(self) -> None:
        while True:
            try:
                given, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            if self._is_away:
                given.close()
                continue
            self._open.add(given)
            threading.Thread(target=self._pass_on, args=(given,), daemon=True).start()

    def _pass_on(self, given: socket.socket) -> None:
        with given, socket.create_connection(self._target) as target:
            back = threading.Thread(target=_copy, args=(target, given), daemon=True)
            back.start()
            _copy(given, target)
            back.join()
        self._open.discard(given)

    def close(self) -> None:
        """End; connections that are open end with the registry."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


class Typed:
    """A typed topic, and the services over it and its neighbors."""

    def __init__(self, made: System, name: str, materializer: Service, query: Service) -> None:
        self.system = made
        self.name = name
        self.materializer = materializer
        self.query = query

    def start(self) -> None:
        """Start the services, and wait until they are ready."""
        for service in (self.materializer, self.query):
            service.start()
        for service in (self.materializer, self.query):
            service.wait_ready()

    def stop(self) -> None:
        """Stop the services."""
        for service in (self.materializer, self.query):
            service.stop()

    def define(self, reader: Schema) -> None:
        """Pin another reader schema, for the services to come."""
        content = yaml.safe_load(self.system.config.read_text())
        [topic] = [one for one in content["topics"] if one["name"] == self.name]
        topic["reader_schema"] = {"text": reader.text}
        self.system.config.write_text(yaml.safe_dump(content))

    def send(
        self, schema: Schema, schema_id: int, *, headers: Sequence[tuple[str, bytes]] = (), **body: Any
    ) -> None:
        """Write a message of any producer to the log, in the partition of its key."""
        codec = codec_of(schema)
        value = frame("confluent", schema.type, schema_id, codec.write(orjson.dumps(body)))
        self.send_bytes(value, str(body["id"]), headers)

    def send_bytes(self, value: bytes, key: str, headers: Sequence[tuple[str, bytes]] = ()) -> None:
        """Write bytes to the log, in the partition of a key."""
        self.system.produce(self.name, value, key.encode(), partition_of(key, PARTITIONS), headers)

    def records(self) -> list[Any]:
        """Return the bodies of all records, once everything is applied."""
        self.system.wait_settled(self.query.url, self.name)
        return self.shown()

    def shown(self) -> list[Any]:
        """Return the bodies of the records that the query service has."""
        with Client(self.query.url) as client:
            found = [message.data for message in client.sow(self.name) if message.command == "sow"]
        return sorted(found, key=lambda body: body["id"])

    def dead(self) -> list[tuple[str, str]]:
        """Return reasons and sentences of the dead letters, once everything is applied."""
        self.system.wait_settled(self.query.url, self.name)
        letters = [headers_of(message) for message in self.system.read(f"{self.name}.dead")]
        return [(one["sow.reason"].decode(), one["sow.message"].decode()) for one in letters]

    def entries(self) -> list[str]:
        """Return the keys of `<log>.schemas`, in their order."""
        return sorted(str(message.key(), "utf-8") for message in self.system.read(f"{self.name}.schemas"))  # type: ignore[arg-type]

    def defines(self) -> int:
        """Return how many `define` commands the log has."""
        commands = [headers_of(message).get("sow.command") for message in self.system.read(self.name)]
        return commands.count(b"define")

    def lose(self) -> None:
        """Lose the local state and the changes: only the log is left."""
        self.stop()
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

    def verify(self) -> None:
        """Let the command compare the log, the changes and the local state: all are equal."""
        verified = [json.loads(line) for line in self.operate("verify", "--json").splitlines()]
        assert [one["equal"] for one in verified] == [True] * PARTITIONS


class TypedTopics:
    """Topics of each kind, by name, and what they share: services that run, and a registry that can be away."""

    def __init__(self, made: System, names: Mapping[str, str], relay: Relay | None) -> None:
        registry = "" if relay is None else relay.url
        materializer = made.service("materializer", registry=registry)
        query = made.service("query_service")
        self._topics = {kind: Typed(made, name, materializer, query) for kind, name in names.items()}
        self._relay = relay

    def __getitem__(self, kind: str) -> Typed:
        return self._topics[kind]

    @property
    def relay(self) -> Relay:
        """The relay in front of the registry."""
        assert self._relay is not None, "these topics need no registry"
        return self._relay


@contextmanager
def typed_topics(
    kafka: str, directory: Path, kinds: Mapping[str, Mapping[str, Any]], relay: Relay | None = None
) -> Iterator[TypedTopics]:
    """Lend a system with a topic of each kind; its services run."""
    prefix = f"t{uuid.uuid4().hex[:12]}"
    names = {kind: f"{prefix}-{kind}" for kind in kinds}
    topics = [
        {"name": names[kind], "key": ["/id"], "partitions": PARTITIONS, **given}
        for kind, given in kinds.items()
    ]
    with system(kafka, directory, topics) as made:
        lent = TypedTopics(made, names, relay)
        lent[min(kinds)].start()
        yield lent


def pinned(reader: Schema, **given: Any) -> dict[str, Any]:
    """Return what defines a topic with a reader schema."""
    return {"message_type": reader.type, "reader_schema": {"text": reader.text}, **given}


@pytest.fixture(scope="module")
def running(kafka: str, registry: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TypedTopics]:
    """Topics that use a registry, most of them one test's own."""
    kinds = {
        "avro": pinned(ORDER),
        "waits": pinned(ORDER),
        "evolved": pinned(WITH_STATE),
        "proto": pinned(PROTO),
        "schema": pinned(OBJECT),
        "bare": pinned(PROTO, framing="none"),
        "plain": {},
    }
    directory = tmp_path_factory.mktemp("typed")
    with closing(Relay(registry)) as relay, typed_topics(kafka, directory, kinds, relay) as lent:
        yield lent


@pytest.fixture
def topics(running: TypedTopics) -> Iterator[TypedTopics]:
    """The same, for a test that lets the registry be away: it is back afterwards."""
    yield running
    running.relay.come_back()


@pytest.fixture(scope="module")
def changing(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TypedTopics]:
    """Topics whose reader schema changes, each one test's own; their definition has all that messages name."""
    schemas = {1: {"text": ORDER.text}, 3: {"text": RENAMED.text}}
    kinds = {name: pinned(WITH_STATE, schemas=schemas) for name in ("refused", "rewritten")}
    with typed_topics(kafka, tmp_path_factory.mktemp("changing"), kinds) as lent:
        yield lent


@pytest.fixture
def subject() -> str:
    """A subject of the test's own."""
    return f"s{uuid.uuid4().hex[:12]}-value"


def ids_of(registry: str, subject: str, *schemas: Schema) -> list[int]:
    """Register schemas in their order; return their ids."""
    with closing(Registry(registry)) as client:
        return [client.register(subject, schema) for schema in schemas]


def delta(*fields: str) -> list[tuple[str, bytes]]:
    """Return the headers of a delta that names what it changes."""
    return [("sow.command", b"delta_publish"), ("sow.fields", ",".join(fields).encode())]


def test_what_the_registry_does_not_know_is_a_dead_letter(
    topics: TypedTopics, registry: str, subject: str
) -> None:
    """With the id, and for an incompatible schema with its subject; what comes after it is applied."""
    topic, text = topics["avro"], avro(FIELDS[0], {"name": "qty", "type": "string"})
    [order] = ids_of(registry, subject, ORDER)
    [other] = ids_of(registry, f"other-{subject}", text)
    [proto] = ids_of(registry, f"proto-{subject}", PROTO)
    topic.send(ORDER, 999_999, id=1, qty=5)
    topic.send(text, other, id=1, qty="5")
    topic.send(PROTO, proto, id=1)
    topic.send(ORDER, order, id=1, qty=5)
    assert topic.records() == [{"id": 1, "qty": 5}]
    unknown, incompatible, of_another_type = topic.dead()
    assert (unknown[0], unknown[1][:16]) == ("unknown schema", "schema 999999: e")
    assert incompatible[0] == "incompatible schema"
    assert incompatible[1].startswith(f"schema {other} of other-{subject}: ")
    assert of_another_type[0] == "incompatible schema"


def test_protobuf_keeps_the_fields_of_newer_schemas(topics: TypedTopics, registry: str, subject: str) -> None:
    """The reader schema does not name them, and a consumer that knows them gets them back."""
    newer = Schema("protobuf", PROTO.text.replace("3; }", "3; double price = 9; }"))
    old, new = ids_of(registry, subject, PROTO, newer)
    topic = topics["proto"]
    topic.send(PROTO, old, id=1, qty=5, note="n")
    topic.send(newer, new, id=2, qty=5, price=1.5)
    first, second = topic.records()
    assert first == {"id": 1, "qty": 5, "note": "n"}
    assert orjson.loads(codec_of(newer).upgraded(orjson.dumps(second))) == {"id": 2, "qty": 5, "price": 1.5}


def test_json_is_checked_under_its_schema(topics: TypedTopics, registry: str, subject: str) -> None:
    """A message without a required field is refused."""
    [order] = ids_of(registry, subject, OBJECT)
    topic = topics["schema"]
    topic.send(OBJECT, order, id=1, qty=5)
    topic.send_bytes(frame("confluent", "json-schema", order, b'{"id":2}'), "2")
    assert topic.records() == [{"id": 1, "qty": 5}]
    assert [reason for reason, _ in topic.dead()] == ["bad message"]


def test_messages_without_a_frame_are_of_the_reader_schema(topics: TypedTopics) -> None:
    """No registry and no ids: the definition has everything."""
    topic = topics["bare"]
    topic.send_bytes(codec_of(PROTO).write(b'{"id":1,"qty":5}'), "1")
    assert topic.records() == [{"id": 1, "qty": 5}]
    assert topic.entries() == [f"reader:{PROTO.digest}"] * PARTITIONS


def test_messages_wait_for_a_registry_that_is_away(topics: TypedTopics, registry: str, subject: str) -> None:
    """Nothing becomes a dead letter, other topics go on, and the service reports what it waits for.

    A worker that is killed meanwhile loses nothing: what it held back is still on the log.
    """
    [order] = ids_of(registry, subject, ORDER)
    topic, plain = topics["waits"], topics["plain"]
    topics.relay.leave()
    for number in range(10):
        topic.send(ORDER, order, id=number, qty=5)
    waits = "waiting for the schema registry: expected a schema registry to answer"
    ready, metric = f"{topic.materializer.url}/readyz", "sowline_partitions_awaiting_schemas"
    wait_for(lambda: waits in http_refusal(ready), "the service to report that it waits for the registry")
    wait_for(lambda: topic.materializer.metric(metric) == PARTITIONS, "the partitions to wait")
    topic.send(ORDER, order, id=1, qty=6)
    plain.system.write(plain.name, {"id": 1})
    assert plain.records() == [{"id": 1}]
    topic.materializer.kill()
    topic.materializer.start()
    wait_for(
        lambda: topic.materializer.answers and topic.materializer.metric(metric) == PARTITIONS,
        "the partitions to wait again",
    )
    topics.relay.come_back()
    assert topic.records() == [{"id": number, "qty": 6 if number == 1 else 5} for number in range(10)]
    assert topic.dead() == []
    topic.materializer.wait_ready()


@pytest.mark.long
def test_a_registry_is_needed_once_for_each_schema(topics: TypedTopics, registry: str, subject: str) -> None:
    """Whatever is lost later, the log and `<log>.schemas` lead to the same state, with the registry away."""
    old, new = ids_of(registry, subject, ORDER, WITH_STATE)
    topic = topics["evolved"]
    for number in range(20):
        topic.send(ORDER, old, id=number, qty=number)
        topic.send(WITH_STATE, new, id=number + 100, qty=number, state="done")
    topic.send(ORDER, old, headers=delta("/id", "/qty"), id=100, qty=7)
    expected = [{"id": n, "qty": n, "state": "open"} for n in range(20)]
    expected += [{"id": n + 100, "qty": n or 7, "state": "done"} for n in range(20)]
    assert topic.records() == expected
    ids = [key for key in topic.entries() if key.startswith("id:")]
    assert ids == sorted([f"id:{old}", f"id:{new}"] * PARTITIONS)
    topics.relay.leave()
    asked = topics.relay.connections
    topic.lose()
    topic.start()
    assert topic.records() == expected
    assert (topics.relay.connections, topic.dead()) == (asked, [])
    topic.verify()


def test_a_reader_schema_that_can_not_read_the_records_is_refused(changing: TypedTopics) -> None:
    """The partitions stop with a sentence, and continue under the previous schema."""
    topic = changing["refused"]
    topic.send(ORDER, 1, id=1, qty=5)
    assert topic.records() == [{"id": 1, "qty": 5, "state": "open"}]
    topic.materializer.stop()
    topic.define(avro(FIELDS[0], {"name": "qty", "type": "string"}))
    topic.materializer.start()
    ready = f"{topic.materializer.url}/readyz"
    wait_for(lambda: "/qty" in http_refusal(ready), "the partitions to stop")
    topic.materializer.stop()
    topic.define(WITH_STATE)
    topic.materializer.start().wait_ready()


def test_a_reader_schema_that_changes(changing: TypedTopics) -> None:
    """Records are rewritten as they change, and all by a rebuild; a log that is applied again leads to the same."""
    topic = changing["rewritten"]
    for number in (1, 2):
        topic.send(ORDER, 1, id=number, qty=5)
    assert topic.records() == [{"id": n, "qty": 5, "state": "open"} for n in (1, 2)]
    topic.lose()  # before a `define` is on the log: all is made again under the first reader schema
    topic.define(RENAMED)
    topic.start()
    wait_for(lambda: topic.defines() == PARTITIONS, "the definition to be changed in each partition")
    topic.send(ORDER, 1, id=3, qty=6)
    topic.send(RENAMED, 3, headers=delta("/id", "/state"), id=1, quantity=0, state="done")
    mixed = [
        {"id": 1, "quantity": 5, "state": "done"},
        {"id": 2, "qty": 5, "state": "open"},
        {"id": 3, "quantity": 6, "state": "open"},
    ]
    assert topic.records() == mixed
    topic.lose()
    topic.start()
    assert topic.records() == mixed
    topic.verify()
    topic.materializer.stop()
    topic.operate("rebuild")
    topic.materializer.start().wait_ready()
    mixed[1] = {"id": 2, "quantity": 5, "state": "open"}
    wait_for(lambda: topic.shown() == mixed, "all records under the new schema")
    topic.verify()
