"""Aggregated queries and subscriptions, through a raw WebSocket, against real processes over a real Kafka."""

import json
import urllib.request
from collections.abc import Iterator

import pytest

from tests.integration.served import Served, serve
from tests.integration.wire import Json, Wire, laid_over, wire
from tests.waiting import SECONDS_MAX, wait_for

SALES: list[Json] = [
    {"id": 1, "shop": "north", "item": "nut", "qty": 5, "price": 2.0, "by": "ann"},
    {"id": 2, "shop": "north", "item": "nut", "qty": 1, "price": 3.0, "by": "bob"},
    {"id": 3, "shop": "south", "item": "nut", "qty": 7, "price": 1.5, "by": "ann"},
    {"id": 4, "shop": "south", "item": "bolt", "qty": 2, "price": 4.0, "by": "cid"},
    {"id": 5, "shop": "south", "item": "bolt", "qty": 2, "price": 4.0, "by": "ann"},
    {"id": 6, "item": "bolt"},
]
EVERYTHING = """
    /shop, COUNT(1) AS /n, COUNT(/qty) AS /with/qty, COUNT_DISTINCT(/by) AS /with/sellers, SUM(/qty) AS /sum,
    AVG(/qty) AS /avg, MIN(/price) AS /least, MAX(/price) AS /most, STDDEV_POP(/qty) AS /deviation,
    STDDEV_SAMP(/qty) AS /sample, GROUP_CONCAT(/by, '+') AS /by, ANY(/item) AS /any, UNIQUE(/item) AS /unique,
    SUM(/qty * /price) / SUM(/qty) AS /vwap
"""
LIVE = "oof,grouping=[/g],projection=[/g,COUNT(1) AS /n,SUM(/v) AS /sum,MIN(/v) AS /min,MAX(/v) AS /max]"


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One materializer and one query service for all tests here."""
    names = ("sales", "live", "extremes", "share", "back", "paged")
    topics = {name: {"key": "/id", "partitions": 2} for name in names}
    with serve(kafka, tmp_path_factory.mktemp("groups"), topics) as served:
        served["sales"].write(*SALES)
        yield served


@pytest.fixture
def client(served: Served) -> Iterator[Wire]:
    """A connection of the test's own."""
    with wire(served.query.url) as client:
        yield client


def results(messages: list[Json]) -> list[Json]:
    """Return the groups of an answer, in their order."""
    return [record["data"] for message in messages[1:-1] for record in message["records"]]


# queries


def test_every_aggregate(client: Wire, served: Served) -> None:
    """Of each group of records, exactly; arithmetic on them; under the names that were asked for."""
    options = f"grouping=[/shop],projection=[{EVERYTHING}]"
    client.send("sow", topic=served["sales"].name, options=options, order_by="/shop", ack_type="stats")
    messages = client.group()
    none, north, south = results(messages)
    assert none == {
        "shop": None,
        "n": 1,
        "with": {"qty": 0, "sellers": 0},
        **dict.fromkeys(("sum", "avg", "least", "most", "deviation", "sample", "by", "vwap"), None),
        "any": "bolt",
        "unique": "bolt",
    }
    assert north == {
        "shop": "north",
        "n": 2,
        "with": {"qty": 2, "sellers": 2},
        "sum": 6,
        "avg": 3.0,
        "least": 2.0,
        "most": 3.0,
        "deviation": 2.0,
        "sample": 8**0.5,
        "by": "ann+bob",
        "any": "nut",
        "unique": "nut",
        "vwap": 13 / 6,
    }
    assert (south["n"], south["with"], south["sum"], south["avg"]) == (
        3,
        {"qty": 3, "sellers": 2},
        11,
        11 / 3,
    )
    assert (south["any"], south["unique"], south["vwap"]) == ("bolt", None, 26.5 / 11)
    stats = client.receive()
    assert [stats[n] for n in ("topic_matches", "matches", "records_returned")] == [6, 6, 3]


def test_filter_order_and_limits(client: Wire, served: Served) -> None:
    """The filter is asked of the records, the order and the limits hold for the groups."""
    options = "grouping=[/shop,/item],projection=[/shop,/item,SUM(/qty) AS /sum]"
    about: Json = {"topic": served["sales"].name, "options": options, "filter": "/qty > 1"}
    client.send("sow", order_by="/sum DESC", **about)
    assert [result["sum"] for result in results(client.group())] == [7, 5, 4]
    client.send("sow", order_by="/sum DESC", top_n=1, skip_n=1, **about)
    messages = client.group()
    assert results(messages) == [{"shop": "north", "item": "nut", "sum": 5}]
    assert messages[-1]["records"] == 1
    client.send("sow", order_by="/sum", batch_size=10, **about)
    (batch,) = client.group()[1:-1]
    keys = {record["sow_key"] for record in batch["records"]}
    assert len(keys) == 3
    assert all(record.keys() == {"sow_key", "data"} for record in batch["records"])


def test_groups_over_http(served: Served) -> None:
    """A line of JSON for each group."""
    options = "grouping=[/item],projection=[/item AS /what,COUNT(1) AS /n]"
    url = f"{served.query.url}/v1/topics/{served['sales'].name}/sow"
    body = json.dumps({"options": options, "order_by": "/n DESC, /what"}).encode()
    with urllib.request.urlopen(url, body, timeout=SECONDS_MAX) as answer:
        lines = [json.loads(line)["data"] for line in answer.read().splitlines()]
    assert lines == [{"what": "bolt", "n": 3}, {"what": "nut", "n": 3}]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"options": "grouping=[/g]"}, "invalid options"),
        ({"options": "projection=[/g]"}, "invalid options"),
        ({"options": "grouping=[],projection=[/g]"}, "invalid grouping"),
        ({"options": "grouping=[/g],projection=[SUM(/v)]"}, "invalid projection"),
        ({"options": "grouping=[/g],projection=[SUM(MAX(/v)) AS /v]"}, "invalid projection"),
        ({"options": "grouping=[/g],projection=[NOSUCH(/v) AS /v]"}, "invalid projection"),
        ({"options": "grouping=[/g],projection=[COUNT(1) AS /n],select=[-/]"}, "invalid options"),
        ({"options": LIVE, "topic": "^.*"}, "regex topic not supported"),
        ({"command": "subscribe", "options": LIVE}, "not supported"),
        ({"command": "sow_and_subscribe", "options": LIVE, "sow_keys": ["1"]}, "not supported"),
        ({"options": LIVE, "filter": "SUM(/v) > 1"}, "bad filter"),
    ],
    ids=lambda given: str(given)[:60],
)
def test_groups_that_can_not_be(client: Wire, served: Served, fields: Json, reason: str) -> None:
    """They are refused with their reason, and nothing else happens."""
    answer = client.fail(**({"command": "sow", "topic": served["sales"].name} | fields))
    assert answer["reason"] == reason
    assert client.heartbeat() == []


# live


def live(client: Wire) -> list[tuple[str, Json, str | None, bool]]:
    """Return what came: command, result, reason, and whether there is more of the same step."""
    found = client.heartbeat()
    return [(m["command"], m["data"], m.get("reason"), m.get("more", False)) for m in found]


def group(g: str, *values: int) -> Json:
    """Return the result of a group of these values."""
    return {"g": g, "n": len(values), "sum": sum(values), "min": min(values), "max": max(values)}


def test_groups_are_live(client: Wire, served: Served) -> None:
    """A record that moves changes two groups in one step; a group that ends goes out of focus."""
    served["live"].write(
        {"id": 1, "g": "a", "v": 1}, {"id": 2, "g": "a", "v": 4}, {"id": 3, "g": "b", "v": 2}
    )
    client.send("sow_and_subscribe", topic=served["live"].name, options=LIVE, filter="/v > 0", sub_id="s")
    messages = client.group()
    assert sorted(results(messages), key=lambda result: result["g"]) == [group("a", 1, 4), group("b", 2)]
    keys = {record["data"]["g"]: record["sow_key"] for m in messages[1:-1] for record in m["records"]}
    served["live"].write({"id": 4, "g": "b", "v": 7})
    served["live"].merge({"id": 2, "g": "b"})
    first, *moved = client.heartbeat()
    assert (first["command"], first["data"], first["sow_key"]) == ("publish", group("b", 2, 7), keys["b"])
    assert {m["data"]["g"]: m["data"] for m in moved} == {"a": group("a", 1), "b": group("b", 2, 7, 4)}
    assert [m.get("more", False) for m in moved] == [True, False]
    assert moved[0]["bookmark"] == first["bookmark"] != moved[1]["bookmark"]
    served["live"].delete({"id": 1})
    assert live(client) == [("oof", group("a", 1), "deleted", False)]
    served["live"].merge({"id": 3, "g": "c"})
    assert {(m[0], m[1]["g"], m[1]["sum"]) for m in live(client)} == {
        ("publish", "b", 11),
        ("publish", "c", 2),
    }
    served["live"].merge({"id": 3, "g": "d"})
    assert live(client) == [
        ("oof", group("c", 2), "deleted", True),
        ("publish", group("d", 2), None, False),
    ]
    served["live"].merge({"id": 3, "v": 0})
    assert live(client) == [("oof", group("d", 2), "deleted", False)]
    served["live"].merge({"id": 3, "g": "e"})
    served["live"].delete({"id": 3})
    assert live(client) == []
    client.send("sow", topic=served["live"].name, options=LIVE.removeprefix("oof,"), filter="/v > 0")
    assert results(client.group()) == [group("b", 7, 4)]


def test_extremes_survive_removal(client: Wire, served: Served) -> None:
    """When the first or the last value goes, the next one is told: none is forgotten."""
    served["extremes"].write(*({"id": id, "g": "x", "v": id * id} for id in range(1, 8)))
    client.send("sow_and_subscribe", topic=served["extremes"].name, options=LIVE)
    assert results(client.group()) == [group("x", *(id * id for id in range(1, 8)))]
    left = {id: id * id for id in range(1, 8)}
    for id in (7, 1, 4, 2, 6):
        served["extremes"].delete({"id": id})
        del left[id]
        assert live(client) == [("publish", group("x", *left.values()), None, False)]
    served["extremes"].write({"id": 3, "g": "x", "v": 100})
    assert live(client) == [("publish", group("x", 100, 25), None, False)]
    served["extremes"].write({"id": 3, "g": "x", "v": 0})
    assert live(client) == [("publish", group("x", 0, 25), None, False)]


def test_page_of_groups(client: Wire, served: Served) -> None:
    """The first groups by what they hold: one that outgrows another takes its place; what ends makes room."""
    served["paged"].write(
        *({"id": id, "g": g, "v": v} for id, (g, v) in enumerate(zip("abcd", (1, 2, 3, 4), strict=True))),
    )
    about: Json = {"order_by": "/sum DESC", "top_n": 2, "skip_n": 0, "options": LIVE}
    client.send("sow_and_subscribe", topic=served["paged"].name, **about)
    assert results(client.group()) == [group("d", 4), group("c", 3)]
    served["paged"].write({"id": 9, "g": "a", "v": 7})
    assert live(client) == [
        ("oof", group("c", 3), "match", True),
        ("publish", group("a", 1, 7), None, False),
    ]
    served["paged"].delete({"id": 3})
    assert live(client) == [
        ("oof", group("d", 4), "deleted", True),
        ("publish", group("c", 3), None, False),
    ]
    served["paged"].merge({"id": 9, "g": "b"})
    messages = client.heartbeat()
    assert {(m["command"], m["data"]["g"], m.get("reason")) for m in messages} == {
        ("oof", "a", "match"),
        ("publish", "b", None),
    }
    served["paged"].merge({"id": 1, "v": 3})
    assert live(client) == [("publish", group("b", 7, 3), None, False)]


@pytest.mark.one_node
def test_clients_share_groups(served: Served) -> None:
    """Both are told the same; one without `oof` is not told what ended; groups go on when one has left."""
    metric = "sowline_subscriptions_live"
    wait_for(lambda: served.query.metric(metric) == 0, "those of other tests to be gone")
    with wire(served.query.url) as first:
        with wire(served.query.url) as second:
            first.send("sow_and_subscribe", topic=served["share"].name, options=LIVE)
            second.send("sow_and_subscribe", topic=served["share"].name, options=LIVE.removeprefix("oof,"))
            assert results(first.group()) == results(second.group()) == []
            served["share"].write({"id": 1, "g": "a", "v": 1})
            assert live(first) == live(second) == [("publish", group("a", 1), None, False)]
            served["share"].delete({"id": 1})
            assert live(first) == [("oof", group("a", 1), "deleted", False)]
            assert live(second) == []
        wait_for(lambda: served.query.metric(metric) == 1, "one to leave")
        served["share"].write({"id": 2, "g": "b", "v": 2})
        assert live(first) == [("publish", group("b", 2), None, False)]


def test_coming_back_to_groups(client: Wire, served: Served) -> None:
    """With a bookmark, what differs from what was shown there is told, and no more."""
    served["back"].write(*({"id": id, "g": "abc"[id % 3], "v": id} for id in range(6)))
    client.send("sow_and_subscribe", topic=served["back"].name, options=LIVE, sub_id="s")
    seen = client.group()[-1:]
    served["back"].write({"id": 6, "g": "a", "v": 6})
    seen += client.heartbeat()
    client.send("unsubscribe", sub_id="s")
    assert client.heartbeat() == [], "it has ended before anything else is written"
    served["back"].delete({"id": 1}, {"id": 4})
    served["back"].write({"id": 9, "g": "a", "v": 9}, {"id": 10, "g": "d", "v": 1})
    served["back"].delete({"id": 9})
    bookmark = laid_over(seen)
    client.send("sow_and_subscribe", topic=served["back"].name, options=LIVE, bookmark=bookmark)
    messages = [client.receive(), client.receive()]
    assert [(m["command"], m["data"], m.get("more")) for m in messages] == [
        ("oof", group("b", 1, 4), True),
        ("publish", group("d", 1), None),
    ]
    assert live(client) == []
