"""Records that end while the client of a page is not sent changes, and whose user may see only some records."""

from collections.abc import Iterator
from typing import Any

import pytest

from sowline.language.filter import compile_filter
from sowline.serving.authorization.entitlements import Entitlement, Rights, to_read
from tests.unit.query_service.sessions import Client, Json, Server

TRADER = Rights(to_read(Entitlement("orders", compile_filter("/desk = 'NY'"))))
PAGE: Json = {"sub_id": "s", "options": "oof", "top_n": 5, "skip_n": 0}


def order(number: int, desk: str = "NY") -> Json:
    """Return a record."""
    return {"id": number, "desk": desk}


@pytest.fixture
def server() -> Iterator[Server]:
    """A server with some orders of one desk."""
    server = Server().loaded()
    with server.patched():
        for number in range(1, 6):
            server.put(order(number))
        yield server


def end_hidden(server: Server, number: int) -> None:
    """Hide a record, then delete it."""
    server.put(order(number, "LN"))
    server.put(None, key=number)


async def page_of(server: Server, **more: Any) -> Client:
    """Return a client that has its page."""
    client = server.connect(TRADER, **more)
    client.ask("sow_and_subscribe", **PAGE)
    await client.read()
    return client


async def reasons(client: Client) -> dict[int, str]:
    """Return why records leave, by their ids."""
    return {m["data"]["id"]: m["reason"] for m in await client.read() if m["command"] == "oof"}


async def test_a_page_that_is_resumed_tells_each_end_as_it_was(server: Server) -> None:
    """The last change that took a record out of sight decides, whatever came after."""
    client = await page_of(server)
    client.ask("pause", sub_id="s")
    await client.read()
    end_hidden(server, 1)
    server.put(None, key=2)
    end_hidden(server, 3)
    server.put(order(3))
    server.put(None, key=3)
    server.put(order(4, "LN"))
    server.put(None, key=5)
    end_hidden(server, 5)
    client.ask("resume", sub_id="s")
    assert await reasons(client) == {
        1: "entitlement",
        2: "deleted",
        3: "deleted",
        4: "entitlement",
        5: "deleted",
    }


async def test_a_client_that_was_too_slow(server: Server) -> None:
    """It is told the same; what it was told of once is not remembered."""
    client = await page_of(server, backlog=300)
    for number in (1, 2, 3):
        server.put(order(number) | {"note": "x" * 300})
    end_hidden(server, 1)
    server.put(None, key=2)
    assert await reasons(client) == {1: "entitlement", 2: "deleted"}
    server.put(order(1))
    server.put(None, key=1)
    assert await reasons(client) == {1: "deleted"}


async def test_records_end_while_another_page_is_filled(server: Server) -> None:
    """The replaced page has none of the changes by then, and the new one not yet."""
    client = await page_of(server)
    client.ask("pause", sub_id="s")
    await client.read()
    end_hidden(server, 1)
    client.ask(
        "sow_and_subscribe", **PAGE | {"options": "oof,replace", "command_id": "2", "filter": "/id < 9"}
    )
    end_hidden(server, 2)
    server.put(None, key=3)
    assert await reasons(client) == {1: "entitlement", 2: "entitlement", 3: "deleted"}


async def test_only_viewers_that_are_away_are_watched(server: Server) -> None:
    """Nor is a user who may see all records, or one who has left."""
    away = server.dispatcher.away_in("orders")
    everybody = server.connect()
    everybody.ask("sow_and_subscribe", **PAGE)
    everybody.ask("pause", sub_id="s")
    client = await page_of(server)
    assert not away
    client.ask("pause", sub_id="s")
    await client.read()
    assert len(away) == 1
    client.ask("resume", sub_id="s")
    await client.read()
    assert not away
    client.ask("pause", sub_id="s")
    client.ask("unsubscribe", sub_id="s")
    await client.read()
    assert not away
