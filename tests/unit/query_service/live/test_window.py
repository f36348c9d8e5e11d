"""Pages and groups, live: what their subscribers are sent, without Kafka and without a socket."""

import asyncio
import random
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from sowline.changes.change import Change
from sowline.model.key import sow_key
from sowline.model.position import Position
from sowline.serving.result import QueryLimits
from sowline.serving.sorting import sorted_in_turns
from sowline.subscriptions.engine.page import SortedSet
from sowline.subscriptions.engine.subscription import ChangeView
from tests.unit.query_service.sessions import DOMAIN, Client, Json, Server, settled, view_of

PAGE = {"order_by": "/n", "top_n": 2, "skip_n": 1}
TOTALS = "oof,grouping=[/g],projection=[/g,SUM(/n) AS /total,COUNT(/n) AS /count]"


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of one partition, loaded and empty."""
    server = Server().loaded()
    with server.patched():
        yield server


def key_of(number: object) -> str:
    """Return a record's SOW key."""
    return sow_key(DOMAIN, str(number)).decode()


def ids(messages: list[Json]) -> list[tuple[str, int]]:
    """Return the command and the record's id of each message, in order."""
    found: list[tuple[str, int]] = []
    for message in messages:
        records = message["records"] if message["command"] == "sow" else [message]
        found += [(message["command"], r["data"]["id"]) for r in records if "data" in r]
    return found


# pages


async def test_the_chapters_example(server: Server) -> None:
    """A page of two behind the first by id shows 2 and 5; when 4 is published, 5 leaves it."""
    for number in (1, 2, 5, 7):
        server.put({"id": number})
    client = server.connect()
    client.ask("sow_and_subscribe", order_by="/id", top_n=2, skip_n=1, options="oof")
    assert ids(await client.read()) == [("sow", 2), ("sow", 5)]
    server.put({"id": 4})
    messages = await client.read()
    assert ids(messages) == [("oof", 5), ("publish", 4)]
    assert (messages[0]["reason"], messages[0]["sow_key"]) == ("match", key_of(5))
    assert [m["bookmark"] for m in messages] == ["orders:0@3", "orders:0@4"]


async def test_a_page_counts(server: Server) -> None:
    """Its group ends with what was returned; the stats tell how many match in all."""
    for number in range(5):
        server.put({"id": number, "n": number})
    client = server.connect()
    client.ask("sow_and_subscribe", filter="/n > 0", ack_type="processed,completed,stats", **PAGE)
    messages = await client.read()
    assert [m.get("ack_type", m["command"]) for m in messages] == [
        "processed",
        "group_begin",
        "sow",
        "sow",
        "group_end",
        "completed",
        "stats",
    ]
    assert [messages[-1][n] for n in ("topic_matches", "matches", "records_returned")] == [5, 4, 2]


async def test_pages_share_a_set_and_end_with_their_subscribers(server: Server) -> None:
    """Two pages of one order are two windows on it; without subscribers there is nothing to keep."""
    first, second = server.connect(), server.connect()
    for client, skip in ((first, 0), (second, 1)):
        client.ask("sow_and_subscribe", order_by="/n", top_n=1, skip_n=skip, sub_id="s")
    await settled()
    assert (len(server.dispatcher.windows), server.dispatcher.live) == (1, 2)
    server.put({"id": 1, "n": 5})
    server.put({"id": 2, "n": 4})
    assert ids(await first.read()) == [("publish", 1), ("publish", 2)]
    assert ids(await second.read()) == [("publish", 1)]
    for client in (first, second):
        client.ask("unsubscribe", sub_id="s")
        await settled()
    assert (server.dispatcher.windows, server.dispatcher.live) == ([], 0)


async def test_a_select_list_and_options_hold_in_a_page(server: Server) -> None:
    """As in any read."""
    server.put({"id": 1, "n": 1})
    client = server.connect()
    client.ask("sow_and_subscribe", top_n=5, skip_n=0, options="no_sowkey,timestamp,select=[-/,+/id]")
    await settled()
    server.put({"id": 2, "n": 2})
    messages = await client.read()
    (record,) = next(m["records"] for m in messages if m["command"] == "sow")
    assert (record["data"], "sow_key" in record) == ({"id": 1}, False)
    live = messages[-1]
    assert (live["data"], "sow_key" in live, live["timestamp"][-7:]) == ({"id": 2}, False, "001000Z")


REFUSED: list[tuple[str, Json, str]] = [
    ("subscribe", {"top_n": 1, "skip_n": 0}, "not supported"),
    ("sow_and_subscribe", {"skip_n": 0}, "invalid skip_n"),
    ("sow_and_subscribe", {"top_n": 10_001, "skip_n": 0}, "invalid top_n"),
    ("sow_and_subscribe", {"top_n": 1, "skip_n": 0, "topic": "^orders"}, "regex topic not supported"),
    ("sow_and_subscribe", {"top_n": 1, "skip_n": 0, "filter": "UNIX_TIMESTAMP() > 0"}, "bad filter"),
    ("sow_and_subscribe", {"top_n": 1, "skip_n": 0, "sow_keys": ["1"]}, "not supported"),
    ("sow_and_subscribe", {"options": "grouping=[/g]"}, "invalid options"),
    ("sow_and_subscribe", {"options": "grouping=[/g],projection=[NOSUCH(/a) AS /b]"}, "invalid projection"),
    ("sow_and_subscribe", {"options": TOTALS, "filter": "LAST_UPDATED() > 1"}, "bad filter"),
    (
        "sow_and_subscribe",
        {"options": "grouping=[/g],projection=[UNIX_TIMESTAMP() AS /now]"},
        "invalid projection",
    ),
    ("subscribe", {"options": "oof", "filter": "CORRELATION_ID() = 'x'"}, "bad filter"),
    ("sow", {"options": TOTALS, "topic": "^orders"}, "regex topic not supported"),
    ("subscribe", {"options": "oof", "filter": "UNIX_TIMESTAMP() > 0"}, "bad filter"),
]


@pytest.mark.parametrize(("command", "fields", "reason"), REFUSED)
async def test_what_can_not_be_is_refused(server: Server, command: str, fields: Json, reason: str) -> None:
    """With its reason, and nothing is left behind."""
    client = server.connect()
    client.ask(command, **fields)
    (failure,) = await client.read()
    assert (failure["status"], failure["reason"]) == ("failure", reason)
    assert server.dispatcher.live == 0


# groups


async def test_groups_are_queried(server: Server) -> None:
    """The filter applies to the source records; order and limits to the groups."""
    for number in range(6):
        server.put({"id": number, "g": "ab"[number % 2], "n": number})
    client = server.connect()
    options = TOTALS.removeprefix("oof,")
    client.ask("sow", filter="/n > 0", options=options, order_by="/total DESC", ack_type="stats")
    messages = await client.read()
    records = [record for m in messages if m["command"] == "sow" for record in m["records"]]
    assert [record["data"] for record in records] == [
        {"g": "b", "total": 9, "count": 3},
        {"g": "a", "total": 6, "count": 2},
    ]
    assert [messages[-1][n] for n in ("topic_matches", "matches", "records_returned")] == [6, 5, 2]
    client.ask("sow", options=options, order_by="/total", top_n=1)
    assert list(view_of(await client.read()).values()) == [{"g": "a", "total": 6, "count": 3}]


async def test_groups_are_live(server: Server) -> None:
    """A record that moves changes two groups; a group without records goes out of focus."""
    server.put({"id": 1, "g": "a", "n": 1})
    client = server.connect()
    client.ask("sow_and_subscribe", options=TOTALS)
    window = view_of(await client.read())
    assert list(window.values()) == [{"g": "a", "total": 1, "count": 1}]
    server.put({"id": 2, "g": "b", "n": 5})
    server.put({"id": 1, "g": "b", "n": 1})
    messages = await client.read()
    assert [(m["command"], m["data"]["g"], m.get("reason")) for m in messages] == [
        ("publish", "b", None),
        ("oof", "a", "deleted"),
        ("publish", "b", None),
    ]
    assert list(view_of(messages, window).values()) == [{"g": "b", "total": 6, "count": 2}]


async def test_a_page_of_groups_is_live(server: Server) -> None:
    """The first so many by what they hold now; one that another pushes out leaves with its own result."""
    client = server.connect()
    client.ask("sow_and_subscribe", options=TOTALS, order_by="/total DESC", top_n=1, skip_n=0)
    for number, group, n in ((1, "a", 5), (2, "b", 3), (3, "b", 4)):
        await settled()
        server.put({"id": number, "g": group, "n": n})
    messages = await client.read()
    assert [(m["command"], m["data"]["g"], m.get("reason")) for m in messages[2:]] == [
        ("publish", "a", None),
        ("oof", "a", "match"),
        ("publish", "b", None),
    ]
    server.put({"id": 3, "g": "a", "n": 4})
    assert list(view_of(await client.read(), view_of(messages)).values()) == [
        {"g": "a", "total": 9, "count": 2}
    ]


async def test_a_group_that_leaves_a_page_is_sent_as_it_is_now(server: Server) -> None:
    """Also where it was pushed out before it changed, in one change of a record."""
    for number, n, group in ((0, 0, "a"), (1, 0, "a"), (3, 1, "b")):
        server.put({"id": number, "n": n, "g": group})
    client = server.connect()
    options = "oof,grouping=[/g],projection=[/g,COUNT(/id) AS /c,SUM(/n) AS /s]"
    client.ask("sow_and_subscribe", order_by="/s DESC,/g", top_n=1, skip_n=1, options=options)
    await client.read()
    server.put({"id": 3, "n": 1, "g": "a"})
    (message,) = await client.read()
    assert (message["reason"], message["data"]) == ("match", {"g": "a", "c": 3, "s": 1})


async def test_groups_of_a_guess_are_sent_whole(server: Server) -> None:
    """What a group showed of its latest record isn't known to whom it comes back: a delta would be of a guess."""
    for number in (1, 2):
        server.put({"id": number, "g": "a"})
    options = "no_empties,oof,grouping=[/g],projection=[/g,/id]"
    server.put({"id": 2, "g": "a"})
    server.put({"id": 1, "g": "a"})
    client = server.connect()
    client.ask("sow_and_delta_subscribe", bookmark="orders:0@1", options=options)
    (message,) = await client.read()
    assert ("delta" in message, message["data"]) == (False, {"g": "a", "id": 1})


async def test_too_many_groups_end_the_subscription() -> None:
    """With the reason; another one is as it was."""
    server = Server(limits=QueryLimits(groups_max=2)).loaded()
    client = server.connect()
    client.ask("sow_and_subscribe", options=TOTALS, sub_id="g")
    client.ask("subscribe", sub_id="plain")
    await settled()
    for number in range(3):
        server.put({"id": number, "g": number})
    messages = await client.read()
    failure = next(m for m in messages if m["command"] == "ack")
    assert (failure["reason"], failure["sub_id"]) == ("too many groups", "g")
    assert ids([m for m in messages if m["command"] == "publish" and m["sids"] == ["plain"]])[-1] == (
        "publish",
        2,
    )
    assert server.dispatcher.live == 1


# windows that can't be filled


@pytest.mark.parametrize("during", ["loading", "what came meanwhile"])
async def test_what_breaks_a_view_while_it_is_filled_ends_it(
    server: Server, monkeypatch: pytest.MonkeyPatch, during: str
) -> None:
    """All who wait for it are told, and keep nothing; anyone who asks later gets a new one."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(keyed: Any) -> Any:
        begun.set()
        await go_on.wait()
        if during == "loading":
            raise ZeroDivisionError("mine")
        return await sorted_in_turns(keyed)

    def broken(*_: object) -> object:
        raise ZeroDivisionError("mine")

    monkeypatch.setattr("sowline_query_service.live.pages.sorted_in_turns", slow)
    if during != "loading":
        monkeypatch.setattr(SortedSet, "put", broken)
    clients = [server.connect(), server.connect()]
    for client in clients:
        client.ask("sow_and_subscribe", **PAGE)
    await begun.wait()
    await settled()
    (window,) = server.dispatcher.windows
    server.put({"id": 1, "n": 1})
    go_on.set()
    with structlog.testing.capture_logs() as logged:
        await settled()
    seen = ChangeView(changed(server), server.topic.metadata, "orders:0", server.last[0])
    kept_by = sys.getrefcount(seen)
    assert (window.apply(0, seen), sys.getrefcount(seen)) == (0, kept_by)
    for client in clients:
        (failure,) = await client.read()
        assert (failure["status"], failure["reason"], "ZeroDivisionError;" in failure["message"]) == (
            "failure",
            "internal",
            True,
        )
        assert "mine" not in failure["message"]
    assert [entry["topic"] for entry in logged] == ["orders"]
    assert (server.dispatcher.windows, server.dispatcher.live) == ([], 0)
    monkeypatch.undo()
    clients[0].ask("sow_and_subscribe", **PAGE)
    assert [message["command"] for message in await clients[0].read()] == ["group_begin", "group_end"]


def changed(server: Server) -> Change:
    """Return one more change of a record, which nobody is told of."""
    here = server.last[0]
    return Change(
        key_of(2).encode(), b'{"id":2}', None, Position(0, here.offset + 1), here, "publish", 1, True, None
    )


# slow clients, and clients that come back


VIEWS: list[Json] = [
    {"order_by": "/n DESC", "top_n": 3, "skip_n": 1, "options": "oof", "filter": "/n > 1"},
    {"order_by": "/g, /n", "top_n": 2, "skip_n": 0, "options": "oof"},
    {"top_n": 3, "skip_n": 0, "options": "oof"},
    {"options": TOTALS, "filter": "/n > 1"},
    {"options": "oof,grouping=[/g],projection=[/g,/id,MAX(/n) AS /most]"},
    {
        "options": "oof,grouping=[/n],projection=[/n,COUNT(1) AS /c]",
        "order_by": "/c DESC",
        "top_n": 2,
        "skip_n": 1,
    },
    {"options": "oof,grouping=[/n],projection=[/n,/g,/id]", "order_by": "/g, /n", "top_n": 2, "skip_n": 0},
]


def change(server: Server, chance: random.Random) -> None:
    """Make a random change of one of a few records, in one of the partitions."""
    number = chance.randrange(8)
    key = sow_key(DOMAIN, str(number))
    if key in server.bodies and chance.random() < 0.3:
        server.put(None, key=number, partition=number % 2)
    else:
        body = {"id": number, "n": chance.randrange(6), "g": chance.choice("ab")}
        server.put(body, partition=number % 2)


async def now(server: Server, asked: Json) -> dict[str, Json]:
    """Return what a new subscriber would be shown."""
    client = server.connect()
    client.ask("sow_and_subscribe", **asked)
    window = view_of(await client.read())
    client.session.close()
    return window


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("asked", VIEWS)
async def test_a_slow_client_is_sent_the_difference(asked: Json, seed: int) -> None:
    """Whatever it missed, it ends with what everybody sees, and is live again."""
    server, chance = Server(partitions=2, backlog=300).loaded(), random.Random(seed)
    for _ in range(10):
        change(server, chance)
    client = server.connect()
    client.ask("sow_and_subscribe", **asked)
    window: dict[str, Json] = {}
    for _ in range(4):
        for _ in range(chance.randrange(20)):
            change(server, chance)
        window = view_of(await client.read(), window)
        assert window == await now(server, asked)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("asked", VIEWS[:-1])
async def test_a_client_that_comes_back_is_sent_the_difference(asked: Json, seed: int) -> None:
    """From any bookmark that it has seen; of another replica, too, and without a group."""
    server, chance = Server(partitions=2).loaded(), random.Random(seed)
    with server.patched():
        for _ in range(10):
            change(server, chance)
        client = server.connect()
        client.ask("sow_and_subscribe", ack_type="processed", **asked)
        seen = await client.read()
        for _ in range(30):
            change(server, chance)
            seen += await client.read()
        last = len(seen) - 1
        while seen[last]["command"] not in ("publish", "oof", "group_end"):
            last -= 1
        for cut in {last, *(chance.randrange(len(seen)) for _ in range(4))}:
            if seen[cut]["command"] not in ("publish", "oof", "group_end") or "more" in seen[cut]:
                continue
            other = server.connect()
            other.ask("sow_and_subscribe", bookmark=laid_over(seen[: cut + 1]), **asked)
            missed = await other.read()
            assert "group_begin" not in {m["command"] for m in missed}
            assert view_of(missed, view_of(seen[: cut + 1])) == await now(server, asked)
            other.session.close()


async def test_a_page_of_latest_fields_can_not_go_back(server: Server) -> None:
    """Which record of a group was the latest one is not known any more: the bookmark has expired."""
    client = server.connect()
    server.put({"id": 1, "g": "a", "n": 1})
    server.put({"id": 2, "g": "a", "n": 1})
    for sub_id, offset in (("a", 1), ("b", 0)):
        client.ask("sow_and_subscribe", bookmark=f"orders:0@{offset}", sub_id=sub_id, **VIEWS[-1])
    (failure,) = await client.read()
    assert (failure["reason"], failure["sub_id"]) == ("bookmark_expired", "b")


def laid_over(messages: list[Json]) -> str:
    """Return the bookmark that a client has after these messages."""
    partitions: dict[str, str] = {}
    for message in messages:
        if message["command"] in ("group_end", "publish", "oof"):
            partitions |= dict(
                part.split("@") for part in message["bookmark"].removeprefix("orders:").split(",")
            )
    return "orders:" + ",".join(f"{partition}@{offset}" for partition, offset in sorted(partitions.items()))


async def test_an_expired_bookmark_fails_or_resets(server: Server) -> None:
    """As the client asked."""
    limits = QueryLimits(undo_max=2)
    server = Server(limits=limits).loaded()
    with server.patched():
        for number in range(5):
            server.put({"id": number, "n": number})
        client: Client = server.connect()
        client.ask("sow_and_subscribe", bookmark="orders:0@0", sub_id="a", **PAGE)
        assert (await client.read())[0]["reason"] == "bookmark_expired"
        client.ask("sow_and_subscribe", bookmark="orders:0@0", sub_id="b", options="reset", **PAGE)
        messages = await client.read()
        assert (messages[0]["command"], messages[0]["reset"]) == ("group_begin", True)
        assert ids(messages) == [("sow", 1), ("sow", 2)]
