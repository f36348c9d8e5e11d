"""Subscriptions that are paused: where they go on, and what is sent then."""

import json

import pytest

from tests.unit.query_service.sessions import Json, Server, settled
from tests.unit.query_service.subscriptions.replayed import acks, commands, numbers_in, read_until, server

__all__ = ["server"]


async def test_a_paused_subscription_goes_on_where_it_stood(server: Server) -> None:
    """With every change; others are not paused."""
    client = server.connect()
    client.ask("sow_and_subscribe", sub_id="s", options="oof")
    client.ask("subscribe", sub_id="t")
    await client.read()
    client.ask("pause", sub_id="s", ack_type="processed")
    server.put({"id": 1, "n": 10})
    server.put(None, key=2)
    messages = await client.read()
    assert acks(messages)[0]["ack_type"] == "processed"
    assert [m["sids"] for m in messages if "sids" in m] == [["t"]]
    assert server.dispatcher.live == 1
    client.ask("resume", sub_id="all")
    messages = await client.read()
    assert [(m["command"], m["sids"]) for m in messages] == [("publish", ["s"]), ("oof", ["s"])]
    server.put({"id": 1, "n": 11})
    assert sorted((await client.read())[0]["sids"]) == ["s", "t"]


@pytest.mark.parametrize(
    "fields", [{"bookmark": "orders:0@2,1@2"}, {"bookmark": "orders:0@2,1@2", "up_to": "now"}]
)
async def test_a_subscription_may_begin_paused(server: Server, fields: Json) -> None:
    """It stands at its begin until it is resumed."""
    client = server.connect()
    client.ask("subscribe", sub_id="s", options="pause", ack_type="processed", **fields)
    [processed] = await client.read()
    assert processed["bookmark"] == "orders:0@2,1@2"
    client.ask("resume", sub_id="s")
    assert sorted(numbers_in(await client.read())) == [6, 7, 8, 9]


async def test_a_pause_during_a_replay_loses_nothing(server: Server) -> None:
    """However often."""
    client = server.connect()
    client.ask("subscribe", sub_id="s", bookmark="epoch")
    for _ in range(30):
        await settled(3)
        client.ask("pause", sub_id="s")
        await settled(1)
        client.ask("resume", sub_id="s")
    await client.read()
    assert sorted(numbers_in(client.received)) == list(range(10))


@pytest.mark.parametrize("turns", range(1, 40))
@pytest.mark.parametrize("what", ["unsubscribe", "pause", "replace"])
async def test_whatever_ends_a_replay_ends_it_at_once(server: Server, turns: int, what: str) -> None:
    """Nothing comes afterwards, and nobody is live who has left."""
    client = server.connect()
    client.ask("subscribe", sub_id="s", bookmark="orders:0@3,1@3")
    await settled(turns)
    if what == "replace":
        client.ask("subscribe", sub_id="s", options="replace,pause")
    else:
        client.ask(what, sub_id="s")
    before = client.outbox.unsent_bytes
    server.put({"id": 1, "n": 10})
    await settled()
    assert (client.outbox.unsent_bytes, server.dispatcher.live) == (before, 0)


async def test_a_pause_may_be_too_long(server: Server) -> None:
    """Then the changes since are no longer to be had."""
    client = server.connect()
    client.ask("subscribe", sub_id="s")
    client.ask("subscribe", sub_id="r", options="reset")
    await client.read()
    client.ask("pause", sub_id="s,r")
    for number in range(10, 20):
        server.put({"id": 1, "n": number})
    server.written[0].clear()
    client.ask("resume", sub_id="s,r")
    messages = await read_until(client, lambda messages: "group_end" in commands(messages))
    assert [(m["reason"], m["sub_id"]) for m in acks(messages)] == [("bookmark_expired", "s")]
    assert [m["reset"] for m in messages if m["command"] == "group_begin"] == [True]


async def test_what_was_conflated_is_sent_after_a_pause(server: Server) -> None:
    """The interval that was cut short is told again."""
    client = server.connect()
    client.ask("subscribe", sub_id="s", options="conflation=1ms")
    await client.read()
    server.put({"id": 1, "n": 10})
    client.ask("pause", sub_id="s")
    server.put({"id": 1, "n": 11})
    assert await client.read() == []
    client.ask("resume", sub_id="s")
    assert numbers_in(await read_until(client, lambda messages: messages != [])) == [11]


@pytest.mark.parametrize(
    "fields",
    [
        {"skip_n": 0, "top_n": 2, "order_by": "/n"},
        {"options": "grouping=[/id],projection=[/id,MAX(/n) AS /n]"},
    ],
)
async def test_pages_and_groups_pause(server: Server, fields: Json) -> None:
    """And are told what differs when they go on."""
    client = server.connect()
    client.ask("sow_and_subscribe", sub_id="s", batch_size=10, **fields)
    await client.read()
    client.ask("pause", sub_id="s")
    for number in (10, 11):
        server.put({"id": 2, "n": number})
    assert await client.read() == []
    client.ask("resume", sub_id="s")
    messages = await client.read()
    assert messages[-1]["bookmark"] == "orders:0@6,1@4"
    assert len(messages) <= 2
    server.put({"id": 0, "n": 0})
    assert [m["data"]["id"] for m in await client.read()][-1] == 0


@pytest.mark.parametrize("options", ["", "pause"])
async def test_a_page_that_comes_back_says_when_that_is_completed(server: Server, options: str) -> None:
    """Paused or not."""
    client = server.connect()
    about: Json = {"sub_id": "s", "skip_n": 0, "top_n": 2, "order_by": "/n DESC", "options": options}
    client.ask("sow_and_subscribe", bookmark="orders:0@3,1@4", ack_type="completed", **about)
    messages = await client.read()
    if options:
        assert messages == []
        client.ask("resume", sub_id="s")
        messages = await client.read()
    assert commands(messages) == ["publish", "completed"]
    assert messages[-1]["bookmark"] == "orders:0@4,1@4"


async def test_a_paused_replay_keeps_its_end(server: Server) -> None:
    """An end at a time that has passed is found once, and holds for the changes after the pause."""
    client = server.connect(backlog=1)
    client.ask("subscribe", sub_id="s", bookmark="epoch", up_to="20260101T000000Z", options="rate=1000")
    while not (taken := client.outbox.take_now()):
        await settled()
    # At once: a process that stood still for 10 ms would be sent all changes, and the end, before the pause.
    client.ask("pause", sub_id="s", ack_type="processed")
    first = [json.loads(message) for message in taken] + await client.read()
    assert "completed" not in commands(first)
    client.ask("resume", sub_id="s")
    rest = await read_until(client, lambda messages: "completed" in commands(messages))
    assert sorted(numbers_in(first + rest)) == list(range(10))
