"""Computed fields from plain Kafka records to queries, subscriptions and Kafka consumers, over real processes."""

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest
import yaml

from sowline.client.client import Client
from sowline.model.key import partition_of, sow_key
from tests.integration.changes import outcomes_of, read_changes
from tests.integration.services import Service, System, headers_of, http_text, system
from tests.integration.wire import Json, Wire, wire
from tests.waiting import SECONDS_MAX, wait_for

SOWLINE = Path(sys.executable).with_name("sowline")
PARTITIONS = 2
DELTA = ("sow.command", b"delta_publish")
DELETE = ("sow.command", b"sow_delete")
TOPIC: Json = {
    "key": "/id",
    "partitions": PARTITIONS,
    "preprocessing": ["COALESCE(/id, CONCAT(/region, '-', /number)) AS /id"],
    "enrichment": [
        "COALESCE(/qty, /qty OF PREVIOUS) * COALESCE(/price, /price OF PREVIOUS) AS /value HINT OPTIONAL",
        "COALESCE(/updates OF PREVIOUS, 0) + 1 AS /updates",
        "UNIX_TIMESTAMP() AS /at",
    ],
}


class Served:
    """A topic with computed fields, its materializer and a query service."""

    def __init__(self, made: System) -> None:
        self.system = made
        self.topic = made.topics.topics[0].name
        self.materializer = made.service("materializer").start()
        self.query: Service = made.service("query_service").start()
        for service in (self.materializer, self.query):
            service.wait_ready()

    def write(self, body: Json, *headers: tuple[str, bytes], partition: int = 0) -> int:
        """Write a plain Kafka record without a key, wherever it belongs, and wait until the query service has it."""
        offset = self.system.produce(self.topic, orjson.dumps(body), None, partition, headers)
        self.settle()
        return offset

    def settle(self) -> None:
        """Wait until the query service has all that is on the log, and all that it leads to."""
        self.system.wait_settled(self.query.url, self.topic)

    def records(self, filter: str = "") -> dict[str, Json]:
        """Return the records that match, by their id."""
        body = orjson.dumps({"filter": filter})
        lines = http_text(f"{self.query.url}/v1/topics/{self.topic}/sow", body).splitlines()
        bodies = [json.loads(line)["data"] for line in lines]
        return {body["id"]: body for body in bodies}

    def written(self, prefix: str) -> list[tuple[str, int]]:
        """Return the Kafka keys on the log that begin like this, with their partitions."""
        log = [((message.key() or b"").decode(), message) for message in self.system.read(self.topic)]
        return [(key, message.partition() or 0) for key, message in log if key.startswith(prefix)]

    def sow_key(self, id: str) -> str:
        """Return a record's SOW key."""
        return sow_key(self.system.topic(self.topic).declared.domain_prefix, id).decode()

    def log_time(self, partition: int, offset: int) -> float:
        """Return when the log took a record, in seconds since 1970."""
        (message,) = (
            message
            for message in self.system.read(self.topic)
            if (message.partition(), message.offset()) == (partition, offset)
        )
        return message.timestamp()[1] / 1000


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One system for all tests here."""
    topics = [TOPIC | {"name": f"t{uuid.uuid4().hex[:12]}-enriched"}]
    with system(kafka, tmp_path_factory.mktemp("enriched"), topics) as made:
        yield Served(made)


@pytest.fixture
def client(served: Served) -> Iterator[Wire]:
    """A connection of the test's own."""
    with wire(served.query.url) as client:
        yield client


def owner_of(id: str) -> int:
    """Return the partition that a record belongs to."""
    return partition_of(id, PARTITIONS)


def test_a_query_sees_computed_fields(served: Served) -> None:
    """They are in the record and in reach of filters, the key among them."""
    offset = served.write({"region": "eu", "number": 1, "qty": 3, "price": 2.5}, partition=owner_of("eu-1"))
    expected = {"region": "eu", "number": 1, "qty": 3, "price": 2.5, "id": "eu-1", "value": 7.5, "updates": 1}
    expected["at"] = served.log_time(owner_of("eu-1"), offset)
    assert served.records("/id = 'eu-1' AND /value = 7.5 AND /at > 1700000000") == {"eu-1": expected}


def test_a_delta_is_computed_with_the_record_before(served: Served) -> None:
    """Anyone who writes it names the record by the key or by what makes the key."""
    where = owner_of("eu-2")
    served.write({"region": "eu", "number": 2, "qty": 3, "price": 2}, partition=where)
    served.write({"region": "eu", "number": 2, "qty": 5}, DELTA, partition=where)
    served.write({"id": "eu-2", "note": "x"}, DELTA, partition=where)
    record = served.records("/number = 2")["eu-2"]
    assert (record["qty"], record["value"], record["updates"], record["note"]) == (5, 10, 3, "x")


def test_a_message_in_the_wrong_partition_finds_its_owner(served: Served) -> None:
    """The log there has it as it came; its record is computed once, where it belongs."""
    ids = [f"far-{number}" for number in range(10)]
    for number, id in enumerate(ids):
        body = orjson.dumps({"region": "far", "number": number, "qty": 1, "price": number})
        served.system.produce(served.topic, body, None, 1 - owner_of(id))
    wait_for(lambda: len(served.records("/region = 'far'")) == len(ids), "every forwarded record")
    found = served.records("/region = 'far'")
    assert {id: (body["value"], body["updates"]) for id, body in found.items()} == {
        id: (number, 1) for number, id in enumerate(ids)
    }
    forwarded = [
        message for message in served.system.read(served.topic) if "sow.origin" in headers_of(message)
    ]
    assert len(forwarded) == len(ids)
    assert all("id" not in orjson.loads(message.value() or b"") for message in forwarded)


def test_a_subscriber_sees_computed_fields(served: Served, client: Wire) -> None:
    """A record comes into focus and leaves it by a field that nobody sent."""
    where = owner_of("us-1")
    client.send(
        "sow_and_subscribe", topic=served.topic, filter="/region = 'us' AND /value > 10", options="oof"
    )
    assert client.group()
    received = []
    for qty in (1, 20, 2):
        served.write({"region": "us", "number": 1, "qty": qty, "price": 1}, partition=where)
        received += client.heartbeat()
    assert [(message["command"], message["data"]["value"]) for message in received] == [
        ("publish", 20),
        ("oof", 2),
    ]
    assert {message["sow_key"] for message in received} == {served.sow_key("us-1")}


def test_a_delete_by_body_computes_the_key(served: Served) -> None:
    """It names its record as a publish does."""
    where = owner_of("eu-3")
    served.write({"region": "eu", "number": 3}, partition=where)
    assert "eu-3" in served.records()
    served.write({"region": "eu", "number": 3}, DELETE, partition=where)
    assert "eu-3" not in served.records()
    changes, _ = read_changes(served.system, served.topic)
    last = [change for change in changes if change.sow_key == served.sow_key("eu-3")][-1]
    assert (last.body, last.about["outcome"]) == (None, "deleted 1")


def test_the_client_takes_the_kafka_key_from_what_preprocessing_makes(served: Served) -> None:
    """Its commands are where their records belong, so none is forwarded, and they count in their order."""
    with Client(served.query.url) as client:
        for number in range(8):
            client.publish(served.topic, {"region": "client", "number": number, "qty": 1})
        client.delta_publish(served.topic, {"region": "client", "number": 0, "price": 4})
        client.delta_publish(served.topic, {"id": "client-1", "price": 5})
        client.sow_delete(served.topic, data={"region": "client", "number": 2})
        client.flush()
    served.settle()
    values = {id: body.get("value") for id, body in served.records("/region = 'client'").items()}
    assert values == {"client-0": 4, "client-1": 5} | {f"client-{number}": None for number in range(3, 8)}
    written = served.written("client-")
    assert written == [(id, owner_of(id)) for id, _ in written]
    assert len(written) == 8 + 3


def test_the_command_line_takes_the_kafka_key_from_what_preprocessing_makes(served: Served) -> None:
    """Publishing, merging and deleting need no key field; what makes no key is refused at once."""
    body = {"region": "shell", "number": 1, "qty": 2}
    assert sowline(served, "publish", orjson.dumps(body), orjson.dumps(body | {"number": 2})) == (0, "")
    assert sowline(served, "delta-publish", b'{"region": "shell", "number": 1, "price": 3}') == (0, "")
    assert sowline(served, "delete", b"--data", b'{"region": "shell", "number": 2}') == (0, "")
    served.settle()
    assert {id: body["value"] for id, body in served.records("/region = 'shell'").items()} == {"shell-1": 6}
    assert sorted(served.written("shell-")) == sorted((id, owner_of(id)) for id in ("shell-1", "shell-2") * 2)
    code, output = sowline(served, "publish", b'{"id": 0.5, "region": "shell"}')
    assert (code, output.startswith("bad key: record 1: expected a string, an integer or a boolean")) == (
        1,
        True,
    )
    assert len(served.written("shell-")) == 4


def sowline(served: Served, command: str, *arguments: bytes) -> tuple[int, str]:
    """Run a command of the command line on the topic; return its exit code and what it says in error."""
    line: list[str | bytes | Path] = [SOWLINE, command, "--url", served.query.url, served.topic, *arguments]
    done = subprocess.run(line, capture_output=True, timeout=SECONDS_MAX)
    return done.returncode, done.stderr.decode()


def test_what_makes_no_key_is_a_dead_letter(served: Served) -> None:
    """It lies there as it came, and the messages around it are applied."""
    body = b'{"id": 0.5, "number": 4}'
    offset = served.system.produce(served.topic, body, None, 0)
    served.write({"region": "eu", "number": 5}, partition=owner_of("eu-5"))
    letters = {
        message.key(): message for message in served.system.read(served.system.topic(served.topic).kafka.dead)
    }
    letter = letters[f"0@{offset}".encode()]
    assert (letter.value(), headers_of(letter)["sow.reason"]) == (body, b"bad key")
    assert outcomes_of(served.system, served.topic)[0, str(offset)] == "dead:bad key"
    assert "eu-5" in served.records()


def test_a_changed_definition_is_refused(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Once there is state, other fields would make another; another spelling of the same does not."""
    name = f"t{uuid.uuid4().hex[:12]}-changed"
    topic: Json = {"name": name, "key": "/id", "enrichment": ["/qty * 2 AS /twice"]}
    with system(kafka, tmp_path_factory.mktemp("changed"), [topic]) as made:
        first = made.service("materializer").start().wait_ready()
        made.write(name, {"id": 1, "qty": 4})
        wait_for(lambda: read_changes(made, name)[0], "the record")
        assert first.stop() == 0
        made.config.write_text(respelled(made, "(/qty)*2 as /twice"))
        second = made.service("materializer").start().wait_ready()
        assert second.stop() == 0
        for fields in (["/qty * 3 AS /twice"], []):
            made.config.write_text(respelled(made, *fields))
            third = made.service("materializer").start()
            wait_for(stopped_by(third), f"the materializer to refuse {fields}")
            assert f"the definition that made the state of topic {name}, got another" in third.log
            third.stop()


def respelled(made: System, *fields: str) -> str:
    """Return the system's `topics.yaml` with other fields in enrichment."""
    definitions = yaml.safe_load(made.config.read_text())
    definitions["topics"][0]["enrichment"] = list(fields)
    return yaml.safe_dump(definitions)


def stopped_by(service: Service) -> Callable[[], bool]:
    """Return what tells whether a materializer has stopped a partition."""
    return lambda: service.answers and service.metric("sowline_partitions_stopped") == 1
