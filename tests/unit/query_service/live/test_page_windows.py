"""Pages of many records hold the first of them: what happens when more records leave them than come."""

import random
from typing import Any

import pytest

from sowline.changes.change import Change
from sowline.errors import SowlineError
from sowline.model.key import sow_key
from sowline.model.position import Position
from sowline.serving.result import QueryLimits
from sowline_query_service.query.query import Query
from tests.unit.query_service.sessions import DOMAIN, Client, Json, Server, settled, view_of

pytestmark = pytest.mark.slow

PAGE = {"order_by": "/n", "top_n": 3, "skip_n": 1, "options": "oof"}


def server_of(records: int, margin: int, **given: Any) -> Server:
    """Return a server with records whose `n` is their id, and pages that hold so many records more than they show."""
    server = Server(limits=QueryLimits(page_margin=margin), **given).loaded()
    for number in range(records):
        server.put({"id": number, "n": number, "g": "ab"[number % 2]})
    return server


async def queried(server: Server, asked: Json) -> dict[str, Json]:
    """Return what a query finds of the page."""
    client = server.connect()
    client.ask("sow", **(asked | {"options": ""}))
    found = view_of(await client.read())
    client.session.close()
    return found


async def subscribed(server: Server, **asked: Any) -> tuple[Client, list[Json]]:
    """Subscribe; return the client and the first messages."""
    client = server.connect()
    client.ask("sow_and_subscribe", **asked)
    return client, await client.read()


async def test_a_page_holds_few_of_many_records() -> None:
    """It counts all that match, before and after changes of those that it does not hold."""
    server = server_of(2000, 10)
    asked = PAGE | {"filter": "/n >= 0", "ack_type": "stats"}
    _, messages = await subscribed(server, **asked)
    assert (messages[-1]["matches"], messages[-1]["records_returned"]) == (2000, 3)
    assert server.context.views.nbytes < 20_000
    for number in (500, 600):
        server.put(None, key=number)
    server.put({"id": 700, "n": -1})
    server.put({"id": 2000, "n": 5000})
    server.put({"id": 800, "n": 3000})
    server.put({"id": 2001, "n": -1})
    server.put({"id": 2001, "n": 5001})
    _, messages = await subscribed(server, **asked)
    assert messages[-1]["matches"] == 1999


async def test_a_page_that_runs_short_goes_on() -> None:
    """Its client is sent each change, or the difference; it is not sent the page again."""
    server = server_of(200, 4)
    client, messages = await subscribed(server, **PAGE)
    window = view_of(messages)
    for number in range(150):
        server.put(None, key=number)
        if number % 7 == 0:
            messages = await client.read()
            assert "group_begin" not in {message["command"] for message in messages}
            window = view_of(messages, window)
            assert window == await queried(server, PAGE)
    assert [record["n"] for record in view_of(await client.read(), window).values()] == [151, 152, 153]


async def test_all_leave_in_one_batch() -> None:
    """However many records leave before anything else is done, also those that the page never held."""
    server = server_of(50, 4)
    client, messages = await subscribed(server, **PAGE)
    for number in range(49):
        server.put(None, key=number)
    assert view_of(await client.read(), view_of(messages)) == {}
    for number in range(5):
        server.put({"id": number, "n": number})
    assert view_of(await client.read()) == await queried(server, PAGE) != {}


async def test_a_page_that_runs_short_within_a_batch() -> None:
    """The difference continues from the last change that was sent, not from the end of the batch."""
    server = server_of(50, 4)
    client, _ = await subscribed(server, **PAGE)
    first = server.last[0].offset + 1
    deletions = [
        Change(
            server.topic.definition.key_rule.sow_key(str(number)),
            None,
            server.bodies[server.topic.definition.key_rule.sow_key(str(number))],
            Position(0, first + number),
            Position(0, first + number - 1),
            "delete",
            1,
            True,
            "deleted",
        )
        for number in range(30)
    ]
    server.take_all(deletions, 0)
    messages = await client.read()
    ends = [number for number, message in enumerate(messages) if not message.get("more")]
    last_sent, begun = messages[ends[-2]]["bookmark"], messages[ends[-2] + 1]["bookmark"]
    assert begun == last_sent != messages[-1]["bookmark"]
    assert messages[-1]["bookmark"] == server.topic.bookmark(server.topic.positions)


async def test_a_larger_page_of_the_same_order() -> None:
    """Finds more records, and the smaller one goes on meanwhile."""
    server = server_of(300, 4)
    first, seen = await subscribed(server, **PAGE)
    larger = PAGE | {"skip_n": 100, "top_n": 50}
    second = server.connect()
    second.ask("sow_and_subscribe", **larger)
    server.put({"id": 300, "n": 1.5})
    assert view_of(await first.read(), view_of(seen)) == await queried(server, PAGE)
    assert view_of(await second.read()) == await queried(server, larger)
    server.put(None, key=120)
    assert len(server.dispatcher.windows) == 1


async def test_what_is_far_behind_is_dropped() -> None:
    """A page whose front grows without end holds no more than at first."""
    server = server_of(100, 10)
    client, messages = await subscribed(server, **PAGE)
    await settled()
    before = server.context.views.nbytes
    for number in range(100, 1000):
        server.put({"id": number, "n": -number})
    assert server.context.views.nbytes < 3 * before
    assert view_of(await client.read(), view_of(messages)) == await queried(server, PAGE)


async def too_long(query: Query) -> None:
    """Begin no query."""
    raise SowlineError("query too long", "expected at most 1 second of work")


async def test_a_search_that_fails_ends_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its reason; who asks again gets a new one."""
    server = server_of(100, 4)
    client, _ = await subscribed(server, sub_id="s", **PAGE)
    with monkeypatch.context() as broken:
        broken.setattr(Query, "begin", too_long)
        for number in range(20):
            server.put(None, key=number)
        failure = (await client.read())[-1]
    assert (failure["reason"], failure["sub_id"]) == ("query too long", "s")
    _, messages = await subscribed(server, **PAGE)
    assert view_of(messages) == await queried(server, PAGE)


ASKED: list[Json] = [
    {"order_by": "/n DESC", "top_n": 3, "skip_n": 1, "options": "oof", "filter": "/n > 1"},
    {"order_by": "/g, /n", "top_n": 2, "skip_n": 0, "options": "oof"},
    {"order_by": "/g, /n", "top_n": 4, "skip_n": 3, "options": "oof"},
    {"top_n": 3, "skip_n": 0, "options": "oof"},
    {"top_n": 0, "skip_n": 2, "options": "oof"},
]


def change(server: Server, chance: random.Random) -> None:
    """Make a random change of one of some records, in one of the partitions."""
    number = chance.randrange(25)
    if sow_key(DOMAIN, str(number)) in server.bodies and chance.random() < 0.4:
        server.put(None, key=number, partition=number % 2)
    else:
        body = {"id": number, "n": chance.randrange(9), "g": chance.choice("ab")}
        server.put(body, partition=number % 2)


@pytest.mark.parametrize("backlog", [300, 1 << 20])
@pytest.mark.parametrize("seed", range(12))
async def test_pages_of_few_records_show_what_queries_find(seed: int, backlog: int) -> None:
    """Many pages at once, with fast and slow clients, and with clients that come back with a bookmark."""
    chance = random.Random(seed)
    server = Server(
        partitions=2, backlog=backlog, limits=QueryLimits(page_margin=chance.choice((1, 2)))
    ).loaded()
    with server.patched():
        for _ in range(40):
            change(server, chance)
        clients = [(asked, *(await subscribed(server, **asked))) for asked in ASKED]
        windows = [view_of(messages) for _, _, messages in clients]
        for _ in range(12):
            before = server.topic.bookmark(server.topic.positions)
            for _ in range(chance.randrange(20)):
                change(server, chance)
            for number, (asked, client, _) in enumerate(clients):
                held = windows[number]
                windows[number] = view_of(await client.read(), held)
                expected = await queried(server, asked)
                assert windows[number] == expected
                other, missed = await subscribed(server, bookmark=before, **asked)
                assert view_of(missed, held) == expected
                other.session.close()
