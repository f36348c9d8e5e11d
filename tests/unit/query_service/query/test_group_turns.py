"""Groups on one connection take turns, and what others are told waits for their end."""

import json
from collections.abc import Iterator

import pytest

from sowline.serving.result import QueryLimits
from tests.message_groups import groups_are_whole
from tests.unit.query_service.sessions import Client, Json, Server, settled, view_of

NARROW = 600
RECORDS = 3000


@pytest.fixture
def server() -> Iterator[Server]:
    """A server with enough records for a group to be long under way, to clients with little room."""
    server = Server(backlog=NARROW, ring=10).loaded()
    with server.patched():
        for number in range(RECORDS):
            server.put({"id": number})
        yield server


async def begun(client: Client, **fields: str) -> list[Json]:
    """Begin a query, and return the first messages of its group."""
    client.ask("sow", **fields)
    await settled()
    messages: list[Json] = [json.loads(message) for message in await client.outbox.take()]
    assert messages[0]["command"] == "group_begin"
    assert messages[-1]["command"] == "sow"
    return messages


async def test_queries_take_turns(server: Server) -> None:
    """Each has its instant when it is asked, and its group when those before it have ended."""
    client = server.connect()
    for id in ("1", "2", "3"):
        client.ask("sow", command_id=id, batch_size=100, ack_type="processed")
    server.put({"id": RECORDS})
    client.ask("sow", command_id="4", filter="/id = -1", ack_type="processed")
    messages = await client.read()
    assert groups_are_whole(messages) == ["1", "2", "3", "4"]
    ends = [message for message in messages if message["command"] == "group_end"]
    assert [end["records"] for end in ends] == [RECORDS, RECORDS, RECORDS, 0]


async def test_what_subscriptions_are_sent_waits_for_the_end(server: Server) -> None:
    """Nothing is lost or twice, whatever kind of subscription it is, and however much happens meanwhile."""
    client = server.connect()
    about: Json = {"batch_size": 100, "filter": "/id < 20"}
    client.ask("sow_and_subscribe", sub_id="plain", command_id="p", options="oof", **about)
    client.ask("sow_and_subscribe", sub_id="page", command_id="v", top_n=5, skip_n=0, **about)
    client.ask("sow_and_delta_subscribe", sub_id="delta", command_id="d", **about)
    await client.read()
    messages = await begun(client, command_id="q")
    server.put({"id": 1, "n": 1})
    for number in range(15):
        server.put({"id": number, "n": 2})
        await settled(5)
    assert server.dispatcher.live == 0, "what waits has a bound"
    messages += await client.read()
    assert groups_are_whole(messages) == ["q"]
    end = next(at for at, message in enumerate(messages) if message["command"] == "group_end")
    live = [message for message in messages[end + 1 :] if message["command"] == "publish"]
    plain = [message["data"]["id"] for message in live if "plain" in message["sids"]]
    assert plain == [1, *range(15)]
    deltas = [message["data"] for message in live if "delta" in message["sids"]]
    assert len(deltas) == 16
    page = {m["data"]["id"]: m["data"]["n"] for m in live if m["sids"] == ["page"]}
    assert set(page.values()) <= {1, 2}
    server.put({"id": 3, "n": 3})
    assert [message["sids"] for message in await client.read()] != []


async def test_commands_are_answered_within_a_group(server: Server) -> None:
    """Heartbeats, refusals, and subscriptions that begin; what a subscription is told comes behind the group."""
    client = server.connect()
    messages = await begun(client, command_id="q")
    client.ask("heartbeat", command_id="h")
    client.ask("subscribe", command_id="s", ack_type="processed,completed")
    client.ask("subscribe", command_id="w", filter="(")
    await settled()
    server.put({"id": 1, "n": 1})
    client.ask("unsubscribe", command_id="x", sub_id="s", ack_type="processed")
    client.ask("explain", command_id="e")
    messages += await client.read()
    assert groups_are_whole(messages) == ["q"]
    names = [message.get("command_id", message["command"]) for message in messages]
    end = names.index("group_end")
    assert {"h", "s", "w", "x"} <= set(names[:end])
    assert names[end:] == ["group_end", "e"]


async def test_nothing_of_a_subscription_comes_behind_its_end(server: Server) -> None:
    """Where something of it waits for the end of a group, the acknowledgement of its end waits too."""
    client = server.connect()
    client.ask("subscribe", command_id="s", options="oof")
    client.ask("subscribe", command_id="t", filter="/n = 7")
    await client.read()
    client.ask("sow", command_id="q", batch_size=10)
    client.outbox._bytes_max = 10**6
    await settled(3)
    server.put({"id": 1, "n": 1})
    client.ask("unsubscribe", command_id="x", sub_id="s", ack_type="processed")
    client.ask("subscribe", command_id="y", sub_id="s", ack_type="processed")
    client.ask("pause", command_id="z", sub_id="t", ack_type="processed")
    server.put({"id": 2, "n": 2})
    messages = await client.read()
    groups_are_whole(messages)
    names = [message.get("command_id", message["command"]) for message in messages]
    end = names.index("group_end")
    assert "z" in names[:end]
    assert names[end + 1 : end + 4] == ["publish", "x", "y"]
    assert [message["data"]["id"] for message in messages[end + 4 :]] == [2]


async def test_an_aborted_group_lets_the_others_go_on(server: Server) -> None:
    """The failure comes directly behind what was sent of it; the next group and the changes behind that."""
    client = server.connect()
    client.ask("subscribe", command_id="s")
    await client.read()
    messages = await begun(client, command_id="q")
    client.ask("sow", command_id="r", filter="/id < 10", batch_size=10)
    client.ask("sow_and_subscribe", command_id="p", top_n=2, skip_n=0)
    server.put({"id": 1, "n": 1})
    client.ask("unsubscribe", command_id="x", query_id="q", ack_type="processed")
    messages += await client.read()
    failed = next(m for m in messages if m.get("reason") == "query aborted")
    at = messages.index(failed)
    assert all(m["command"] in ("group_begin", "sow", "ack") for m in messages[:at])
    assert groups_are_whole(messages[at:]) == ["r", "p"]
    received = [m["data"] for m in messages[at:] if m["command"] == "publish" and m["sids"] == ["s"]]
    assert received == [{"id": 1, "n": 1}]


async def test_a_group_that_waits_can_be_aborted(server: Server) -> None:
    """A query, a snapshot and a page alike; the others are not touched."""
    client = server.connect()
    messages = await begun(client, command_id="q")
    client.ask("sow", command_id="a")
    client.ask("sow_and_subscribe", command_id="b")
    client.ask("sow_and_subscribe", command_id="c", top_n=2, skip_n=0)
    await settled()
    for id in "abc":
        client.ask("unsubscribe", command_id=f"x{id}", query_id=id)
    messages += await client.read()
    assert groups_are_whole(messages) == ["q"]
    aborted = [m["command_id"] for m in messages if m.get("reason") == "query aborted"]
    assert aborted == ["a", "b", "c"]
    assert client.session.commands.subscriptions_count == 0


async def test_a_group_that_fails_halfway_is_reported_at_once() -> None:
    """Nothing comes between what was sent of it and its failure; then the others go on."""
    server = Server(backlog=NARROW, limits=QueryLimits(records_max=2000)).loaded()
    for number in range(RECORDS):
        server.put({"id": number})
    client = server.connect()
    client.ask("subscribe", command_id="s")
    await client.read()
    client.ask("sow", command_id="q", batch_size=10)
    client.ask("sow", command_id="r", filter="/id = 1")
    await settled()
    server.put({"id": 1, "n": 1})
    messages = await client.read()
    failed = next(at for at, m in enumerate(messages) if m.get("reason") == "result too large")
    assert {m["command"] for m in messages[:failed]} == {"group_begin", "sow"}
    assert groups_are_whole(messages[failed:]) == ["r"]
    assert [m["data"] for m in messages if m["command"] == "publish"] == [{"id": 1, "n": 1}]


async def test_a_waiting_subscription_may_be_replaced(server: Server) -> None:
    """What it was told before comes before the answer, and its client holds what it asks for now."""
    client = server.connect()
    about: Json = {"sub_id": "s", "batch_size": 100}
    client.ask("sow_and_subscribe", command_id="s", filter="/id < 10", options="oof", **about)
    before = await client.read()
    messages = await begun(client, command_id="q")
    server.put({"id": 1, "n": 1})
    await settled()
    client.ask("sow_and_subscribe", command_id="r", filter="/id < 5", options="oof,replace", **about)
    server.put({"id": 2, "n": 2})
    messages += await client.read()
    server.put({"id": 3, "n": 3})
    messages += await client.read()
    mine = [m for m in messages if m.get("query_id", "r") == "r" and m["command"] != "ack"]
    assert groups_are_whole(messages) == ["q", "r"]
    view = view_of(before)
    for message in mine:
        if message["command"] != "group_begin":
            view = view_of([message], view)
    assert sorted(record["id"] for record in view.values()) == [0, 1, 2, 3, 4]
    assert {r["id"]: r.get("n") for r in view.values()} == {0: None, 1: 1, 2: 2, 3: 3, 4: None}
