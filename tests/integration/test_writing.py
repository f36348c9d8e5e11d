"""Commands that come in through the APIs: acknowledged once Kafka has them, and told what became of them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sowline.model.bookmark import parse_bookmark
from tests.integration.served import Served, query, serve
from tests.integration.services import post_commands
from tests.integration.wire import Json, Wire

PARTITIONS = 3
ACKS = "persisted,processed,stats"


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two topics of several partitions."""
    definition: Json = {"key": "/id", "partitions": PARTITIONS, "record_bytes_max": 1000}
    with serve(
        kafka, tmp_path_factory.mktemp("writing"), {"orders": definition, "trades": definition}
    ) as served:
        yield served


@pytest.fixture(autouse=True)
def _empty(served: Served) -> None:
    for name in ("orders", "trades"):
        served[name].clear()


def outcomes_of(client: Wire, command: str, **fields: Any) -> dict[str, Json]:
    """Send a command that writes, and return its acknowledgements by kind."""
    id = client.send(command, ack_type=ACKS, **fields)
    answers = [client.receive() for _ in range(3)]
    assert {answer["command_id"] for answer in answers} == {id}
    assert [answer["status"] for answer in answers] == ["success"] * 3
    return {answer["ack_type"]: answer for answer in answers}


def post(served: Served, name: str, command: str, body: bytes = b"", type: str = "", **given: str) -> Json:
    """POST a command; returns what is answered, with its `status`."""
    return post_commands(served.query.url, served[name].name, command, body, type, **given)


def test_what_is_acknowledged_is_there(served: Served, client: Wire) -> None:
    """Processed says that this replica has it: a query behind it sees it. Deltas merge."""
    name = served["orders"].name
    written = outcomes_of(client, "publish", topic=name, data={"id": 1, "a": 1, "b": 1})
    assert written["processed"]["outcome"] == "applied"
    assert query(client, served["orders"]) == [{"id": 1, "a": 1, "b": 1}]
    merged = outcomes_of(client, "delta_publish", topic=name, data={"id": 1, "b": 2})
    assert query(client, served["orders"]) == [{"id": 1, "a": 1, "b": 2}]
    [(partition, first)] = parse_bookmark(written["persisted"]["bookmark"])[name].items()
    assert parse_bookmark(merged["processed"]["bookmark"])[name][partition] > first


def test_subscribers_are_sent_the_correlation(served: Served, client: Wire) -> None:
    """The headers of a command that came in through an API are those of any other."""
    name = served["orders"].name
    client.send("subscribe", topic=name, sub_id="s", filter="CORRELATION_ID() = 'c-1'", ack_type="processed")
    client.receive()
    client.send("publish", topic=name, data={"id": 1}, correlation_id="c-1")
    client.send("publish", topic=name, data={"id": 2}, correlation_id="c-2")
    message = client.receive()
    assert (message["data"], message["correlation_id"]) == ({"id": 1}, "c-1")
    client.send("flush", ack_type="processed")
    assert client.receive()["command"] == "ack"


def test_a_delete_says_how_many_are_gone(served: Served, client: Wire) -> None:
    """By filter, by keys, by data, in all partitions; what is not there is none."""
    topic = served["orders"]
    topic.write(*({"id": number, "n": number} for number in range(20)))
    gone = outcomes_of(client, "sow_delete", topic=topic.name, filter="/n >= 12")
    assert gone["stats"]["records_deleted"] == gone["stats"]["matches"] == 8
    assert gone["stats"]["topic_matches"] == 20
    assert [record["id"] for record in query(client, topic)] != []
    assert sorted(record["id"] for record in query(client, topic)) == list(range(12))
    client.send("sow", topic=topic.name, filter="/n < 3", batch_size=10)
    keys = [record["sow_key"] for message in client.group()[1:-1] for record in message["records"]]
    assert (
        outcomes_of(client, "sow_delete", topic=topic.name, sow_keys=[*keys, "1"])["stats"]["records_deleted"]
        == 3
    )
    assert (
        outcomes_of(client, "sow_delete", topic=topic.name, data={"id": 5})["stats"]["records_deleted"] == 1
    )
    assert (
        outcomes_of(client, "sow_delete", topic=topic.name, data={"id": 5})["stats"]["records_deleted"] == 0
    )
    assert outcomes_of(client, "sow_delete", topic=topic.name, filter="1=1")["stats"]["records_deleted"] == 8
    assert query(client, topic) == []


def test_a_pattern_deletes_in_all_topics(served: Served, client: Wire) -> None:
    """The counts are of all of them."""
    prefix = served["orders"].name.removesuffix("orders")
    served["orders"].write({"id": 1}, {"id": 2})
    served["trades"].write({"id": 1})
    gone = outcomes_of(client, "sow_delete", topic=f"^{prefix}(orders|trades)", filter="1=1")
    assert gone["stats"]["records_deleted"] == 3
    assert set(parse_bookmark(gone["persisted"]["bookmark"])) == {
        served["orders"].name,
        served["trades"].name,
    }


@pytest.mark.parametrize(
    ("command", "fields", "reason"),
    [
        ("publish", {"data": {"n": 1}}, "key missing"),
        ("publish", {"data": [1]}, "not an object"),
        ("publish", {"data": {"id": 1, "text": "x" * 1000}}, "too large"),
        ("publish", {}, "bad request"),
        ("publish", {"data": {"id": 1}, "expiration": -1}, "bad header"),
        ("sow_delete", {}, "bad request"),
        ("sow_delete", {"filter": "1=1", "data": {"id": 1}}, "bad request"),
        ("sow_delete", {"filter": "/n >"}, "bad filter"),
        ("sow_delete", {"filter": "/n > UNIX_TIMESTAMP()"}, "bad filter"),
    ],
)
def test_what_can_t_be_is_refused(
    served: Served, client: Wire, command: str, fields: Json, reason: str
) -> None:
    """With its reason, before it is written, whether an acknowledgement was asked for or not."""
    assert client.fail(command, topic=served["orders"].name, **fields)["reason"] == reason


def test_refusals_of_the_materializer_are_reported(served: Served, client: Wire) -> None:
    """A merged record may be too large where its delta is not."""
    topic = served["orders"]
    topic.write({"id": 1, "text": "x" * 900})
    answer = client.fail("delta_publish", topic=topic.name, data={"id": 1, "more": "x" * 900})
    assert (answer["reason"], ".dead" in answer["message"]) == ("too large", True)


def test_post(served: Served, client: Wire) -> None:
    """One record, or one a line; with ack=processed what became of them."""
    topic = served["orders"]
    one = post(served, "orders", "publish", b'{"id": 1, "n": 1}')
    assert (one["status"], one["commands"]) == (200, 1)
    lines = b'{"id": 2, "n": 2}\n\n{"id": 3, "n": 3}\n'
    many = post(served, "orders", "publish", lines, "application/x-ndjson", ack="processed")
    assert (many["commands"], many["outcomes"]) == (2, {"applied": 2})
    merged = post(served, "orders", "delta_publish", b'{"id": 1, "m": 1}', ack="processed", correlation="c")
    assert merged["outcomes"] == {"applied": 1}
    assert sorted(query(client, topic), key=lambda record: record["id"]) == [
        {"id": 1, "n": 1, "m": 1},
        {"id": 2, "n": 2},
        {"id": 3, "n": 3},
    ]
    gone = post(served, "orders", "sow_delete", filter="/n > 1", ack="processed")
    assert gone["records_deleted"] == 2
    assert query(client, topic) == [{"id": 1, "n": 1, "m": 1}]


@pytest.mark.parametrize(
    ("id", "reasons", "sentence"),
    [
        (10**30, {"bad key"}, "got a number beyond 64 bits (about 1e+30): write it as a string"),
        ("\ud800", {"not json", "bad request"}, "got half of a surrogate pair at line 1, column"),
        ("", {"key empty"}, "expected at least one character in the key field /id, got an empty string"),
    ],
)
def test_what_no_key_can_be_is_refused_with_a_true_sentence(
    served: Served, client: Wire, id: Any, reasons: set[str], sentence: str
) -> None:
    """Over both APIs: what was expected, what came, what to do."""
    over_http = post(served, "orders", "publish", json.dumps({"id": id}).encode())
    over_websocket = client.fail("publish", topic=served["orders"].name, data={"id": id})
    assert {over_http["reason"], over_websocket["reason"]} == reasons
    assert sentence in over_http["message"]
    assert sentence in over_websocket["message"]


def test_a_number_is_a_repeat_the_second_time(served: Served) -> None:
    """A publisher that numbers its commands may send them again."""
    given = {"publisher": "p", "sequence": "7", "ack": "processed"}
    assert post(served, "orders", "publish", b'{"id": 1}', **given)["outcomes"] == {"applied": 1}
    assert post(served, "orders", "publish", b'{"id": 1}', **given)["outcomes"] == {"repeat": 1}


def test_a_post_is_written_whole_or_not_at_all(served: Served, client: Wire) -> None:
    """The record that is wrong is named."""
    answer = post(served, "orders", "publish", b'{"id": 1}\n{"n": 2}', "application/x-ndjson")
    assert (answer["status"], answer["reason"]) == (400, "key missing")
    assert answer["message"].startswith("record 2 of 2: ")
    assert query(client, served["orders"]) == []


@pytest.mark.parametrize(
    ("command", "given"),
    [
        ("publish", {"ack": "stats"}),
        ("publish", {"filter": "1=1"}),
        ("publish", {"expiration": "soon"}),
        ("sow_delete", {}),
        ("sow_delete", {"filter": "1=1", "keys": "1"}),
    ],
)
def test_a_wrong_post_is_refused(served: Served, command: str, given: dict[str, str]) -> None:
    """Unknown parameters and values, and not exactly one selector."""
    body = b'{"id": 1}' if command == "publish" else b""
    answer = post(served, "orders", command, body, **given)
    assert (answer["status"], answer["reason"]) == (400, "bad request")
