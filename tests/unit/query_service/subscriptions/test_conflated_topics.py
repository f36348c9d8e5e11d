"""Conflated topics: an `oof` has the last data that its subscriber received, as with conflation of a subscription."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.query_service.sessions import Client, Json, Server, settled

SLOW = "{name: work, key: /id}]\nconflated: [{name: orders, from: work, interval: 1s}"
OF_VIEW = (
    "{name: work, key: /id}]\nviews: [{name: open, from: work, filter: /qty > 0}]\n"
    "conflated: [{name: orders, from: open, interval: 1s}"
)
VIEW = "{name: work, key: /id}]\nviews: [{name: orders, from: work, filter: /qty > 0}"

RECEIVED: Json = {"id": 1, "status": "open", "qty": 1}
LEFT: Json = {"id": 1, "status": "done", "qty": 2}
COUNTS = "oof,grouping=[/status],projection=[/status,MAX(/qty) AS /most]"


@pytest.fixture(params=[SLOW, OF_VIEW], ids=["of a topic", "of a view"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of a conflated topic with one record."""
    server = Server(definition=request.param).loaded()
    server.put(RECEIVED)
    with server.patched():
        yield server


async def begun(server: Server, **fields: Any) -> Client:
    """Return a client whose subscription has begun."""
    client = server.connect()
    client.ask("sow_and_subscribe", **{"options": "oof", **fields})
    assert [m["command"] for m in await client.read()] == ["group_begin", "sow", "group_end"]
    return client


async def oofs(client: Client) -> list[tuple[str, Json]]:
    """Return the reason and the data of each `oof`."""
    await settled()
    return [(m["reason"], m["data"]) for m in await client.read() if m["command"] == "oof"]


@pytest.mark.parametrize("options", ["oof", "oof,conflation=10ms"])
async def test_an_oof_has_what_the_subscriber_received(server: Server, options: str) -> None:
    """Whether it no longer matches or is deleted, live and after a bookmark."""
    client = await begun(server, filter="/status = 'open'", options=options)
    bookmark = server.topic.bookmark(server.topic.positions)
    server.put(LEFT)
    again = server.connect()
    again.ask("subscribe", filter="/status = 'open'", options="oof", bookmark=bookmark)
    assert await oofs(again) == [("match", RECEIVED)]
    whole = await begun(server)
    server.put(None, 1)
    assert await oofs(whole) == [("deleted", LEFT)]
    if "conflation" not in options:
        assert await oofs(client) == [("match", RECEIVED)]


@pytest.mark.parametrize(
    ("fields", "data"),
    [
        ({"order_by": "/qty", "skip_n": 0, "top_n": 1, "filter": "/status = 'open'"}, RECEIVED),
        ({"order_by": "/qty", "skip_n": 0, "top_n": 1}, RECEIVED),
        ({"order_by": "/most", "skip_n": 0, "top_n": 1, "options": COUNTS}, {"status": "open", "most": 1}),
    ],
)
async def test_an_oof_of_a_page(server: Server, fields: Json, data: Json) -> None:
    """Also of a page of groups, and of a record that others push out."""
    client = await begun(server, **fields)
    server.put({"id": 2, "status": "idle", "qty": 2})
    await settled()
    server.put({**LEFT, "status": "open", "qty": 3} if "filter" not in fields else LEFT)
    assert await oofs(client) == [("match", data)]


async def test_an_oof_of_a_replaced_subscription(server: Server) -> None:
    """The record that the client holds."""
    client = await begun(server, filter="/status = 'open'")
    client.ask("sow_and_subscribe", filter="/qty > 5", sub_id="1", options="oof,replace")
    assert await oofs(client) == [("match", RECEIVED)]


async def test_a_view_sends_the_new_record() -> None:
    """It merges no changes, so its subscribers are sent each of them."""
    server = Server(definition=VIEW).loaded()
    server.put(RECEIVED)
    with server.patched():
        client = await begun(server, filter="/status = 'open'")
        server.put(LEFT)
        assert await oofs(client) == [("match", LEFT)]
