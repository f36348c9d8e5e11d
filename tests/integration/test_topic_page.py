"""What an operator reads of a topic: fields, record history, the newest messages in Kafka; disconnecting clients."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Producer
from websockets.exceptions import ConnectionClosed

from sowline.client.client import Client
from sowline.model.key import sow_key
from tests.integration.served import Served, ServedTopic, serve
from tests.integration.services import http_text
from tests.integration.wire import Json, wire

ORDERS: Json = {"key": "/id", "partitions": 2, "resume_window": "1h"}


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A materializer, and a query service whose memory holds five recent changes of each partition."""
    topics = {"orders": ORDERS, "moves": ORDERS, "refused": ORDERS, "counted": ORDERS}
    with serve(kafka, tmp_path_factory.mktemp("page"), topics, ring_changes_max=5) as served:
        yield served


@pytest.fixture
def orders(served: Served) -> ServedTopic:
    """Three orders."""
    topic = served["orders"]
    topic.clear()
    topic.write(
        {"id": 1, "status": "open", "legs": {"qty": 5}},
        {"id": 2, "status": "open"},
        {"id": 3, "status": "done"},
    )
    return topic


def get(served: Served, path: str) -> Any:
    """Return the answer to a GET."""
    return json.loads(http_text(f"{served.query.url}/v1/{path}"))


def test_fields_come_from_a_sample(served: Served, orders: ServedTopic) -> None:
    """Each field has its kinds, the number of records that have it, and its frequent values."""
    answer = get(served, f"topics/{orders.name}/fields")
    assert (answer["sampled"], answer["records"]) == (3, 3)
    fields = {field["path"]: field for field in answer["fields"]}
    assert sorted(fields) == ["/id", "/legs/qty", "/status"]
    assert fields["/status"]["kinds"] == ["string"]
    assert fields["/status"]["values"] == [{"value": "open", "records": 2}, {"value": "done", "records": 1}]
    assert (fields["/legs/qty"]["records"], fields["/legs/qty"]["values"]) == (1, [])


def test_an_unknown_field_is_a_warning(served: Served, orders: ServedTopic) -> None:
    """The HTTP API, WebSockets and the client name the field and a similar one; an object is not unknown."""
    warning = "unknown field /stattus: no record has a value there; did you mean /status?"
    body = json.dumps({"filter": "/stattus = 'open'"}).encode()
    request = urllib.request.Request(f"{served.query.url}/v1/topics/{orders.name}/sow", body)
    with urllib.request.urlopen(request) as answer:
        assert answer.headers["Sowline-Warning"] == warning
        assert answer.read() == b""
    with Client(served.query.url) as client:
        messages = list(client.sow(orders.name, filter="/stattus = 'open'"))
        assert [message.warnings for message in messages] == [(warning,), ()]
        begin = next(client.sow_and_subscribe(orders.name, filter="/stattus = 'x'", top_n=5, skip_n=0))
        assert begin.warnings == (warning,)
        for filter in ("/status = 'never'", "/legs IS NULL", "/id > 0"):
            (begin, *_) = client.sow(orders.name, filter=filter)
            assert begin.warnings == ()


def test_a_warning_holds_any_name(served: Served, orders: ServedTopic) -> None:
    """Control characters in another user's field do not end the connection: a header has them escaped."""
    orders.write({"id": 4, "col\r\nor": 1})
    body = json.dumps({"filter": "/colors = 1"}).encode()
    request = urllib.request.Request(f"{served.query.url}/v1/topics/{orders.name}/sow", body)
    with urllib.request.urlopen(request) as answer:
        assert answer.headers["Sowline-Warning"].endswith(r"; did you mean [/col\r\nor]?")
        assert answer.read() == b""


def test_the_history_of_a_record(served: Served) -> None:
    """Its newest changes come from memory and then from Kafka; each has its command, publisher and correlation."""
    topic = served["moves"]
    with Client(served.query.url, publisher="desk-7") as client:
        for number in range(30):
            client.publish(topic.name, {"id": 7, "number": number}, correlation=f"c{number}")
            client.publish(topic.name, {"id": 8, "number": number})
        client.delta_publish(topic.name, {"id": 7, "number": 30})
        client.sow_delete(topic.name, filter="/id = 7")
        newest = client.timeline(topic.name, "7", limit=4)["writes"]
        assert [write["command"] for write in newest] == ["sow_delete", "delta_publish", "publish", "publish"]
        assert [(write["data"] or {}).get("number") for write in newest] == [None, 30, 29, 28]
        assert (newest[2]["publisher"], newest[2]["correlation_id"]) == ("desk-7", "c29")
        everything = client.timeline(topic.name, "7", limit=100)
        numbers = [write["data"]["number"] for write in everything["writes"] if write["data"]]
        assert numbers == list(range(30, -1, -1))
        assert everything["writes"][-1]["previous"] is None
        assert everything["since"] < everything["writes"][-1]["timestamp"]
        forwards = client.timeline(topic.name, "7", limit=100, reversed=False)["writes"]
        assert forwards == everything["writes"][::-1]


def test_the_newest_messages_of_a_topic(served: Served, orders: ServedTopic) -> None:
    """Of the log, the changes and the dead letters, with their headers; by partition, key and reason."""
    producer = Producer({"bootstrap.servers": served.system.kafka})
    producer.produce(orders.name, b'{"id": 1.5}', b"x", headers=[("source", b"\xff")])
    producer.produce(orders.name, b"not json")
    producer.flush()
    orders.settle()
    log = get(served, f"topics/{orders.name}/log?limit=2")
    assert sorted(message["value"] for message in log["messages"]) == ["not json", '{"id": 1.5}']
    assert {"source": "base64:/w=="} in [message["headers"] for message in log["messages"]]
    key = sow_key(f"{orders.name}\0".encode(), "1").decode()
    changes = get(served, f"topics/{orders.name}/changes?key={key}")["messages"]
    assert json.loads(changes[0]["value"])["id"] == 1
    assert json.loads(changes[0]["headers"]["sow"])["op"] == "publish"
    letters = get(served, f"topics/{orders.name}/dead")["messages"]
    assert {letter["headers"]["sow.reason"] for letter in letters} == {"bad key", "not json"}
    (letter,) = get(served, f"topics/{orders.name}/dead?reason={quote('bad key')}")["messages"]
    assert (letter["value"], letter["headers"]["sow.original_key"]) == ('{"id": 1.5}', "x")
    assert get(served, f"topics/{orders.name}/log?partition=1&limit=1")["searched"][0]["partition"] == 1


def sowline(served: Served, *arguments: str) -> tuple[int, list[Json]]:
    """Return the exit code of a `sowline dead` command, and its lines."""
    command = [str(Path(sys.executable).with_name("sowline")), "dead", *arguments, "--url", served.query.url]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, [json.loads(line) for line in ended.stdout.splitlines()]


def test_dead_letters_are_published_again(served: Served) -> None:
    """By offset and in bulk by reason; one that is refused again is an error, with its reason."""
    topic = served["refused"]
    log = Producer({"bootstrap.servers": served.system.kafka})
    log.produce(topic.name, b'{"id": 1.5}')
    log.produce(topic.name, b"no json")
    log.produce(topic.name, b'{"id": 2}', headers=[("sow.command", b"merge")])
    log.flush()
    topic.settle()
    # Letters of a reason that is gone, as after a correction of the topic's definition.
    for number in (7, 8):
        headers: list[tuple[str, str | bytes | None]] = [
            ("sow.command", b"delta_publish"),
            ("sow.correlation", b"c"),
            ("sow.reason", b"too large"),
        ]
        log.produce(f"{topic.name}.dead", b'{"id": %d, "qty": 1}' % number, b"0@9", headers=headers)
    log.flush()
    code, letters = sowline(served, "list", topic.name)
    assert code == 0
    reasons = {letter["offset"]: letter["headers"]["sow.reason"] for letter in letters}
    assert sorted(reasons) == [0, 1, 2, 3, 4]
    assert [reasons[offset] for offset in (3, 4)] == ["too large", "too large"]
    code, (letter,) = sowline(served, "list", topic.name, "--reason", "bad key")
    assert letter["value"] == '{"id": 1.5}'
    code, (outcome,) = sowline(served, "retry", topic.name, str(letter["offset"]))
    assert (code, outcome["reason"]) == (1, "bad key")
    code, outcomes = sowline(served, "retry", topic.name, "--reason", "too large")
    assert (code, [(one["offset"], one["outcome"]) for one in outcomes]) == (
        0,
        [(3, "applied"), (4, "applied")],
    )
    query = b'{"order_by": "/id", "top_n": 100}'
    lines = http_text(f"{served.query.url}/v1/topics/{topic.name}/sow", query).splitlines()
    assert [json.loads(line)["data"] for line in lines] == [{"id": 7, "qty": 1}, {"id": 8, "qty": 1}]
    assert sowline(served, "show", topic.name, "99")[0] == 1
    assert sowline(served, "retry", topic.name)[0] == 2


PATHS = "log?limit=0 log?limit=x changes?partition=9 log?reason=x dead?partition=1 log?more=1 log?before=1"


@pytest.mark.parametrize("path", PATHS.split())
def test_a_wrong_parameter_is_refused(served: Served, path: str) -> None:
    """With the values that are expected."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(served, f"topics/{served['orders'].name}/{path}")
    answer = json.loads(refused.value.read())
    assert (refused.value.code, answer["reason"]) == (400, "bad request")
    assert "expected" in answer["message"]


def test_what_kafka_knows_of_a_topic(served: Served, orders: ServedTopic) -> None:
    """Its three Kafka topics, with retention, offsets, and the group of the materializer."""
    log, changes, dead = get(served, f"topics/{orders.name}/kafka")["kafka_topics"]
    assert [one["kafka_topic"] for one in (log, changes, dead)] == [
        orders.name,
        f"{orders.name}.changes",
        f"{orders.name}.dead",
    ]
    assert [len(one["partitions"]) for one in (log, changes, dead)] == [2, 2, 1]
    assert sum(partition["end"] for partition in log["partitions"]) >= 3
    assert changes["settings"]["cleanup.policy"] == "compact"
    assert log["consumer_groups"] == [f"{served.system.group}-materializer"]


def test_dead_letters_are_counted(served: Served) -> None:
    """As many as Kafka keeps of each topic."""
    counted, moves = served["counted"].name, served["moves"].name
    before = get(served, "dead_letters")["dead_letters"]
    producer = Producer({"bootstrap.servers": served.system.kafka})
    producer.produce(f"{counted}.dead", b"{}", b"0@9", headers=[("sow.reason", b"bad key")])
    producer.flush()
    after = get(served, "dead_letters")["dead_letters"]
    assert after == before | {counted: before[counted] + 1}
    assert moves in after


def test_a_client_is_disconnected(served: Served, orders: ServedTopic) -> None:
    """Its connection is closed with a reason; a second attempt names no client."""
    with wire(served.query.url) as client:
        client.send("subscribe", sub_id="mine", topic=orders.name)
        client.heartbeat()
        clients = get(served, "clients")["clients"]
        (mine,) = [one for one in clients if any(sub["sub_id"] == "mine" for sub in one["subscriptions"])]
        assert mine["sent"] >= 1
        request = urllib.request.Request(f"{served.query.url}/v1/clients/{mine['id']}", method="DELETE")
        with urllib.request.urlopen(request) as answer:
            assert json.loads(answer.read()) == {"id": mine["id"]}
        with pytest.raises(ConnectionClosed) as end:
            client.heartbeat()
        assert end.value.rcvd is not None
        assert "administrator" in end.value.rcvd.reason
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    assert (refused.value.code, json.loads(refused.value.read())["reason"]) == (404, "no client")
