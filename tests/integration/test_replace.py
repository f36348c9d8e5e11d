"""Replacing a subscription in place over a real Kafka: what leaves, what is lacking, and what comes after."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.integration.served import Served, serve
from tests.integration.wire import Json, Wire, wire


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Topics of orders."""
    names = ("filter", "plain", "refused", "page", "other", "away", "load")
    topics = {name: {"key": "/id"} for name in names}
    with serve(kafka, tmp_path_factory.mktemp("replace"), topics) as served:
        yield served


@pytest.fixture
def client(served: Served) -> Iterator[Wire]:
    """A raw connection."""
    with wire(served.query.url) as client:
        yield client


def summary(messages: list[Json]) -> list[tuple[str, int]]:
    """Return commands and the ids of their records."""
    found = []
    for message in messages:
        bodies = [record["data"] for record in message["records"]] if message["command"] == "sow" else []
        if message["command"] in ("publish", "oof"):
            bodies = [message["data"]]
        found += [(message["command"], body["id"]) for body in bodies]
    return found


def test_only_what_is_lacking_is_sent(client: Wire, served: Served) -> None:
    """What leaves goes out of focus, what stays is not sent again, and live messages are those of the new filter."""
    orders = served["filter"]
    orders.write(*({"id": id, "qty": id} for id in range(6)))
    about = {"topic": orders.name, "sub_id": "s", "options": "oof"}
    client.send("sow_and_subscribe", filter="/qty < 4", batch_size=10, **about)
    assert summary(client.group()) == [("sow", id) for id in range(4)]
    about["options"] = "oof,replace"
    id = client.send(
        "sow_and_subscribe", filter="/qty > 1", batch_size=10, ack_type="processed,completed,stats", **about
    )
    messages = client.receive_until(lambda message: message.get("ack_type") == "stats")
    acks = [message for message in messages if message["command"] == "ack"]
    assert [(ack["ack_type"], ack["status"], ack["command_id"]) for ack in acks] == [
        ("processed", "success", id),
        ("completed", "success", id),
        ("stats", "success", id),
    ]
    assert (acks[2]["matches"], acks[2]["records_returned"]) == (4, 2)
    assert summary(messages) == [("oof", 0), ("oof", 1), ("sow", 4), ("sow", 5)]
    assert [(m["more"], m["reason"], m["sids"]) for m in messages if m["command"] == "oof"] == [
        (True, "match", ["s"])
    ] * 2
    begin, end = (m for m in messages if m["command"] in ("group_begin", "group_end"))
    assert (begin["replace"], end["records"]) == (True, 2)
    orders.write({"id": 0, "qty": 9}, {"id": 1, "qty": 0}, {"id": 5, "qty": 0})
    assert summary(client.heartbeat()) == [("publish", 0), ("oof", 5)]


def test_a_plain_subscription(client: Wire, served: Served) -> None:
    """It has no group; with oof it is told what leaves."""
    orders = served["plain"]
    orders.write(*({"id": id} for id in range(3)))
    client.send("subscribe", topic=orders.name, sub_id="s", options="oof", ack_type="processed")
    assert client.receive()["status"] == "success"
    client.send("delta_subscribe", topic=orders.name, sub_id="s", filter="/id = 1", options="oof,replace")
    messages = client.receive_until(lambda message: "more" not in message)
    assert summary(messages) == [("oof", 0), ("oof", 2)]
    assert [message.get("more", False) for message in messages] == [True, False]
    orders.write({"id": 1, "a": 1}, {"id": 2})
    assert [(m["delta"], m["data"]) for m in client.heartbeat()] == [(True, {"id": 1, "a": 1})]


def test_what_is_refused_leaves_the_old_one_as_it_is(client: Wire, served: Served) -> None:
    """Whatever the reason."""
    orders = served["refused"]
    client.send("sow_and_subscribe", topic=orders.name, sub_id="s")
    client.group()
    for fields, reason in (
        ({"filter": "/a >"}, "bad filter"),
        ({"topic": "nowhere"}, "invalid topic"),
        ({"top_n": 5, "skip_n": 0}, "not supported"),
        ({"bookmark": "epoch"}, "invalid bookmark"),
        ({"options": "oof"}, "subid in use"),
        ({"options": "replace,oof,conflation=1s,conflation_key=[/a]"}, "invalid options"),
    ):
        asked = {"topic": orders.name, "sub_id": "s", "options": "replace", **fields}
        failure = client.fail("sow_and_subscribe", **asked)
        assert (failure["reason"], "sub_id" in failure) == (reason, False)
    orders.write({"id": 1})
    assert summary(client.heartbeat()) == [("publish", 1)]


def test_a_page(client: Wire, served: Served) -> None:
    """Down, and in another order: what leaves the window, and what comes into it."""
    orders = served["page"]
    orders.write(*({"id": id, "n": -id} for id in range(6)))
    about = {"topic": orders.name, "sub_id": "p", "batch_size": 10, "top_n": 3}
    client.send("sow_and_delta_subscribe", order_by="/id", skip_n=0, options="oof", **about)
    assert summary(client.group()) == [("sow", 0), ("sow", 1), ("sow", 2)]
    client.send("sow_and_delta_subscribe", order_by="/id", skip_n=2, options="oof,replace", **about)
    messages = client.receive_until(lambda message: message["command"] == "group_end")
    assert summary(messages) == [("oof", 0), ("oof", 1), ("sow", 3), ("sow", 4)]
    assert (
        client.fail("sow_and_delta_subscribe", skip_n=0, options="oof,replace", **about)["reason"]
        == "invalid order by"
    )
    client.send("sow_and_delta_subscribe", order_by="/n", skip_n=0, options="oof,replace", **about)
    messages = client.receive_until(lambda message: message["command"] == "group_end")
    assert summary(messages) == [("oof", 2), ("sow", 5)]
    orders.merge({"id": 4, "qty": 1})
    assert [(m["delta"], m["data"]) for m in client.heartbeat()] == [(True, {"id": 4, "qty": 1})]


def test_another_topic(client: Wire, served: Served) -> None:
    """All that was held leaves; all that is asked for comes."""
    first, other = served["other"], served["away"]
    first.write({"id": 1})
    other.write({"id": 1}, {"id": 2})
    client.send("sow_and_subscribe", topic=first.name, sub_id="s")
    client.group()
    client.send("sow_and_subscribe", topic=other.name, sub_id="s", options="oof,replace", batch_size=5)
    messages = client.receive_until(lambda message: message["command"] == "group_end")
    assert summary(messages) == [("oof", 1), ("sow", 1), ("sow", 2)]
    assert messages[0]["topic"] == first.name
    first.write({"id": 7})
    other.write({"id": 8})
    assert summary(client.heartbeat()) == [("publish", 8)]


def test_while_records_change(client: Wire, served: Served) -> None:
    """Anyone who applies what comes holds what matches, however often the filter changes meanwhile."""
    orders = served["load"]
    orders.write(*({"id": id, "n": id} for id in range(20)))
    held: dict[int, Json] = {}
    values = count()
    client.send("sow_and_subscribe", topic=orders.name, sub_id="s", options="oof")
    for low in (5, 0, 15, 2, 9):
        orders.write(*({"id": id, "n": next(values) % 20} for id in range(0, 20, 3)))
        client.send(
            "sow_and_delta_subscribe",
            topic=orders.name,
            sub_id="s",
            options="oof,replace",
            ack_type="completed",
            filter=f"/n BETWEEN {low} AND {low + 8}",
        )
        orders.merge(*({"id": id, "n": next(values) % 20} for id in range(0, 20, 2)))
        taken = client.receive_until(lambda message: message["command"] == "ack")
        for message in taken + client.heartbeat():
            for record in message["records"] if message["command"] == "sow" else ():
                held[record["data"]["id"]] = record["data"]
            if message["command"] == "publish":
                base = held[message["data"]["id"]] if "delta" in message else {}
                held[message["data"]["id"]] = base | message["data"]
            if message["command"] == "oof":
                del held[message["data"]["id"]]
    query = client.send("sow", topic=orders.name, filter="/n BETWEEN 9 AND 17", batch_size=50)
    group = client.receive_until(lambda m: m["command"] == "group_end" and m["query_id"] == query)
    expected = {
        record["data"]["id"]: record["data"]
        for m in group
        if m["command"] == "sow"
        for record in m["records"]
    }
    assert held == expected
    assert expected
