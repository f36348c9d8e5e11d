"""`sowline schemas`: what it fetches from a registry, what it checks, and what it lists."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from confluent_kafka import KafkaError, KafkaException

from sowline.cli import main
from sowline.codecs.resolutions import Resolution, Resolutions, entry_value, id_key, reader_key
from sowline.codecs.schema import AVRO, JSON_SCHEMA, PROTOBUF, Schema
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import load_topics
from sowline.errors import SowlineError
from sowline.registry.client import RegistryAway, Resolved

URL = "http://registry.example"


def record(*fields: tuple[str, str]) -> str:
    """Return an Avro schema with fields of these types."""
    named = [{"name": name, "type": type} for name, type in fields]
    return json.dumps({"type": "record", "name": "Order", "fields": named})


READER = record(("id", "long"))
ADDRESS = json.dumps({"type": "fixed", "name": "shop.Address", "size": 4})
REFERENCES = (("shop.Address", ADDRESS), ("../x", ADDRESS.replace("Address", "X")))
VERSIONS = {
    1: Resolved(Schema(AVRO, record(("id", "int"))), "orders-value", 1, 7),
    2: Resolved(Schema(AVRO, record(("id", "string"))), "orders-value", 2, 8),
    3: Resolved(Schema(PROTOBUF, 'syntax = "proto3";'), "orders-value", 3, None),
    5: Resolved(Schema(AVRO, READER, REFERENCES), "orders-value", 5, 9),
}


class FakeRegistry:
    """A registry with one subject, of which version 4 is damaged; and `away`, about which it gives no answer."""

    def __init__(self, url: str) -> None:
        assert url == URL

    def close(self) -> None:
        """Do nothing."""

    def latest(self, subject: str) -> Resolved:
        """Return the last version."""
        return self.version(subject, max(VERSIONS))

    def version(self, subject: str, number: int) -> Resolved:
        """Return a version."""
        if subject == "away":
            raise RegistryAway("no answer")
        if number not in VERSIONS:
            raise SowlineError("bad schema", f"expected version {number} whole")
        return VERSIONS[number]

    def versions(self, subject: str) -> tuple[int, ...]:
        """Return the numbers of all versions."""
        return {"orders-value": (1, 2, 3, 4, 5), "away": (1,), "good": (1, 5)}.get(subject, ())


def topic(name: str, subject: str = "") -> dict[str, Any]:
    """Return the definition of an Avro topic."""
    schema = {"text": READER, "subject": subject}
    return {"name": name, "key": "/id", "partitions": 2, "message_type": "avro", "reader_schema": schema}


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a file of topics, and no other settings."""
    topics = [
        topic("orders", "orders-value"),
        topic("good", "good"),
        topic("away", "away"),
        topic("gone", "gone"),
    ]
    plain = {"name": "plain", "key": "/id"}
    (tmp_path / "topics.yaml").write_text(yaml.safe_dump({"topics": [*topics, topic("framed"), plain]}))
    monkeypatch.chdir(tmp_path)
    for name in ("SOWLINE_REGISTRY", "SOWLINE_CONFIG", "SOWLINE_KAFKA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sowline.cli.schema_commands.Registry", FakeRegistry)
    monkeypatch.setattr("sowline.cli.operate.chosen_stack", lambda: None)
    return tmp_path / "topics.yaml"


def run(command: str) -> Result:
    """Run a command."""
    return CliRunner().invoke(main, ["schemas", *shlex.split(command)])


def rows(done: Result) -> list[dict[str, Any]]:
    """Return the lines of a command."""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_pull_prints_a_schema() -> None:
    """The latest, or a version; what it refers to is named beside it."""
    done = run(f"pull orders-value --registry {URL}")
    assert (done.exit_code, done.stdout) == (0, READER + "\n")
    assert done.stderr == "sowline: it refers to shop.Address, ../x; --directory writes these, too\n"
    done = run(f"pull orders-value --version 1 --registry {URL}")
    assert (done.exit_code, done.output) == (0, VERSIONS[1].schema.text + "\n")


def test_pull_writes_files(tmp_path: Path) -> None:
    """What it prints is the definition's field, which reads the files. No name leads out of the directory."""
    done = run(f"pull orders-value --directory schemas --registry {URL}")
    assert yaml.safe_load(done.stdout) == {
        "reader_schema": {
            "file": "schemas/orders-value.avsc",
            "id": 9,
            "subject": "orders-value",
            "references": {"shop.Address": "schemas/shop.Address.avsc", "../x": "schemas/.._x.avsc"},
        }
    }
    names = sorted(path.name for path in (tmp_path / "schemas").iterdir())
    assert names == [".._x.avsc", "orders-value.avsc", "shop.Address.avsc"]
    assert (tmp_path / "schemas" / ".._x.avsc").read_text() == REFERENCES[1][1]


def test_what_pull_prints_is_a_definition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a Protobuf file too, whose references have paths as names."""
    text = 'syntax = "proto3"; import "shop/leg.proto"; message Order { int32 id = 1; shop.Leg leg = 2; }'
    leg = 'syntax = "proto3"; package shop; message Leg {}'
    schema = Schema(PROTOBUF, text, (("shop/leg.proto", leg),))
    monkeypatch.setitem(VERSIONS, 6, Resolved(schema, "orders-value", 6, 10))
    pulled = yaml.safe_load(run(f"pull orders-value --directory . --registry {URL}").stdout)
    defined = {"name": "orders", "key": "/id", "message_type": "protobuf", **pulled}
    (tmp_path / "topics.yaml").write_text(yaml.safe_dump({"topics": [defined]}))
    (found,) = load_topics(tmp_path / "topics.yaml").topics
    assert found.reader == schema
    assert found.declared.reader_schema is not None
    assert (found.declared.reader_schema.id, found.declared.reader_schema.subject) == (10, "orders-value")


def test_files_that_would_be_one_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written."""
    schema = Schema(JSON_SCHEMA, "{}", (("a/b", "{}"), ("a_b", "{}")))
    monkeypatch.setitem(VERSIONS, 6, Resolved(schema, "orders-value", 6, 10))
    done = run(f"pull orders-value --directory schemas --registry {URL}")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "bad schema: expected references whose files differ, got a/b, a_b\n"
    assert not (tmp_path / "schemas").exists()


def test_check_reports_every_version() -> None:
    """Each that can't be read comes with the reason, and makes the command fail."""
    done = run(f"check orders --registry {URL}")
    found = rows(done)
    assert done.exit_code == 1
    assert {(row["topic"], row["subject"]) for row in found} == {("orders", "orders-value")}
    assert [(row["version"], row["id"], row["readable"]) for row in found] == [
        (1, 7, True),
        (2, 8, False),
        (3, None, False),
        (4, None, False),
        (5, 9, True),
    ]
    assert [row["problem"] for row in found if row["readable"]] == ["", ""]
    assert "/id" in found[1]["problem"]
    assert [row["problem"] for row in found[2:4]] == [
        "expected a schema of avro, got one of protobuf",
        "expected version 4 whole",
    ]


def test_check_succeeds_if_all_can_be_read() -> None:
    """Of one topic, or of all that have a subject."""
    assert run(f"check good --registry {URL}").exit_code == 0
    Path("topics.yaml").write_text(yaml.safe_dump({"topics": [topic("good", "good"), topic("framed")]}))
    done = run(f"check --registry {URL}")
    assert (done.exit_code, [row["topic"] for row in rows(done)]) == (0, ["good", "good"])


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("check orders", "bad configuration: expected the URL of a schema registry, got none: "),
        ("pull orders", "bad configuration: expected the URL of a schema registry, got none: "),
        (
            f"check plain --registry {URL}",
            "bad request: expected a topic whose message type has schemas, got plain",
        ),
        (f"check framed --registry {URL}", "bad configuration: expected a reader_schema with a subject"),
        (
            f"check gone --registry {URL}",
            "unknown schema: expected versions of gone in the registry, found none",
        ),
        (f"check away --registry {URL}", "registry away: no answer"),
        (f"check none --registry {URL}", "invalid topic: "),
        ("list plain", "bad request: expected a topic whose message type has schemas, got plain"),
        ("list orders", "no kafka: expected orders.schemas from Kafka at 127.0.0.1:9092, got no answer"),
    ],
)
def test_refusals(command: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has what to do."""

    def silent(*_: object) -> None:
        raise TimeoutError("no answer")

    monkeypatch.setattr("sowline.cli.schema_commands.read_schema_log", silent)
    done = run(command)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(message)


def test_what_kafka_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reason is in the message."""

    def refusing(*_: object) -> None:
        raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    monkeypatch.setattr("sowline.cli.schema_commands.read_schema_log", refusing)
    done = run("list orders --kafka k:1")
    assert done.exit_code == 1
    assert "Kafka at k:1" in done.stderr
    assert "TOPIC_AUTHORIZATION_FAILED" in done.stderr


def test_list_has_what_each_partition_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reader schemas, also earlier ones, and ids: known, unknown, or with a problem."""
    reader, earlier, writer = Schema(AVRO, READER), Schema(AVRO, record(("id", "int"))), VERSIONS[1].schema
    known = [Resolutions(), Resolutions()]
    for schema in (earlier, reader):
        known[0].add(reader_key(schema.digest), entry_value(Resolution(schema)))
    known[1].add(id_key(7), entry_value(Resolution(writer, "orders-value", 1)))
    known[1].add(id_key(8), entry_value(Resolution(None)))
    known[1].add(id_key(6), entry_value(Resolution(None, problem="too deep")))

    def read(kafka: dict[str, str], definition: TopicDefinition) -> dict[int, Resolutions]:
        assert (kafka["bootstrap.servers"], definition.name) == ("k:1", "orders")
        return dict(enumerate(known))

    monkeypatch.setattr("sowline.cli.schema_commands.read_schema_log", read)
    done = run("list orders --kafka k:1")
    assert done.exit_code == 0
    assert [tuple(row.values()) for row in rows(done)] == [
        (0, None, "", None, earlier.digest, "earlier reader schema"),
        (0, None, "", None, reader.digest, "reader schema"),
        (1, 6, "", None, "", "too deep"),
        (1, 7, "orders-value", 1, writer.digest, "known"),
        (1, 8, "", None, "", "unknown"),
    ]


def test_a_table_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a column for each field."""
    monkeypatch.setattr("sowline.cli.schema_commands._is_terminal", lambda: True)
    done = run(f"check good --registry {URL}")
    assert done.stdout.splitlines() == [
        "TOPIC  SUBJECT  VERSION  ID  READABLE  PROBLEM",
        "good   good           1   7  yes       -",
        "good   good           5   9  yes       -",
    ]
