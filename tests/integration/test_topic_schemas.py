"""What an operator reads of a topic's schemas: over HTTP, through a gateway, and on the command line."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sowline.codecs.framing import frame
from sowline.codecs.schema import AVRO
from tests.integration.served import Served, serve
from tests.integration.services import http_text
from tests.integration.wire import Json


def avro(*fields: Json) -> str:
    """Return an Avro schema."""
    return json.dumps(
        {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, *fields]}
    )


FIRST, READER = avro(), avro({"name": "note", "type": "string", "default": ""})
INCOMPATIBLE = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]})
TOPICS: dict[str, Json] = {
    "orders": {
        "key": "/id",
        "partitions": 2,
        "message_type": "avro",
        "reader_schema": {"text": READER, "id": 2, "subject": "orders-value"},
        "schemas": {1: {"text": FIRST}, 3: {"text": INCOMPATIBLE}},
    },
    "plain": {"key": "/id"},
}


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An Avro topic whose messages name schemas in both partitions, one that can't be read, and an unknown one."""
    with serve(kafka, tmp_path_factory.mktemp("schemas"), TOPICS) as served:
        name = served["orders"].name
        # The record of the third message belongs to partition 1, to which the owner of partition 0 forwards it.
        messages = [(0, 1, b"\x02"), (1, 1, b"\x04"), (0, 2, b"\x06\x02a"), (1, 3, b"\x02a"), (0, 9, b"\x02")]
        for partition, schema_id, data in messages:
            served.system.produce(name, frame("confluent", AVRO, schema_id, data), partition=partition)
        served.system.wait_settled(served.query.url, name)
        yield served


def test_schemas_over_http(served: Served) -> None:
    """The reader schema, and each id that messages have named, with the partitions that know it."""
    name = served["orders"].name
    found = json.loads(http_text(f"{served.query.url}/v1/topics/{name}/schemas"))
    reader = found["reader_schema"]
    assert (found["topic"], found["message_type"]) == (name, "avro")
    assert (reader["text"], reader["id"], reader["subject"]) == (READER, 2, "orders-value")
    (past,) = found["reader_schemas"]
    assert (past["digest"], past["partitions"]) == (reader["digest"], [0, 1])
    states = {one["id"]: (one["state"], one["partitions"], one["subject"]) for one in found["schemas"]}
    assert states == {
        1: ("readable", [0, 1], ""),
        2: ("readable", [0, 1], "orders-value"),
        3: ("incompatible", [1], ""),
        9: ("unknown", [0], ""),
    }
    texts = {one["id"]: one["schema"] and one["schema"]["text"] for one in found["schemas"]}
    assert texts == {1: FIRST, 2: READER, 3: INCOMPATIBLE, 9: None}


def test_the_kafka_topic_of_schemas(served: Served) -> None:
    """It is the fourth of a topic with schemas, and kept without limit."""
    name = served["orders"].name
    (*_, found) = json.loads(http_text(f"{served.query.url}/v1/topics/{name}/kafka"))["kafka_topics"]
    assert (found["kind"], found["kafka_topic"]) == ("schemas", f"{name}.schemas")
    assert found["settings"]["retention.ms"] == "-1"


def test_a_json_topic_has_no_schemas(served: Served) -> None:
    """That is no error."""
    name = served["plain"].name
    assert json.loads(http_text(f"{served.query.url}/v1/topics/{name}/schemas")) == {
        "topic": name,
        "message_type": "json",
        "reader_schema": None,
        "reader_schemas": [],
        "schemas": [],
    }


def test_schemas_through_a_gateway(served: Served) -> None:
    """It answers as the query service does."""
    node = served.system.node("0/1").start().wait_ready()
    gateway = served.system.service("gateway", nodes=node.url).start().wait_ready()
    path = f"v1/topics/{served['orders'].name}/schemas"
    assert http_text(f"{gateway.url}/{path}") == http_text(f"{node.url}/{path}")


def command(served: Served, *arguments: str) -> str:
    """Return what a command prints."""
    done = subprocess.run(
        [Path(sys.executable).with_name("sowline"), *arguments], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_schemas_are_listed(served: Served) -> None:
    """From Kafka alone, partition by partition."""
    name, system = served["orders"].name, served.system
    shown = command(served, "schemas", "list", name, "--kafka", system.kafka, "--config", str(system.config))
    rows: list[Any] = [json.loads(line) for line in shown.splitlines()]
    assert [(row["partition"], row["id"], row["state"]) for row in rows] == [
        (0, None, "reader schema"),
        (0, 1, "known"),
        (0, 2, "known"),
        (0, 9, "unknown"),
        (1, None, "reader schema"),
        (1, 1, "known"),
        (1, 2, "known"),
        (1, 3, "known"),
    ]


def test_types_come_from_the_schema(served: Served) -> None:
    """Which the service has, and the command asks it for."""
    shown = command(served, "types", served["orders"].name, "--name", "Order", "--url", served.query.url)
    assert shown.partition("{")[2].splitlines()[2:] == ["  id: number;", "  note: string;", "}"]
