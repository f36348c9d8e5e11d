"""What queries and plain subscriptions can be asked for, through a raw WebSocket, against real processes."""

import http.client
import json
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.query_rig import (
    ANSWER_SECONDS_MAX,
    BACKLOG_BYTES,
    EXPLAINED,
    LIMITS,
    MIXED,
    ORDERS,
    RECORDS,
    REFUSED,
    Served,
    bodies,
    counts,
    explained_over_http,
    ids,
)
from tests.integration.services import system
from tests.integration.wire import Json, Wire, laid_over, wire
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One materializer and two query services for all tests here, and the records that most of them query."""
    prefix = f"t{uuid.uuid4().hex[:12]}"
    kinds = ("orders", "mixed", "live", "east", "west", "evil", "large", "long")
    names = {kind: f"{prefix}-{kind}" for kind in kinds}
    topics: list[Json] = [{"name": name, "key": ["/id"], "partitions": 2} for name in names.values()]
    topics[0] |= {"indexes": ["/qty"], "hash_indexes": [["/region", "/kind"]]}
    with system(kafka, tmp_path_factory.mktemp("queries"), topics) as made:
        services = [
            made.service("materializer").start(),
            made.service("query_service", backlog_bytes_max=BACKLOG_BYTES).start(),
            made.service("query_service", **LIMITS).start(),
        ]
        for service in services:
            service.wait_ready()
        made.write(names["orders"], *ORDERS)
        made.write(names["mixed"], *({"id": id, "v": value} for id, value in enumerate(MIXED)))
        made.write(names["evil"], {"id": 1, "a": "a" * 100_000 + "b"})
        made.write(names["large"], *({"id": id, "a": "a" * 100_000} for id in range(60)))
        made.write(names["long"], *({"id": id, "pad": "x" * 200} for id in range(RECORDS)))
        for name in names.values():
            for service in services[1:]:
                made.wait_settled(service.url, name)
        yield Served(made, names, services[1], services[2])


@pytest.fixture
def client(served: Served) -> Iterator[Wire]:
    """A connection of the test's own."""
    with wire(served.query.url) as client:
        yield client


@pytest.fixture
def limited(served: Served) -> Iterator[Wire]:
    """A connection to the service that may do little."""
    with wire(served.limited.url) as client:
        yield client


# which records, in which order, how many


@pytest.mark.parametrize(
    ("order_by", "expected"),
    [
        ("/v", [4, 7, 6, 1, 0, 5, 3, 2]),
        ("/v DESC", [2, 3, 5, 0, 1, 6, 7, 4]),
        ("/v TEXT, /id", [4, 6, 0, 5, 1, 3, 2, 7]),
        ("/v DESC TEXT, /id DESC", [7, 2, 3, 1, 5, 0, 6, 4]),
        ("/no/such, /id desc", [7, 6, 5, 4, 3, 2, 1, 0]),
    ],
)
def test_order(client: Wire, served: Served, order_by: str, expected: list[int]) -> None:
    """NULL, then numbers, then strings; or all by their texts; over all partitions."""
    client.send("sow", topic=served.names["mixed"], order_by=order_by)
    assert ids(client.group()) == expected
    client.send("sow", topic=served.names["mixed"], order_by=order_by, top_n=3, skip_n=2, batch_size=100)
    assert ids(client.group()) == expected[2:5]


def test_top_n_without_an_order(client: Wire, served: Served) -> None:
    """The first so many are those by SOW key."""
    keys = sorted(served.key("orders", order["id"]) for order in ORDERS)
    client.send("sow", topic=served.names["orders"], top_n=3, skip_n=1)
    messages = client.group()
    assert [record["sow_key"] for m in messages[1:-1] for record in m["records"]] == keys[1:4]


def test_count(client: Wire, served: Served) -> None:
    """Of no record at all, the stats are the count."""
    client.send("sow", topic=served.names["orders"], filter="/qty >= 50", top_n=0, ack_type="stats")
    begin, end, stats = (client.receive() for _ in range(3))
    assert (begin["command"], end["command"], end["records"]) == ("group_begin", "group_end", 0)
    assert counts(stats) == [12, 7, 0]


@pytest.mark.parametrize("as_text", [False, True])
def test_sow_keys(client: Wire, served: Served, as_text: bool) -> None:
    """Of the records with these keys those that match; a key that no record has is no error."""
    keys: Any = [served.key("orders", id) for id in (3, 1, 4, 99)]
    keys = ",".join(keys) if as_text else keys
    client.send("sow", topic=served.names["orders"], sow_keys=keys, filter="/qty > 10", ack_type="stats")
    assert sorted(ids(client.group())) == [3, 4]
    assert counts(client.receive()) == [3, 2, 2]


def test_sow_keys_of_a_subscription(client: Wire, served: Served) -> None:
    """They restrict what is live as they restrict the snapshot."""
    served.write("live", {"id": "k1", "n": 1}, {"id": "k2", "n": 1})
    keys = [served.key("live", "k1"), served.key("live", "k3")]
    client.send("sow_and_subscribe", topic=served.names["live"], sow_keys=keys, sub_id="s")
    assert ids(client.group()) == ["k1"]
    served.write("live", *({"id": id, "n": 2} for id in ("k1", "k2", "k3")))
    assert sorted(m["data"]["id"] for m in client.heartbeat()) == ["k1", "k3"]


def test_batches(client: Wire, served: Served) -> None:
    """One record a message unless more are asked for, and never more than 10,000."""
    for given, sizes in (({}, [1] * 12), ({"batch_size": 5}, [5, 5, 2]), ({"batch_size": 10_000}, [12])):
        client.send("sow", topic=served.names["orders"], order_by="/id", **given)
        assert [len(message["records"]) for message in client.group()[1:-1]] == sizes
    for size in (0, -1, 10_001):
        answer = client.fail("sow", topic=served.names["orders"], batch_size=size)
        assert answer["reason"] == "invalid batch size"
        assert answer["message"] == f"expected a batch_size of 1 to 10000, got {size}"


def test_large_records_travel_few_at_a_time(client: Wire, served: Served) -> None:
    """However many records a message may hold, it is not much larger than a megabyte: it waits in memory."""
    client.send("sow", topic=served.names["large"], batch_size=1000)
    messages = client.group()
    assert sorted(ids(messages)) == list(range(60))
    assert max(len(message["records"]) for message in messages[1:-1]) <= 11


def test_top_n_of_a_subscription(client: Wire, served: Served) -> None:
    """Without `skip_n` it limits the snapshot only."""
    served.write("live", *({"id": f"t{number}", "t": number} for number in range(4)))
    about: Json = {"topic": served.names["live"], "filter": "/t >= 0", "order_by": "/t DESC"}
    client.send("sow_and_subscribe", top_n=2, **about)
    assert ids(client.group()) == ["t3", "t2"]
    served.write("live", {"id": "t0", "t": 0.5})
    assert [(m["command"], m["data"]["id"]) for m in client.heartbeat()] == [("publish", "t0")]


def test_select(client: Wire, served: Served) -> None:
    """Only the selected fields are sent, of records and of changes; the filter sees all of them."""
    about: Json = {"topic": served.names["live"], "filter": "/secret = 1", "sub_id": "s"}
    served.write("live", {"id": "s1", "secret": 1, "more": {"a": 1.50, "b": 2}, "c": 3})
    client.send("sow_and_subscribe", options="oof,select=[-/,+/id,+/more/a]", **about)
    assert bodies(client.group()) == [{"id": "s1", "more": {"a": 1.5}}]
    served.write("live", {"id": "s2", "secret": 1, "c": 4}, {"id": "s1", "secret": 2, "c": 5})
    messages = client.heartbeat()
    assert sorted((m["command"], m["data"]["id"]) for m in messages) == [("oof", "s1"), ("publish", "s2")]
    assert all(message["data"].keys() == {"id"} for message in messages)


@pytest.mark.parametrize(
    ("fields", "reason"),
    REFUSED,
    ids=lambda given: str(given)[:40],
)
def test_what_can_not_be_asked_for(client: Wire, served: Served, fields: Json, reason: str) -> None:
    """It is refused with its reason and a sentence, and nothing else happens."""
    answer = client.fail("sow", **({"topic": served.names["orders"]} | fields))
    assert answer["reason"] == reason
    assert answer["message"]
    assert client.heartbeat() == []


# several topics


def test_topics_by_a_pattern(client: Wire, served: Served) -> None:
    """They are one group, sorted over all of them; each record names its topic, the bookmark all logs."""
    pattern = f"^{served.names['orders'].removesuffix('orders')}(orders|mixed)"
    client.send("sow", topic=pattern, filter="/id < 4", order_by="/id DESC, /v", ack_type="stats")
    messages = client.group()
    assert ids(messages) == [3, 3, 2, 2, 1, 1, 0, 0]
    names = [message["topic"] for message in messages[1:-1]]
    assert names == [served.names["orders"], served.names["mixed"]] * 4
    assert {m["topic"] for m in (messages[0], messages[-1])} == {pattern}
    for name in ("orders", "mixed"):
        assert f"{served.names[name]}:0@" in messages[-1]["bookmark"]
    assert counts(client.receive()) == [20, 8, 8]
    client.send("sow", topic=pattern, filter="/id < 4", order_by="/id", top_n=3, skip_n=1)
    assert sorted(ids(client.group())) == [0, 1, 1]


def test_pattern_of_a_whole_name(client: Wire, served: Served) -> None:
    """A pattern that matches a part of a name does not match the topic; a name without `^` is no pattern."""
    prefix = served.names["orders"].removesuffix("orders")
    assert client.fail("sow", topic=f"^{prefix}")["reason"] == "invalid topic"
    assert client.fail("sow", topic=f"{prefix}.*")["reason"] == "invalid topic"


def test_subscription_to_a_pattern_comes_back(client: Wire, served: Served) -> None:
    """Changes of all topics come in one subscription; with a bookmark of all logs it goes on without a gap."""
    pattern = f"^{served.names['east'].removesuffix('east')}(east|west)"
    served.write("east", {"id": 1, "n": 1})
    served.write("west", {"id": 1, "n": 2})
    client.send("sow_and_subscribe", topic=pattern, sub_id="s", options="oof", filter="/n > 0")
    seen = client.group()
    assert sorted(body["n"] for body in bodies(seen)) == [1, 2]
    served.write("east", {"id": 2, "n": 3})
    served.write("west", {"id": 1, "n": 0}, {"id": 5, "n": 4})
    live = client.heartbeat()
    assert sorted((m["topic"], m["command"], m["data"]["n"]) for m in live) == [
        (served.names["east"], "publish", 3),
        (served.names["west"], "oof", 0),
        (served.names["west"], "publish", 4),
    ]
    with wire(served.query.url) as other:
        for count in range(len(live) + 1):
            bookmark = laid_over([seen[-1], *live[:count]])
            assert bookmark.count(";") == 1
            fields: Json = {"sub_id": f"r{count}", "options": "oof", "filter": "/n > 0"}
            other.send("subscribe", topic=pattern, bookmark=bookmark, ack_type="processed", **fields)
            assert other.receive()["bookmark"] == bookmark
            missed = [other.receive() for _ in live[count:]]
            # of one partition in order; of several in any
            assert sorted(m["bookmark"] for m in missed) == sorted(m["bookmark"] for m in live[count:])
            other.send("unsubscribe", sub_id="all")
            assert other.heartbeat() == []
        east, west = sorted(bookmark.split(";"))
        other.send("subscribe", topic=pattern, bookmark=east, filter="/n > 0")
        # all that ever was in the other topic, in the order of each partition
        assert {other.receive()["data"]["n"] for _ in range(2)} == {2, 4}
        orders = served.names["orders"]
        for given in (f"{east};{orders}:0@1", f"{orders}:0@1"):
            assert other.fail("subscribe", topic=pattern, bookmark=given)["reason"] == "invalid bookmark"
        assert (
            other.fail("subscribe", topic=served.names["east"], bookmark=west)["reason"] == "invalid bookmark"
        )


# access paths


@pytest.mark.parametrize(
    ("fields", "expected"),
    EXPLAINED,
    ids=lambda given: given.get("access_path", ""),
)
def test_explain(client: Wire, served: Served, fields: Json, expected: Json) -> None:
    """It says which access path a query takes over which index, and how many records that left to look at."""
    asked = dict(fields)
    if "sow_keys" in asked:
        asked["sow_keys"] = [served.key("orders", id) for id in asked["sow_keys"]]
    name = served.names["orders"]
    id = client.send("explain", topic=name, **asked)
    answer = client.receive()
    assert (answer["command"], answer["command_id"]) == ("explain", id)
    assert answer["bookmark"].startswith(f"{name}:0@")
    (access_path,) = answer["access_paths"]
    assert access_path["topic"] == name
    assert {field: access_path.get(field) for field in expected} == expected
    assert explained_over_http(served.query, name, asked) == [access_path]
    client.send("sow", topic=name, ack_type="stats", batch_size=100, **asked)
    assert len(ids(client.group())) == expected["matches"]
    assert client.receive()["matches"] == expected["matches"]


def test_explain_of_several_topics(client: Wire, served: Served) -> None:
    """Each topic has an access path of its own."""
    pattern = f"^{served.names['orders'].removesuffix('orders')}(orders|mixed)"
    client.send("explain", topic=pattern, filter="/region = 'north' AND /kind = 'a'")
    access_paths = {
        access_path["topic"]: access_path["access_path"] for access_path in client.receive()["access_paths"]
    }
    assert access_paths == {served.names["orders"]: "hash index", served.names["mixed"]: "memo index"}


def test_explain_without_room_for_indexes(limited: Wire, served: Served) -> None:
    """It says what the room was too small for."""
    limited.send("explain", topic=served.names["orders"], filter="/qty > 50")
    (access_path,) = limited.receive()["access_paths"]
    assert (access_path["access_path"], access_path["matches"]) == ("scan", 6)
    assert access_path["note"] == "index_bytes_max leaves no room for /qty"


# what may not hang, and what may be ended


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|aa)+$", "(a|b?c)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*a){20}$"]
)
def test_no_pattern_hangs_the_service(client: Wire, served: Served, pattern: str) -> None:
    """Patterns that take others for ever are answered, and other clients are served meanwhile."""
    done, waits = threading.Event(), [0.0]

    def ask_again_and_again() -> None:
        with wire(served.query.url) as other:
            while not done.is_set():
                began = time.monotonic()
                other.send("sow", topic=served.names["orders"], batch_size=100)
                assert len(ids(other.group())) == len(ORDERS)
                waits.append(time.monotonic() - began)

    thread = threading.Thread(target=ask_again_and_again)
    thread.start()
    try:
        began = time.monotonic()
        client.send("sow", topic=served.names["evil"], filter=f"/a LIKE '{pattern}'")
        assert ids(client.group()) == []
        client.send("sow", topic=served.names["evil"], filter=f"CONCAT(/a, '') LIKE '{pattern}' OR /id = 1")
        assert ids(client.group()) == [1]
        assert time.monotonic() - began < ANSWER_SECONDS_MAX
    finally:
        done.set()
        thread.join()
    assert max(waits) < ANSWER_SECONDS_MAX


def test_long_work_keeps_no_client_waiting(client: Wire, served: Served) -> None:
    """Others get their turns while many patterns are looked for in large records."""
    done, waits = threading.Event(), [0.0]

    def beat() -> None:
        with wire(served.query.url) as other:
            while not done.is_set():
                began = time.monotonic()
                other.heartbeat()
                waits.append(time.monotonic() - began)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        filter = " OR ".join(f"CONCAT(/a, '{n}') LIKE '(a+){{{1 + n % 2}}}[cd]'" for n in range(1, 100))
        began = time.monotonic()
        client.send("sow", topic=served.names["large"], filter=filter)
        assert ids(client.group()) == []
        took = time.monotonic() - began
    finally:
        done.set()
        thread.join()
    assert max(waits) < took / 3


def test_query_is_aborted(served: Served) -> None:
    """A running query ends where it is, says so, and leaves its id free; the connection goes on."""
    with wire(served.query.url, receive_bytes=4096) as slow:
        id = slow.send("sow", topic=served.names["long"], query_id="q")
        assert [slow.receive()["command"] for _ in range(2)] == ["group_begin", "sow"]
        slow.send("unsubscribe", command_id="end", query_id="q", ack_type="processed")
        messages = slow.receive_until(lambda message: message.get("command_id") == "end")
        *records, aborted, _ = messages
        assert {message["command"] for message in records} <= {"sow"}
        assert len(records) < RECORDS
        assert [aborted[n] for n in ("command_id", "ack_type")] == [id, "completed"]
        assert [aborted[n] for n in ("status", "reason")] == ["failure", "query aborted"]
        slow.send("sow", topic=served.names["orders"], query_id="q", batch_size=100)
        assert len(ids(slow.group())) == len(ORDERS)


def test_snapshot_is_ended(served: Served) -> None:
    """The end of a subscription is the end of its snapshot, and nothing is live after it."""
    with wire(served.query.url, receive_bytes=4096) as slow:
        slow.send("sow_and_subscribe", topic=served.names["long"], sub_id="s")
        assert [slow.receive()["command"] for _ in range(2)] == ["group_begin", "sow"]
        slow.send("unsubscribe", command_id="end", sub_id="s", ack_type="processed")
        messages = slow.receive_until(lambda message: message.get("command_id") == "end")
        assert {message["command"] for message in messages[:-1]} <= {"sow"}
        assert len(messages) < RECORDS
        served.write("long", {"id": 0, "pad": "x" * 200})
        assert slow.heartbeat() == []


def test_end_before_the_beginning(client: Wire, served: Served) -> None:
    """What is ended in the frame that asks for it, begun or not, leaves nothing behind."""
    name = served.names["orders"]
    requests: list[Json] = [
        {"command": "sow_and_subscribe", "command_id": "p", "topic": name, "top_n": 1, "skip_n": 0},
        {"command": "sow_and_subscribe", "command_id": "s", "topic": name},
        {"command": "sow", "command_id": "q", "topic": name},
        {"command": "unsubscribe", "sub_id": "all", "query_id": "q"},
    ]
    client.send_text(json.dumps(requests))
    failures = {message["reason"] for message in client.heartbeat() if message["command"] == "ack"}
    assert failures <= {"query aborted"}
    assert client.heartbeat() == []
    wait_for(lambda: served.query.metric("sowline_subscriptions_live") == 0, "nothing to be live")
    assert "never awaited" not in served.query.log


def test_query_id_in_use(served: Served) -> None:
    """A second query of the same id is refused while the first runs, and harms it in no way."""
    with wire(served.query.url, receive_bytes=4096) as slow:
        slow.send("sow", topic=served.names["long"], query_id="q", batch_size=10)
        second = slow.send("sow", topic=served.names["orders"], query_id="q")
        messages = slow.receive_until(lambda message: message["command"] == "group_end")
        (refused,) = [message for message in messages if message["command"] == "ack"]
        assert (refused["command_id"], refused["reason"]) == (second, "queryid in use")
        assert sum(len(m["records"]) for m in messages if m["command"] == "sow") == RECORDS


def test_abort_of_nothing(client: Wire) -> None:
    """To end a query that has ended is no error."""
    client.send("unsubscribe", query_id="gone", ack_type="processed")
    assert client.receive()["status"] == "success"


@pytest.mark.parametrize(
    ("fields", "reason", "message"),
    [
        ({"options": "select=[-/,+/id]"}, "result too large", "expected at most 1500 records"),
        ({}, "result too large", "expected at most 250000 bytes"),
        (
            {"filter": " OR ".join(f"CONCAT(/pad, '{n}') LIKE '(x+){{{1 + n % 2}}}y'" for n in range(100))},
            "query too long",
            "expected at most 0.3 seconds",
        ),
    ],
    ids=["records", "bytes", "seconds"],
)
@pytest.mark.parametrize("command", ["sow", "sow_and_subscribe"])
def test_limits(limited: Wire, served: Served, command: str, fields: Json, reason: str, message: str) -> None:
    """A query that costs more than is allowed fails, it is never cut; the connection goes on."""
    id = limited.send(command, topic=served.names["long"], batch_size=1000, **fields)
    messages = limited.receive_until(lambda message: message["command"] in ("ack", "group_end"))
    assert [messages[-1].get(n) for n in ("command_id", "status", "reason")] == [id, "failure", reason]
    assert messages[-1]["message"].startswith(message)
    limited.send("sow", topic=served.names["long"], top_n=1500, options="select=[-/]", batch_size=1000)
    assert limited.group()[-1]["records"] == 1500


def test_limit_of_an_answer_that_has_begun(served: Served) -> None:
    """Over HTTP an answer that meets its limit late breaks off, and does not look like a whole one."""
    url = f"{served.limited.url}/v1/topics/{served.names['long']}/sow"
    body = json.dumps({"options": "select=[-/,+/id]"}).encode()
    with (
        urllib.request.urlopen(url, body, timeout=ANSWER_SECONDS_MAX) as answer,
        pytest.raises((http.client.IncompleteRead, ConnectionError)),
    ):
        answer.read()
