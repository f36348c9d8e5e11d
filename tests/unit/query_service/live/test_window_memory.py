"""The memory of live views: how it is estimated, who it counts for, and what is refused."""

from typing import Any

import pytest

from sowline.serving.authorization.entitlements import EVERYTHING
from sowline.serving.query_slots import QuerySlots
from sowline.serving.result import QueryLimits
from sowline.serving.window_memory import WindowLimits, WindowMemory
from sowline_query_service.context import ServiceContext
from sowline_query_service.live.window import LiveWindow
from tests.memory import deep_bytes
from tests.unit.query_service.sessions import Client, Json, Server
from tests.waiting import loop_turns

PAGE = {"top_n": 5, "skip_n": 0, "order_by": "/name"}
RECORDS = 500
KIB = 1 << 10


def server_of(records: int = RECORDS, **limits: int) -> Server:
    """Return a server with records and limits of the memory of views; its pages hold all records."""
    server = Server(limits=QueryLimits(page_margin=10_000)).loaded()
    for number in range(records):
        server.put(
            {"id": number, "a": number % 7, "name": f"name {number * 7919 % records}", "p": number * 1.5}
        )
    unlimited = dict.fromkeys(WindowLimits._fields, 1 << 40)
    memory = WindowMemory(WindowLimits(**(unlimited | limits)))
    server.__dict__["context"] = ServiceContext(
        server.state, server.dispatcher, {}, server.limits, QuerySlots(), memory
    )
    return server


async def subscribed(client: Client, sub_id: str, **fields: Any) -> str:
    """Subscribe to a view; return why that was refused, or how the subscription ended; empty if it is live."""
    client.ask("sow_and_subscribe", sub_id=sub_id, command_id=sub_id, **fields)
    return reason_in(await client.read())


def reason_in(messages: list[Json]) -> str:
    """Return the reason of a failure; empty without one."""
    return next((str(message["reason"]) for message in messages if message.get("status") == "failure"), "")


@pytest.mark.parametrize(
    "fields",
    [
        PAGE,
        PAGE | {"order_by": ""},
        PAGE | {"order_by": "/name DESC, /p, /a"},
        {"options": "grouping=[/id],projection=[/id,SUM(/p) AS /s,COUNT(1) AS /n]"},
        {"options": "grouping=[/id],projection=[/id,/name]"},
        {"options": "grouping=[/a],projection=[/a,GROUP_CONCAT(/name) AS /names]"},
        {"options": "grouping=[/a],projection=[/a,COUNT_DISTINCT(/p) AS /n]"},
        {
            "options": "grouping=[/id],projection=[/id,SUM(/p) AS /s]",
            "order_by": "/s",
            "top_n": 5,
            "skip_n": 0,
        },
    ],
    ids=str,
)
async def test_the_estimate_is_right(fields: Json) -> None:
    """Within a factor of 1.5 of what the sets and groups take, without the bodies that the replica has anyway."""
    server = server_of(3000)
    assert await subscribed(server.connect(), "s", **fields) == ""
    (view,) = views_of(server)
    assert view.filling is not None
    await view.filling
    kept = [getattr(view, name, None) for name in ("_set", "_groups")]
    size = deep_bytes(kept, _shared_with(server))
    assert size / 1.5 < server.context.views.nbytes < size * 1.5


def _shared_with(server: Server) -> set[int]:
    captured = server.topic.rows.capture(server.topic.rows.found(list(server.bodies)))
    return {id(one) for one in (*captured.bodies, *captured.keys)}


def views_of(server: Server) -> list[LiveWindow]:
    """Return the views that are open."""
    return list(server.dispatcher.windows)


async def test_a_connection_has_a_limit() -> None:
    """One page too many is refused with what to do; there is room for it once another one has ended."""
    server = server_of(connection=300 * KIB)
    client = server.connect()
    assert await subscribed(client, "a", **PAGE) == ""
    before = server.context.views.nbytes
    assert await subscribed(client, "b", **PAGE | {"top_n": 7}) == ""  # another window of the same view
    assert server.context.views.nbytes == before
    assert await subscribed(client, "c", **PAGE | {"order_by": "/p"}) == "views too large"
    assert server.context.views.nbytes == before
    assert await subscribed(server.connect(), "c", **PAGE | {"order_by": "/p"}) == ""
    client.ask("unsubscribe", sub_id="a,b")
    await client.read()
    assert await subscribed(client, "c", **PAGE | {"order_by": "/id"}) == ""
    client.session.close()
    await client.read()
    assert len(views_of(server)) == 1


@pytest.mark.parametrize("limit", ["user", "service"])
async def test_a_user_and_the_service_have_limits(limit: str) -> None:
    """Over several connections; another user is refused only where the service has no room."""
    server = server_of(**{limit: 300 * KIB})
    assert await subscribed(server.connect(), "a", **PAGE) == ""
    assert await subscribed(server.connect(), "a", **PAGE) == ""
    assert await subscribed(server.connect(), "b", **PAGE | {"order_by": "/p"}) == "views too large"
    gateway = server.connect(EVERYTHING, delegated=EVERYTHING)
    refusal = await subscribed(gateway, "b", user="bob", merges=True, **PAGE | {"order_by": "/p"})
    assert refusal == ("" if limit == "user" else "views too large")


async def test_a_gateway_names_the_user() -> None:
    """Its views count for its own clients: one of them does not keep another one from its page."""
    server = server_of(user=300 * KIB, connection=0)
    for user, order, reason in (("ann", "/a", ""), ("ann", "/p", "views too large"), ("bob", "/p", "")):
        gateway = server.connect(EVERYTHING, delegated=EVERYTHING)
        found = await subscribed(gateway, "s", user=user, merges=True, **PAGE | {"order_by": order})
        assert found == reason


async def test_a_view_that_grows_too_large_ends() -> None:
    """With the reason; a view of another user, who is within the limits, goes on."""
    server = server_of(10, user=300 * KIB)
    client, other = server.connect(), server.connect()
    assert await subscribed(client, "a", **PAGE) == ""
    assert await subscribed(other, "b", filter="/id < 3", **PAGE) == ""
    for number in range(10, 1500):
        server.put({"id": number, "name": f"name {number}"})
    assert reason_in(await client.read()) == "views too large"
    assert reason_in(await other.read()) == ""
    assert len(views_of(server)) == 1
    server.put({"id": 1, "name": "name 2"})
    assert [message["command"] for message in await other.read()] == ["publish"]


async def test_what_two_users_share_ends_for_the_one_who_has_too_much() -> None:
    """The view goes on for the other one."""
    server = server_of(10, connection=300 * KIB)
    client, other = server.connect(), server.connect()
    for one in (client, other):
        assert await subscribed(one, "a", **PAGE) == ""
    assert await subscribed(client, "b", **PAGE | {"order_by": "/p"}) == ""
    for number in range(10, 450):
        server.put({"id": number, "name": f"name {number}"})
    assert reason_in(await client.read()) == "views too large"
    assert reason_in(await other.read()) == ""


async def test_all_of_it_is_released() -> None:
    """Whatever ended the views: clients that leave in the middle of it, too."""
    server = server_of(connection=300 * KIB)
    for turns in range(12):
        client = server.connect()
        for number, order in enumerate(("/name", "/p", "/a")):
            client.ask("sow_and_subscribe", sub_id=f"s{number}", **PAGE | {"order_by": order})
        if turns % 2:
            await client.read()
        client.session.close()
        await client.read()
    memory = server.context.views
    assert (memory.nbytes, memory.of_user, memory.of_connection) == (0, {}, {})


async def test_what_slow_clients_hold_counts() -> None:
    """Subscriptions share one view, and each holds a copy of it while its client reads nothing."""
    server = server_of(200, connection=700 * KIB)
    groups: Json = {"options": "grouping=[/id],projection=[/id,COUNT(1) AS /n]", "batch_size": 1000}
    client = server.connect()
    for number in range(30):
        assert await subscribed(client, f"s{number}", **groups) == ""
    client.outbox._bytes_max = 1
    server.put({"id": 1, "a": 9})
    memory = server.context.views
    assert memory.nbytes < 700 * KIB
    client.outbox._bytes_max = 1 << 20
    ended = [message["reason"] for message in await client.read() if message.get("status") == "failure"]
    assert 0 < len(ended) < 30
    assert set(ended) == {"views too large"}
    client.session.close()
    assert memory.nbytes == 0


async def test_a_replacement_after_a_failure_is_a_reset() -> None:
    """What the client holds was forgotten: the new subscription does not start from nothing."""
    server = server_of(200)
    client = server.connect()
    page = {"top_n": 3, "skip_n": 0, "order_by": "/id"}
    assert await subscribed(client, "s", options="oof", **page) == ""
    memory = server.context.views
    unlimited, memory.limits = memory.limits, memory.limits._replace(connection=1)
    client.ask("pause", sub_id="s", command_id="p")
    memory.limits = unlimited
    client.ask("sow_and_subscribe", sub_id="s", filter="/id >= 2", options="oof,replace", **page)
    (begin,) = [message for message in await client.read() if message["command"] == "group_begin"]
    assert begin.get("reset")
    assert "replace" not in begin


@pytest.mark.parametrize(
    "fields", [PAGE, {"options": "grouping=[/id],projection=[/id,COUNT(1) AS /n]"}], ids=str
)
async def test_a_view_that_has_failed_takes_no_memory(fields: Json) -> None:
    """A paused client gets the reason at once. Others have room again, for a view of the same name, too."""
    server = server_of(10, service=300 * KIB)
    client, slow, other = (server.connect(backlog=backlog) for backlog in (None, 1, None))
    for one in (client, slow):
        assert await subscribed(one, "s", **fields) == ""
    client.ask("pause", sub_id="s", command_id="p")
    await client.read()
    (view,) = views_of(server)
    for number in range(10, 1500):
        server.put({"id": number, "name": f"name {number}"})
    assert view.failed is not None
    assert (server.context.views.nbytes, view.nbytes) == (0, 0)
    assert await subscribed(other, "t", filter="/id = 1", **fields) == ""
    assert reason_in(await client.read()) == "views too large"
    assert view not in views_of(server)
    assert await subscribed(client, "s", filter="/id < 9", **fields) == ""


async def test_a_view_that_has_failed_is_given_to_no_client() -> None:
    """A new subscriber in the same instant gets a view of its own, not the limit of another user."""
    server = server_of(300, user=300 * KIB)
    ann, bob = (server.connect(EVERYTHING, delegated=EVERYTHING) for _ in range(2))
    assert await subscribed(ann, "s", user="ann", merges=True, **PAGE) == ""
    assert await subscribed(ann, "s2", user="ann", merges=True, **PAGE | {"order_by": "/p"}) == ""
    for number in range(300, 420):
        server.put({"id": number, "name": f"name {number}"})
    (order,) = (order for view, order in zip(views_of(server), ("/name", "/p"), strict=True) if view.failed)
    bob.ask("sow_and_subscribe", sub_id="t", user="bob", merges=True, **PAGE | {"order_by": order})
    assert reason_in(await bob.read()) == ""
    assert reason_in(await ann.read()) == "views too large"
    server.put({"id": 1, "name": "", "p": -1})
    assert "publish" in [message["command"] for message in await bob.read()]


async def test_what_is_refused_leaves_others_alone() -> None:
    """A view that finds no room never counts beyond the limit, so nobody else ends because of it."""
    server = server_of(500, service=420 * KIB)
    good, bad = server.connect(), server.connect()
    assert await subscribed(good, "g", filter="/id < 20", **PAGE) == ""
    assert await subscribed(bad, "a", **PAGE) == ""
    memory = server.context.views
    bad.ask("sow_and_subscribe", sub_id="b", **PAGE | {"order_by": "/p"})
    while (view := views_of(server)[-1]).failed is None:
        assert memory.nbytes <= 420 * KIB
        await loop_turns()
    assert len(views_of(server)) == 3, view
    good.ask("pause", sub_id="g")
    good.ask("resume", sub_id="g")
    assert reason_in(await bad.read()) == "views too large"
    assert reason_in(await good.read()) == ""
    assert memory.nbytes <= 420 * KIB


async def test_views_in_which_nothing_is_count() -> None:
    """Each has a filter, a set and more; and they count while they grow little by little."""
    server = server_of(3, connection=50 * KIB)
    client = server.connect()
    found = [await subscribed(client, f"s{n}", filter=f"/id = {100 + n}", **PAGE) for n in range(10)]
    assert (found[0], found[-1]) == ("", "views too large")
    server = server_of(3, connection=50 * KIB)
    client = server.connect()
    assert await subscribed(client, "s", **PAGE) == ""
    for number in range(100):
        server.put({"id": number, "name": f"name {number}"})
    assert reason_in(await client.read()) == "views too large"
