"""Who is connected, and how each subscription stands."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sowline.serving.sessions import clients
from sowline.serving.sessions.clients import Clients
from tests.unit.query_service.sessions import Server
from tests.waiting import loop_turns


def nothing_closes() -> None:
    """The connection of a client without one."""


@contextmanager
def listed(clients: Clients, *given: Any) -> Iterator[None]:
    """List a client for the time of the block."""
    number = clients.add(*given)
    yield
    clients.remove(number)


async def test_a_client_is_disconnected_by_its_number() -> None:
    """Its connection is closed; another number is not that of a client."""
    server, connected = Server().loaded(), Clients()
    closed: list[str] = []

    def close() -> None:
        closed.append("closed")

    with listed(connected, "", "", server.connect().session, close):
        assert not connected.disconnect(2)
        assert (connected.disconnect(1), closed) == (True, ["closed"])
    assert not connected.disconnect(1)


async def test_clients_leave_while_others_are_listed() -> None:
    """The list is of those who were there when it was asked for."""
    server, connected = Server().loaded(), Clients()
    with listed(connected, "", "", server.connect().session, nothing_closes):
        number = connected.add("", "", server.connect().session, nothing_closes)
        listing = asyncio.create_task(connected.list_all())
        await loop_turns()
        connected.remove(number)
        assert [one["id"] for one in (await listing)["clients"]] == [1, 2]


async def test_a_client_is_listed_while_it_is_there() -> None:
    """Its address and program, what it has asked for, and that it is level with its replica."""
    server, connected = Server().loaded(), Clients()
    client = server.connect()
    server.put({"id": 1})
    client.ask("sow_and_subscribe", sub_id="s", filter="/id > 0", options="oof", ack_type="processed")
    await client.read()
    with listed(connected, "10.0.0.1:5000", "Firefox/140", client.session, nothing_closes):
        found = await connected.list_all()
        (one,) = found["clients"]
        assert found["connected"] == 1
        assert (one["id"], one["address"], one["agent"]) == (1, "10.0.0.1:5000", "Firefox/140")
        assert one["user"] == ""
        assert one["since"].endswith("+00:00")
        assert (one["queries_count"], one["queries"], one["unsent_bytes"]) == (0, [], 0)
        assert one["subscriptions"] == [
            {
                "sub_id": "s",
                "command": "sow_and_subscribe",
                "topic": "orders",
                "filter": "/id > 0",
                "condition": "",
                "options": "oof",
                "state": "live",
                "behind_positions": 0,
                "behind_seconds": 0.0,
            }
        ]
    assert await connected.list_all() == {"connected": 0, "clients": []}


async def subscription_status(server: Server, **fields: Any) -> dict[str, Any]:
    """Subscribe, let three changes come, and return how the subscription stands then."""
    connected, client = Clients(), server.connect()
    client.ask("sow_and_subscribe", sub_id="s", ack_type="processed", **fields)
    await client.read()
    for number in range(3):
        server.put({"id": number})
    with listed(connected, "", "", client.session, nothing_closes):
        (one,) = (await connected.list_all())["clients"]
    found: dict[str, Any] = one["subscriptions"][0]
    return found


async def test_a_paused_subscription_falls_behind() -> None:
    """By the log's records that came meanwhile, since it was level last."""
    found = await subscription_status(Server().loaded(), options="pause")
    assert (found["state"], found["behind_positions"]) == ("paused", 3)
    assert found["behind_seconds"] >= 0


async def test_what_is_held_back_on_purpose_is_live() -> None:
    """A conflated subscription, of records and of a page, is level but for its interval."""
    for fields in ({}, {"top_n": 2, "skip_n": 0}):
        found = await subscription_status(Server().loaded(), options="conflation=1h", **fields)
        assert (found["state"], found["behind_positions"], found["behind_seconds"]) == ("live", 3, 0.0)


async def test_a_page_that_is_paused_is_behind() -> None:
    """Like any subscription."""
    server, connected = Server().loaded(), Clients()
    client = server.connect()
    client.ask("sow_and_subscribe", sub_id="s", top_n=2, skip_n=0, ack_type="processed")
    await client.read()
    client.ask("pause", sub_id="s")
    server.put({"id": 1})
    with listed(connected, "", "", client.session, nothing_closes):
        (one,) = (await connected.list_all())["clients"]
    found = one["subscriptions"][0]
    assert (found["state"], found["behind_positions"]) == ("paused", 1)


async def test_running_queries() -> None:
    """A query is listed of until it has ended."""
    server, connected = Server().loaded(), Clients()
    server.put({"id": 1})
    client = server.connect()
    client.ask("sow", query_id="q", filter="/id = 1", ack_type="completed")
    with listed(connected, "", "", client.session, nothing_closes):
        (one,) = (await connected.list_all())["clients"]
        await client.read()
        (later,) = (await connected.list_all())["clients"]
    assert one["queries"] == [{"query_id": "q", "command": "sow", "topic": "orders", "filter": "/id = 1"}]
    assert (later["queries"], later["queries_count"]) == ([], 0)


async def test_what_is_cut_is_counted(monkeypatch: Any) -> None:
    """Of many clients, subscriptions and long filters only some are listed, and how many there are."""
    monkeypatch.setattr(clients, "CLIENTS_LISTED_MAX", 1)
    monkeypatch.setattr(clients, "SUBSCRIPTIONS_LISTED_MAX", 2)
    monkeypatch.setattr(clients, "TEXT_CHARS_MAX", 10)
    server, connected = Server().loaded(), Clients()
    one, other = server.connect(), server.connect()
    for number in range(3):
        one.ask("subscribe", sub_id=f"s{number}", filter="/id > 0 AND /id > 1")
    await loop_turns()
    with (
        listed(connected, "a", "", one.session, nothing_closes),
        listed(connected, "b", "", other.session, nothing_closes),
    ):
        found = await connected.list_all()
    assert (found["connected"], [client["address"] for client in found["clients"]]) == (2, ["a"])
    (client,) = found["clients"]
    assert (client["subscriptions_count"], len(client["subscriptions"])) == (3, 2)
    assert client["subscriptions"][0]["filter"] == "/id > 0 A…"
