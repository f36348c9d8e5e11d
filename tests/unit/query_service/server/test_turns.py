"""How many queries and snapshots of clients run at once, and when the others do."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import httpx2
import pytest

from sowline.config.settings import Settings
from sowline.serving.authorization.entitlements import EVERYTHING
from sowline.serving.query_slots import Asker, QuerySlots, SlotLimits
from sowline.serving.result import QueryLimits
from sowline.wire.media_types import ARROW
from sowline_query_service.context import ServiceContext
from sowline_query_service.server.server import server_of as http_server_of
from tests.unit.query_service.sessions import Json, Server, view_of
from tests.waiting import loop_turns, until


def server_of(records: int = 3, backlog: int = 1 << 20, more: str = "", **limits: Any) -> Server:
    """Return a server with some records and small limits."""
    server = Server(backlog=backlog, more=more).loaded()
    for number in range(records):
        server.put({"id": number})
    server.__dict__["context"] = ServiceContext(
        server.state, server.dispatcher, {}, server.limits, QuerySlots(SlotLimits(**limits))
    )
    return server


def counts(server: Server) -> tuple[int, int]:
    """Return how many queries run, and how many wait."""
    return server.context.slots.running, server.context.slots.waiting


@pytest.mark.parametrize("command", ["sow", "sow_and_subscribe", "sow_and_delta_subscribe"])
async def test_a_query_that_waits_is_of_the_instant_at_which_it_begins(command: str) -> None:
    """And a snapshot misses nothing, and repeats nothing, of what came while it waited."""
    server = server_of(backlog=1, connection=1)
    client = server.connect()
    with server.patched():
        client.ask("sow", query_id="first", batch_size=1)
        client.ask(command, query_id="second", sub_id="s")
        assert counts(server) == (1, 0)
        server.put({"id": 9})
        messages = await client.read()
        server.put({"id": 10})
        messages += await client.read()
    groups = [m for m in messages if m["command"] == "sow"]
    assert [
        sum(len(m["records"]) for m in groups if m["query_id"] == name) for name in ("first", "second")
    ] == [3, 4]
    held = view_of([m for m in messages if m.get("query_id", "second") == "second"])
    assert len(held) == (4 if command == "sow" else 5)
    assert counts(server) == (0, 0)


READS: list[Json] = [
    {"command": "sow"},
    {"command": "sow_and_subscribe"},
    {"command": "sow_and_subscribe", "top_n": 2, "skip_n": 0, "order_by": "/id"},
    {"command": "sow_and_subscribe", "options": "grouping=[/id],projection=[/id,COUNT(1) AS /n]"},
    {"command": "explain"},
    {"command": "sow", "options": "grouping=[/id],projection=[/id,COUNT(1) AS /n]"},
]


@pytest.mark.parametrize("read", READS)
async def test_every_read_ends_its_turn(read: Json) -> None:
    """Also if it is ended by its client, before and after it has begun, or is refused."""
    server = server_of(service=1)
    for _ in range(3):
        client = server.connect()
        for number in range(4):
            client.ask(**read, sub_id=f"s{number}", query_id=f"q{number}")
        client.session.close()
        await client.read()
        client = server.connect()
        client.ask(**read, sub_id="s", query_id="q")
        client.ask(**read, sub_id="s", query_id="q")  # refused: the names are in use
        await client.read()
        assert counts(server) == (0, 0)
        client.session.close()


async def test_a_table_takes_one_turn() -> None:
    """For both of its passes; other queries wait for it, and it waits for them."""
    server = server_of(service=1)
    app = http_server_of(Settings(), server.context, cast("Any", None)).app
    async with (
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as http,
        server.context.slots.new(Asker("other", None)) as slot,
    ):
        await slot.take()
        asking = asyncio.create_task(http.post("/v1/topics/orders/sow", headers={"accept": ARROW}))
        await until(lambda: counts(server) == (1, 1))
        slot.free()
        assert (await asking).status_code == 200
        assert counts(server) == (0, 0)


async def test_views_from_a_time_do_not_wait_for_one_another() -> None:
    """Each first fills its view, and takes a turn for the query of that time when that is done."""
    server = server_of(more=", history: {window: 3650000d}", service=2, connection=2)
    client, past = server.connect(), datetime.fromtimestamp(1, UTC) + timedelta(milliseconds=1)
    bookmark = past.strftime("%Y%m%dT%H%M%S.%fZ")
    with server.patched():
        for number in range(4):
            given = {"order_by": "/id", "top_n": number + 1, "skip_n": 0, "filter": f"/id < {number + 5}"}
            client.ask("sow_and_subscribe", sub_id=f"s{number}", bookmark=bookmark, **given)
        messages = await client.read()
    assert [m.get("reason") for m in messages if m.get("status") == "failure"] == []
    assert sum(m["command"] == "group_end" for m in messages) == 4
    assert counts(server) == (0, 0)


async def test_a_window_that_waits_to_go_back_holds_no_turn() -> None:
    """Others undo changes in the same view before it, and read them from Kafka: meanwhile other queries run."""
    server = server_of(more=", history: {window: 3650000d}", service=1)
    past = datetime.fromtimestamp(1, UTC) + timedelta(milliseconds=1)
    window: Json = {"command": "sow_and_subscribe", "order_by": "/id", "top_n": 2, "skip_n": 0}
    first, client, other = server.connect(), server.connect(), server.connect()
    with server.patched():
        first.ask(**window, sub_id="s")
        await first.read()
        [view] = server.dispatcher.windows
        async with view.coming_back:
            client.ask(**window, sub_id="s", bookmark=past.strftime("%Y%m%dT%H%M%S.%fZ"))
            assert (await client.read(), counts(server)) == ([], (0, 0))
            other.ask("sow", query_id="q")
            assert (await other.read())[-1]["command"] == "group_end"
        messages = await client.read()
    assert [m["command"] for m in messages if "group" in m["command"]] == ["group_begin", "group_end"]
    assert counts(server) == (0, 0)


async def test_gateways_do_not_wait_for_one_another() -> None:
    """Each has its part at this service, whatever the limits: its other part may be at another service."""
    server = server_of(service=1, backlog=1)
    clients = [server.connect(EVERYTHING, delegated=EVERYTHING) for _ in range(3)]
    for client in clients:
        client.ask("sow", merges=True)
    for client in clients:
        assert (await client.read())[0]["command"] == "group_begin"
    assert counts(server) == (0, 0)


@pytest.mark.parametrize("command", ["sow", "sow_and_subscribe", "sow_and_delta_subscribe"])
async def test_a_query_that_cannot_begin_gives_its_turn_back(command: str) -> None:
    """It is refused where nothing has started that would end its turn."""
    server = server_of(service=1)
    server.__dict__["context"] = replace(server.context, limits=QueryLimits(seconds_max=0))
    client = server.connect()
    for name in ("a", "b"):
        client.ask(command, query_id=name, sub_id=name)
        assert [m.get("reason") for m in await client.read()] == ["query too long"]
        assert counts(server) == (0, 0)


async def test_checksums_of_a_subscription_that_is_not_live_hold_no_turn() -> None:
    """They wait until it is live again, which may take for ever, and meanwhile other queries run."""
    server = server_of(connection=2)
    client = server.connect()
    with server.patched():
        client.ask("sow_and_subscribe", sub_id="s")
        await client.read()
        for _ in range(4):
            client.ask("heartbeat", sub_id="s")
        await loop_turns(2)
        client.ask("pause", sub_id="s")
        await client.read()
        assert counts(server) == (0, 0)
        client.ask("sow", query_id="q")
        assert (await client.read())[-1]["command"] == "group_end"
        client.ask("resume", sub_id="s")
        await client.read()
    assert sum(m["command"] == "progress" for m in client.received) == 4
    assert counts(server) == (0, 0)


@pytest.mark.parametrize("read", [one for one in READS if one["command"] != "sow_and_subscribe"])
async def test_a_query_that_waits_for_the_replica_holds_no_turn(read: Json) -> None:
    """Its bookmark comes from another replica, which was ahead of this one."""
    server = server_of(service=1)
    client, other = server.connect(), server.connect()
    with server.patched():
        client.ask(**read, bookmark="orders:0@3", query_id="ahead", ack_type="completed")
        assert (await client.read(), counts(server)) == ([], (0, 0))
        other.ask("sow", query_id="now")
        assert (await other.read())[-1]["command"] == "group_end"
        server.put({"id": 3})
        messages = await client.read()
    assert (messages[-1].get("ack_type"), messages[-1].get("status")) == ("completed", "success")
    assert counts(server) == (0, 0)
