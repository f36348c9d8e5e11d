"""Shared streams: what many clients ask for alike is followed once, and each of them gets exactly its part."""

import asyncio
import json
import random
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest

from sowline.language.filter import ALL, compile_filter
from sowline.model.select import parse_select
from sowline.serving.authorization.entitlements import Entitlement, Rights, to_read
from sowline_gateway.nodes.connections import NodeLost
from sowline_gateway.streams.catch_up_slot import CLIENT_MAX
from tests.unit.gateway.rig import Json, Rig, RigClient, rig
from tests.unit.gateway.streams.streams import followed, has_all, heard, is_shared, settled
from tests.unit.gateway.subscriber import Subscriber, change, subscriber
from tests.waiting import loop_turns, pace, until

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("options", ["oof", "oof,conflation=20ms"])
async def test_equal_subscriptions_are_followed_once(options: str) -> None:
    """At each node there is one for all of them, until the last one ends."""
    chance = random.Random(options)
    async with rig(["0/2", "1/2"]) as made, AsyncExitStack() as stack:
        clients = []
        for _ in range(8):
            fields: Json = {"command": "sow_and_subscribe", "filter": "/v < 7", "options": options}
            clients.append(await stack.enter_async_context(subscriber(made, **fields)))
            for _ in range(10):
                change(made, chance)
                await loop_turns()
        for mine in clients:
            await settled(made, mine, lambda record: record["v"] < 7)
        assert len(made.context.streams) == 1
        assert followed(made) == 2
        for mine in clients[1:]:
            mine.send("unsubscribe", command_id="u", ack_type="processed")
        for _ in range(10):
            change(made, chance)
        await settled(made, clients[0], lambda record: record["v"] < 7)
        clients[0].send("unsubscribe", command_id="u")
        await until(lambda: not followed(made) and not len(made.context.streams))


UNEQUAL: list[Json] = [
    {"command": "subscribe"},
    {"command": "subscribe", "filter": "/v < 7"},
    {"command": "subscribe", "condition": '{..,"v":lt(7)}'},
    {"command": "subscribe", "options": "oof"},
    {"command": "subscribe", "options": "select=[-/,+/id,+/v]"},
    {"command": "subscribe", "options": "conflation=20ms"},
    {"command": "delta_subscribe"},
]


async def test_only_equal_subscriptions_are_followed_as_one() -> None:
    """Another filter, form or user makes another stream; a snapshot or an interval does not."""
    async with rig(["0/1"]) as made, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(subscriber(made, **fields)) for fields in UNEQUAL]
        equal: list[Json] = [
            {"command": "sow_and_subscribe", "order_by": "/v", "ack_type": "processed"},
            {"command": "sow_and_delta_subscribe", "options": "bookmark_not_found=now"},
            {"command": "subscribe", "options": "select=[-/,+/id,+/v],conflation=50ms"},
            {"command": "subscribe", "options": " select=[-/,+/id,+/v],bookmark_not_found=reset"},
        ]
        clients += [await stack.enter_async_context(subscriber(made, **fields)) for fields in equal]
        rights = Rights(to_read(Entitlement("orders", compile_filter("/v < 9"))))
        clients.append(await stack.enter_async_context(subscriber(made, rights, command="subscribe")))
        await until(lambda: all(map(is_shared, clients)))
        assert len(made.context.streams) == len(UNEQUAL) + 1
        made.put({"id": 1, "v": 3})
        for mine in clients:
            await settled(made, mine)


async def test_subscriptions_of_a_client_share_a_message() -> None:
    """One message names all that it is for, as at one query service; those with another form get their own."""
    async with rig(["0/1"]) as made:
        client = made.client()
        requests: list[Json] = [
            {"sub_id": "all"},
            {"sub_id": "some", "filter": "/v > 4"},
            {"sub_id": "same", "filter": "/v > 4"},
            {"sub_id": "delta", "command": "delta_subscribe"},
        ]
        for request in requests:
            await client.ask(**{"command": "subscribe", "ack_type": "processed", **request})
        made.put({"id": 1, "v": 5})
        made.put({"id": 1, "v": 6})
        messages = await received(client, 3)
        assert sorted(messages[0]["sids"]) == ["all", "delta", "same", "some"]
        assert sorted(sorted(one["sids"]) for one in messages[1:]) == [["all", "same", "some"], ["delta"]]


async def test_deltas_with_and_without_empty_ones_share_a_message() -> None:
    """The option decides who is named, not what is sent: as at one query service, and for a new record, too."""
    async with rig(["0/1"]) as made:
        clients = [made.client(), made.client()]
        for client in clients:
            for sub_id, options in (("every", ""), ("quiet", "no_empties")):
                await client.ask(
                    command="delta_subscribe", sub_id=sub_id, options=options, ack_type="processed"
                )
        for body in ({"id": 1, "v": 5}, {"id": 1, "v": 5}, {"id": 1, "v": 6}):
            made.put(body)
        for client in clients:
            messages = await received(client, 3)
            assert [(sorted(one["sids"]), one["data"], one.get("delta", False)) for one in messages] == [
                (["every", "quiet"], {"id": 1, "v": 5}, False),
                (["every"], {"id": 1}, True),
                (["every", "quiet"], {"id": 1, "v": 6}, True),
            ]


async def received(client: RigClient, count: int) -> list[Json]:
    """Return the next messages of a client."""
    found: list[Json] = []
    async with asyncio.timeout(5):
        while len(found) < count:
            found += map(json.loads, await client.session.outbox.take())
    return found


@pytest.mark.parametrize("options", ["oof", "oof,conflation=10ms"])
@pytest.mark.parametrize("command", ["sow_and_subscribe", "sow_and_delta_subscribe"])
async def test_a_slow_client_leaves_and_comes_back(command: str, options: str) -> None:
    """It misses nothing and gets nothing twice; the others do not wait for it."""
    chance = random.Random(command)
    fields: Json = {"command": command, "options": options}
    async with (
        rig(["0/2", "1/2"], backlog=20_000) as made,
        subscriber(made, **fields) as other,
    ):
        slow = made.client()
        mine = Subscriber(slow)
        mine.send(**fields)
        cast("Any", slow.session.outbox)._bytes_max = 2000
        await until(lambda: is_shared(mine))
        for number in range(400):
            made.put({"id": number % 40, "v": chance.randrange(10), "text": str(number) * 20})
            if number % 40 == 0:
                await pace(0.02)
        await settled(made, other)
        assert made.context.streams.fell_behind == 1
        assert slow.session.outbox.unsent_bytes < 60_000
        with made.patched():
            reading = asyncio.create_task(mine.read())
            for _ in range(100):
                change(made, chance, 40)
                await pace(0.002)
            await settled(made, mine)
            await settled(made, other)
            for _ in range(200):
                change(made, chance, 40)
                if is_shared(mine):
                    break
                await pace(0.02)
            assert is_shared(mine)
            change(made, chance, 40)
            await settled(made, mine)
        reading.cancel()
        await asyncio.wait([reading])


async def test_a_stream_continues_at_another_node() -> None:
    """For all its members at once: none of them needs a subscription of its own."""
    chance = random.Random(4)
    async with rig(["0/2", "0/2", "1/2", "1/2"]) as made, AsyncExitStack() as stack:
        fields: Json = {"command": "sow_and_delta_subscribe", "options": "oof"}
        clients = [await stack.enter_async_context(subscriber(made, **fields)) for _ in range(6)]
        with made.patched():
            for turn in range(300):
                change(made, chance)
                if turn in (100, 200):
                    await made.nodes[turn // 100 - 1].stop()
                if turn == 150:
                    await made.nodes[0].start()
                await pace(0.003)
            for mine in clients:
                await settled(made, mine)
                assert is_shared(mine)
        assert len(made.context.streams) == 1


async def test_when_no_node_is_left() -> None:
    """Each member gets the error, and the stream ends."""
    async with (
        rig(["0/2", "1/2"]) as made,
        subscriber(made, command="subscribe", ack_type="processed") as mine,
    ):
        await mine.until(lambda: bool(mine.acks()))
        await made.nodes[0].stop()
        await mine.until(lambda: ("processed", "shard unavailable") in mine.acks())
        assert len(made.context.streams) == 0


async def in_its_snapshot(made: Rig) -> Subscriber:
    """Return a subscriber that does not read yet, and whose snapshot is being sent."""
    mine = Subscriber(made.client())
    mine.send("sow_and_subscribe", options="oof")
    await until(lambda: mine.client.session.outbox.unsent_bytes)
    return mine


async def test_messages_that_wait_for_a_snapshot_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit the subscription catches up by itself; it misses nothing."""
    monkeypatch.setattr("sowline_gateway.streams.member.HELD_BYTES_MAX", 300)
    chance = random.Random(9)
    async with rig(["0/2", "1/2"], partitions=2) as made:
        for number in range(2000):
            made.put({"id": number, "v": 1, "text": "x" * 900})
        mine = await in_its_snapshot(made)
        for _ in range(30):
            change(made, chance)
            await pace(0.001)
        with made.patched():
            reading = asyncio.create_task(mine.read())
            await settled(made, mine)
            assert any(one["command"] == "publish" for one in mine.messages)
        reading.cancel()
        await asyncio.wait([reading])
        assert made.context.streams._held_bytes.total == 0


async def test_what_waited_does_not_fit() -> None:
    """A client whose outbox is full before all that waited for its snapshot is sent gets the rest later."""
    async with rig(["0/2", "1/2"], partitions=2) as made:
        for number in range(100):
            made.put({"id": number, "v": 1, "text": "x" * 900})
        mine = await in_its_snapshot(made)
        cast("Any", mine.client.session.outbox)._bytes_max = 1000
        async with subscriber(made, command="sow_and_subscribe", options="oof") as other:
            for number in range(100):
                made.put({"id": number, "v": 2, "text": "x" * 100})
            await settled(made, other)
        with made.patched():
            reading = asyncio.create_task(mine.read())
            await settled(made, mine)
        reading.cancel()
        await asyncio.wait([reading])


async def test_a_node_fails_while_a_stream_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one begins at its instant: the client gets no change from before."""
    async with rig(["0/2", "0/2", "1/2", "1/2"]) as made:
        for number in range(20):
            made.put({"id": number, "v": 1})
        channels = cast("Any", made.context.streams)._channels
        failed: list[str] = []
        to = channels.to

        async def to_failing(url: str, *given: Any) -> Any:
            if url in (made.nodes[2].url, made.nodes[3].url) and not failed:
                failed.append(url)
                await pace(0.05)
                raise NodeLost(url)
            return await to(url, *given)

        monkeypatch.setattr(channels, "to", to_failing)
        with made.patched():
            async with subscriber(made, command="subscribe", ack_type="processed") as mine:
                await mine.until(lambda: bool(mine.acks()))
                made.put({"id": 3, "v": 2})
                await mine.until(lambda: has_all(made, mine))
                assert len(heard(mine)) == 1
        assert failed


async def test_a_connection_that_ends_in_good_order_is_opened_again() -> None:
    """Its node is not taken for lost: other clients may ask it all the time."""
    chance = random.Random(3)
    async with rig(["0/1"]) as made, AsyncExitStack() as stack:
        fields: list[Json] = [
            {"command": "sow_and_subscribe", "filter": f"/v < {number}"} for number in range(1, 9)
        ]
        clients = [await stack.enter_async_context(subscriber(made, **one, options="oof")) for one in fields]
        for mine in clients:
            await mine.until(lambda mine=mine: is_shared(mine))
        with made.patched():
            for channel in list(cast("Any", made.context.streams)._channels._open.values()):
                await channel._connection.close()
            for _ in range(50):
                change(made, chance)
                await pace(0.005)
            for number, mine in enumerate(clients, 1):
                await settled(made, mine, lambda record, number=number: record["v"] < number)
                assert is_shared(mine)
        assert made.node_set.announcements.lost == 0


async def test_many_that_resume_take_turns() -> None:
    """Few of one client's subscriptions read missed changes at a time, and all catch up.

    One that has them gives its turn to another, and ends its connections when it joins the stream, a moment later.
    """
    async with rig(["0/1"]) as made:
        client = made.client()
        for number in range(60):
            filter = f"/id = {number}"
            await client.ask("sow_and_subscribe", sub_id=f"s{number}", filter=filter, ack_type="completed")
        client.session.receive_one(b'{"command":"pause","command_id":"p","sub_id":"all"}')
        async with subscriber(made, command="sow_and_subscribe") as other:
            for number in range(60):
                made.put({"id": number, "v": 1})
            await settled(made, other)
        client.session.receive_one(b'{"command":"resume","command_id":"r","sub_id":"all"}')
        found: list[Json] = []
        most = 0
        with made.patched():
            async with asyncio.timeout(20):
                while len(found) < 60:
                    waiting = asyncio.create_task(client.session.outbox.take())
                    while not waiting.done():
                        catching_up = sum(
                            cast("Any", one)._slot.is_taken for one in made.context.subscriptions
                        )
                        most = max(most, catching_up)
                        await loop_turns()
                    found += [one for one in map(json.loads, waiting.result()) if one["command"] == "publish"]
        assert sorted(one["data"]["id"] for one in found) == list(range(60))
        assert 1 < most <= CLIENT_MAX


async def test_a_client_that_reads_nothing_gives_up_its_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may need them. Once it reads, it gets everything."""
    monkeypatch.setattr("sowline_gateway.subscriptions.shared_records.PATIENCE_SECONDS", 0.1)
    async with rig(["0/1"]) as made:
        client = made.client()
        mine = Subscriber(client)
        mine.send("sow_and_subscribe")
        await until(lambda: is_shared(mine))
        cast("Any", client.session.outbox)._bytes_max = 500
        with made.patched():
            for number in range(200):
                made.put({"id": number % 10, "v": number})
                await pace(0.001)
            # That of the streams has ended with its last member.
            await until(lambda: len(made.node_set.connections._leased) == 0)
            # Others of its subscriptions may catch up meanwhile.
            assert cast("Any", client.session.commands)._catch_up_slots._value == CLIENT_MAX
            reading = asyncio.create_task(mine.read())
            await settled(made, mine)
        reading.cancel()
        await asyncio.wait([reading])


async def test_a_conflation_key_that_may_not_be_read() -> None:
    """It is refused, as at one query service: records with the same hidden value would be merged."""
    select = parse_select("[-/,+/id]")
    rights = Rights(to_read(Entitlement("orders", ALL, select)))
    async with rig(["0/1"]) as made:
        for fields in ({"options": "conflation=1s,conflation_key=[/v]"}, {"order_by": "/v"}):
            (answer,) = await made.client(rights).ask("subscribe", ack_type="processed", **fields)
            assert answer["reason"] == "not entitled"
            (whole,) = await made.whole_client(rights).ask("subscribe", ack_type="processed", **fields)
            assert whole["reason"] == "not entitled"
