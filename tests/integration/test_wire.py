"""The wire as the contract has it, through a raw WebSocket."""

import json
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.integration.compaction import compact, hasten_compaction
from tests.integration.positions import positions_of
from tests.integration.services import Service, System, system
from tests.integration.wire import Json, Wire, wire
from tests.waiting import wait_for

RING = 50
BACKLOG_BYTES = 64 * 1024
TOPICS = ("orders", "shared", "unsubscribed", "slow", "ring", "expired")


class Served:
    """A system with small limits, and a connection that asked for a position beyond the log's end long ago."""

    def __init__(self, made: System, names: dict[str, str], query: Service, behind: Wire) -> None:
        self.system = made
        self.names = names
        self.orders = names["orders"]
        self.query = query
        self.behind = behind

    def write(self, name: str, *records: Json) -> None:
        """Publish records to a topic and wait until the query service has them."""
        self.system.write(self.names[name], *records)
        self.system.wait_settled(self.query.url, self.names[name])


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One materializer and one query service for all tests here."""
    prefix = f"t{uuid.uuid4().hex[:12]}"
    names = {name: f"{prefix}-{name}" for name in TOPICS}
    topics = [{"name": name, "key": ["/id"], "partitions": 2} for name in names.values()]
    with system(kafka, tmp_path_factory.mktemp("wire"), topics) as made, ExitStack() as stack:
        materializer = made.service("materializer").start()
        limits = {"ring_changes_max": RING, "backlog_bytes_max": BACKLOG_BYTES}
        query = made.service("query_service", **limits).start().wait_ready()
        materializer.wait_ready()
        behind = stack.enter_context(wire(query.url))
        behind.send("subscribe", topic=names["ring"], bookmark=f"{names['ring']}:0@1000000")
        yield Served(made, names, query, behind)


@pytest.fixture
def client(served: Served) -> Iterator[Wire]:
    """A connection of the test's own."""
    with wire(served.query.url) as client:
        yield client


@pytest.fixture(scope="module")
def some(served: Served) -> dict[int, Json]:
    """Ten orders, which no test changes."""
    orders = {number: {"id": number, "qty": number * 10} for number in range(10)}
    served.write("orders", *orders.values())
    return orders


# acknowledgements


def test_no_ack_unless_asked(client: Wire, served: Served, some: dict[int, Json]) -> None:
    """A command that goes well is acknowledged only where that was asked for."""
    client.send("sow", topic=served.orders, batch_size=100)
    begin, *batches, end = client.group()
    assert sum(len(batch["records"]) for batch in batches) == end["records"] == len(some)
    client.send("subscribe", topic=served.orders)
    client.send("unsubscribe", sub_id="all")
    assert client.heartbeat() == []
    assert begin["bookmark"] == end["bookmark"]


def test_every_ack(client: Wire, served: Served, some: dict[int, Json]) -> None:
    """Received and processed come before the group, completed and stats after it."""
    acks = "received,processed,completed,stats"
    id = client.send("sow", topic=served.orders, filter="/qty >= 50", ack_type=acks, batch_size=2)
    messages = client.receive_until(lambda message: message.get("ack_type") == "stats")
    names = [
        message.get("ack_type", message["command"]) for message in messages if message["command"] != "sow"
    ]
    assert names == ["received", "processed", "group_begin", "group_end", "completed", "stats"]
    assert all(1 <= len(m["records"]) <= 2 for m in messages[3:-3])
    assert {m["command_id"] for m in messages if m["command"] == "ack"} == {id}
    assert all(m["status"] == "success" for m in messages if m["command"] == "ack")
    counts = {"topic_matches": 10, "matches": 5, "records_returned": 5, "records_deleted": 0}
    assert {name: messages[-1][name] for name in counts} == counts


def test_records_of_a_group(client: Wire, served: Served, some: dict[int, Json]) -> None:
    """A record has its body, its SOW key and its last update's position; options add and remove."""
    client.send("sow", topic=served.orders, filter="/id = 3", query_id="q3", options="timestamp")
    begin, sow, end = client.group()
    (record,) = sow["records"]
    assert record.keys() == {"sow_key", "updated_at", "timestamp", "data"}
    assert record["data"] == some[3]
    assert {message["query_id"] for message in (begin, sow, end)} == {"q3"}
    client.send("sow", topic=served.orders, filter="/id = 3", options="no_sowkey")
    assert client.group()[1]["records"][0].keys() == {"updated_at", "data"}


# failures


@pytest.mark.parametrize(
    ("fields", "reason", "message"),
    [
        ({"command": "dance"}, "unknown command", "'dance'"),
        ({"command": "sow", "color": "red"}, "bad request", "color"),
        ({"command": "sow", "batch_size": "ten"}, "bad request", "batch_size"),
        ({"command": "sow", "batch_size": 0}, "invalid batch size", "got 0"),
        ({"command": "sow", "options": "oof,fast"}, "invalid options", "'fast'"),
        ({"command": "subscribe", "options": "oof=maybe"}, "invalid options", "'oof=maybe'"),
        ({"command": "sow", "topic": "nothing"}, "invalid topic", "'nothing'"),
        ({"command": "subscribe", "topic": ""}, "invalid topic", "''"),
        ({"command": "sow", "ack_type": "read"}, "invalid ack type", "read"),
        ({"command": "sow", "filter": "/qty = 1 AND"}, "bad filter", "at column"),
        ({"command": "sow_and_subscribe", "filter": "/qty >< 1"}, "bad filter", "at column 7"),
        ({"command": "subscribe", "bookmark": "yesterday"}, "invalid bookmark", "'yesterday'"),
        ({"command": "subscribe", "bookmark": "{topic}:0@x"}, "invalid bookmark", "'x'"),
        ({"command": "subscribe", "bookmark": "{topic}:7@1"}, "invalid bookmark", "below 2, got 7"),
        ({"command": "subscribe", "bookmark": "trades:0@1"}, "invalid bookmark", "trades"),
        ({"command": "subscribe", "bookmark": "{topic}:0@1/17"}, "invalid bookmark", "up to 0, got 1/17"),
        (
            {"command": "sow_and_subscribe", "bookmark": "{topic}:0@7/1"},
            "invalid bookmark",
            "up to 0, got 7/1",
        ),
        ({"command": "subscribe", "up_to": "{topic}:0@1/17,1@0"}, "invalid bookmark", "up to 0, got 1/17"),
        ({"command": "unsubscribe"}, "invalid subid", "sub_id"),
        ({"command": "unsubscribe", "sub_id": "x"}, "invalid subid", "got x"),
    ],
    ids=str,
)
def test_failure(client: Wire, served: Served, fields: dict[str, Any], reason: str, message: str) -> None:
    """A command that can't be done is answered with a reason and a sentence, and the connection goes on."""
    given: Json = {"topic": served.orders, **fields}
    for name in ("bookmark", "up_to"):
        if name in given:
            given[name] = given[name].replace("{topic}", served.orders)
    if given["command"] == "unsubscribe":
        del given["topic"]
    answer = client.fail(**given)
    assert answer["reason"] == reason
    assert message in answer["message"]
    assert client.heartbeat() == []


@pytest.mark.parametrize("frame", ["", "{", "[", "nonsense", "7", "null", "[1]", '["sow"]', '{"command": 5}'])
def test_frame_that_is_no_command(client: Wire, frame: str) -> None:
    """A frame without a command in it is answered, and harms nothing."""
    client.send_text(frame)
    answer = client.receive()
    assert (answer["command"], answer["status"], answer["reason"]) == ("ack", "failure", "bad request")
    assert client.heartbeat() == []


def test_bad_filter_names_the_column(client: Wire, served: Served) -> None:
    """The failure of a bad filter says what was expected where, and what came."""
    answer = client.fail("subscribe", topic=served.orders, filter="/status = 'open' AND")
    assert answer["message"] == "expected an operand after AND at column 21, got end of filter"


# several requests, several subscriptions


def test_array_of_requests(client: Wire, served: Served, some: dict[int, Json]) -> None:
    """A frame may hold several requests; one that fails does not keep the others from being done."""
    requests = [
        {"command": "sow", "command_id": "a", "topic": served.orders, "filter": "/id = 1"},
        {"command": "sow", "command_id": "b", "topic": "nothing"},
        {"command": "sow", "command_id": "c", "topic": served.orders, "filter": "/id = 2"},
    ]
    client.send_text(json.dumps(requests))
    messages = [client.receive() for _ in range(7)]
    bodies = {m["query_id"]: m["records"][0]["data"] for m in messages if m["command"] == "sow"}
    assert bodies == {"a": some[1], "c": some[2]}
    assert [m["command_id"] for m in messages if m["command"] == "ack"] == ["b"]


@pytest.mark.one_node
def test_subscriptions_share_messages(client: Wire, served: Served) -> None:
    """What several subscriptions of a connection get alike is sent once, with all of their ids."""
    for sub_id, filter in (
        ("all", ""),
        ("large", "/qty > 500"),
        ("none", "/qty < 0"),
        ("oof", "/qty > 5000"),
    ):
        options = "oof" if sub_id == "oof" else ""
        client.send(
            "subscribe",
            topic=served.names["shared"],
            sub_id=sub_id,
            filter=filter,
            options=options,
            ack_type="processed",
        )
        assert client.receive()["status"] == "success"
    served.write("shared", {"id": 77, "qty": 9999}, {"id": 77, "qty": 600}, {"id": 77, "qty": 5})
    messages = client.heartbeat()
    seen = [(m["command"], sorted(m["sids"]), m["data"]["qty"], m.get("reason")) for m in messages]
    assert seen == [
        ("publish", ["all", "large", "oof"], 9999, None),
        ("publish", ["all", "large"], 600, None),
        ("oof", ["oof"], 600, "match"),
        ("publish", ["all"], 5, None),
    ]
    assert messages[1]["bookmark"] == messages[2]["bookmark"]
    assert len({m["sow_key"] for m in messages}) == 1


@pytest.mark.parametrize(("named", "left"), [("b", {"a", "c"}), ("a,c", {"b"}), ("all", set())])
def test_unsubscribe(client: Wire, served: Served, named: str, left: set[str]) -> None:
    """Unsubscribing takes one id, several, or all."""
    for sub_id in ("a", "b", "c"):
        client.send("subscribe", topic=served.names["unsubscribed"], sub_id=sub_id, ack_type="processed")
        client.receive()
    client.send("unsubscribe", sub_id=named, ack_type="processed")
    assert client.receive()["status"] == "success"
    served.write("unsubscribed", {"id": 78})
    assert {sid for message in client.heartbeat() for sid in message["sids"]} == left


def test_subscription_id_in_use(client: Wire, served: Served) -> None:
    """An id stays with its subscription until that has ended."""
    client.send("subscribe", topic=served.orders, sub_id="s")
    assert client.fail("subscribe", topic=served.orders, sub_id="s")["reason"] == "subid in use"
    client.send("unsubscribe", sub_id="s")
    client.send("subscribe", topic=served.orders, sub_id="s", ack_type="processed")
    assert client.receive()["status"] == "success"


def test_failure_of_a_subscription_leaves_its_id_free(client: Wire, served: Served) -> None:
    """A subscription that was refused for its filter has not taken its id."""
    assert client.fail("subscribe", topic=served.orders, sub_id="s", filter="(")["reason"] == "bad filter"
    client.send("subscribe", topic=served.orders, sub_id="s", ack_type="processed")
    assert client.receive()["status"] == "success"


# bookmarks


def changes_from(client: Wire, bookmark: str, topic: str, count: int) -> list[Json]:
    """Subscribe from a bookmark on and return the next messages."""
    client.send("subscribe", topic=topic, sub_id=f"from {bookmark}", bookmark=bookmark)
    return [client.receive() for _ in range(count)]


def test_resume_older_than_the_ring(client: Wire, served: Served) -> None:
    """What is no longer in memory comes from the changes topic: every change since the beginning, in order."""
    records = [{"id": number % 3, "n": number} for number in range(5 * RING)]
    served.write("ring", *records)
    for bookmark in ("epoch", "0"):
        messages = changes_from(client, bookmark, served.names["ring"], len(records))
        for number in range(3):
            seen = [m["data"]["n"] for m in messages if m["data"]["id"] == number]
            assert seen == list(range(number, len(records), 3))
    part = messages[2 * RING]["bookmark"]
    wanted = [m["bookmark"] for m in messages if partition(m["bookmark"]) == partition(part)]
    wanted = wanted[wanted.index(part) + 1 :]
    others = len(messages) - sum(partition(m["bookmark"]) == partition(part) for m in messages)
    client.send("unsubscribe", sub_id="all")
    assert client.heartbeat() == []
    rest = changes_from(client, part, served.names["ring"], len(wanted) + others)
    assert [m["bookmark"] for m in rest if partition(m["bookmark"]) == partition(part)] == wanted


def partition(bookmark: str) -> str:
    """Return the partition that a live message's bookmark names."""
    return bookmark.rpartition(":")[2].partition("@")[0]


def test_expired_bookmark(client: Wire, served: Served) -> None:
    """Where changes after a bookmark were compacted away it has expired, or the group begins again if requested."""
    name = served.names["expired"]
    hasten_compaction(served.system, name)
    served.write("expired", {"id": 0, "n": 0})
    bookmark = client_bookmark(client, name)
    compact(
        served.system,
        name,
        lambda n: served.write("expired", *({"id": 0, "n": n} for _ in range(2 * RING))),
        after=positions_of(bookmark),
    )
    assert client.fail("subscribe", topic=name, bookmark=bookmark)["reason"] == "bookmark_expired"
    client.send("subscribe", topic=name, bookmark=bookmark, options="reset", sub_id="r", query_id="r")
    begin, sow, _ = client.group()
    assert begin["reset"] is True
    assert len(sow["records"]) == 1
    served.write("expired", {"id": 0, "n": "next"})
    after = client.receive()
    assert (after["command"], after["sids"], after["data"]["n"]) == ("publish", ["r"], "next")


def client_bookmark(client: Wire, topic: str) -> str:
    """Return the bookmark of this moment."""
    client.send("sow", topic=topic)
    return str(client.group()[-1]["bookmark"])


# a slow client


def test_slow_client(served: Served) -> None:
    """A client that stops reading slows nobody; once it reads again it gets every change in order."""
    name, text = served.names["slow"], "x" * 10_000
    with wire(served.query.url, receive_bytes=4096) as slow, wire(served.query.url) as fast:
        for client in (slow, fast):
            client.send("sow_and_subscribe", topic=name, sub_id="s", ack_type="completed")
            client.receive_until(lambda message: message.get("ack_type") == "completed")

        def live() -> float:
            return served.query.metric("sowline_subscriptions_live")

        wait_for(lambda: live() == 2, "those of the test before to be gone")
        records: list[Json] = []
        while live() == 2:
            more = [{"id": n % 7, "n": n, "text": text} for n in range(len(records), len(records) + 100)]
            records += more
            served.system.write(name, *more)
            assert in_order(fast, len(more))
        more = [{"id": n % 7, "n": n} for n in range(len(records), len(records) + 300)]
        served.write("slow", *more)
        assert len(in_order(fast, len(more))) == len(more)
        numbers = in_order(slow, len(records) + len(more))
        assert sorted(numbers) == list(range(len(records) + len(more)))
        wait_for(lambda: live() == 2, "the slow one to be live again")


def in_order(client: Wire, count: int) -> list[int]:
    """Read so many publishes and return their numbers, which rise for each key."""
    last: dict[int, int] = {}
    numbers = []
    for _ in range(count):
        message = client.receive()
        data = message["data"]
        assert data["n"] > last.get(data["id"], -1)
        last[data["id"]] = data["n"]
        numbers.append(data["n"])
    return numbers


def test_bookmark_beyond_the_end(served: Served) -> None:
    """A replica that has waited long enough for a bookmark it does not reach says that it is behind."""
    answer = served.behind.receive()
    assert (answer["status"], answer["reason"]) == ("failure", "behind")
