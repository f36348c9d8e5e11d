"""Clients that come back with a bookmark or begin at a time, and those that read slowly."""

from typing import Any

import pytest

from tests.unit.query_service.server.loaded_server import commands, server
from tests.unit.query_service.sessions import Client, Json, Server, settled, view_of

__all__ = ["server"]


@pytest.mark.parametrize("ring", [1000, 3])
@pytest.mark.parametrize("command", ["subscribe", "sow_and_subscribe"])
async def test_a_client_comes_back_with_any_bookmark(ring: int, command: str) -> None:
    """From the ring or from the changes topic: everything after the bookmark, once, and then live."""
    server = Server(ring=ring).loaded()
    with server.patched():
        for number in range(8):
            server.put({"id": number % 3, "n": number})
        server.put(None, key=1)
        for at in range(-1, 9):
            client = server.connect()
            client.ask(command, bookmark=f"orders:0@{at}", options="oof")
            bookmarks = [m["bookmark"] for m in await client.read()]
            assert bookmarks == [f"orders:0@{n}" for n in range(at + 1, 9)]
            client.session.close()
    assert (server.read > 0) == (ring == 3)


async def test_the_epoch_is_before_everything(server: Server) -> None:
    """From `epoch` all changes come that there ever were."""
    for number in range(3):
        server.put({"id": number})
    client = server.connect()
    client.ask("subscribe", bookmark="epoch")
    assert [m["data"]["id"] for m in await client.read()] == [0, 1, 2]


async def test_partitions_come_back_each_from_its_own_position() -> None:
    """A bookmark names a position for each partition; one it does not name begins before everything."""
    server = Server(partitions=2).loaded()
    for number in range(6):
        server.put({"id": number}, partition=number % 2)
    client = server.connect()
    client.ask("subscribe", bookmark="orders:1@1")
    assert {m["bookmark"] for m in await client.read()} == {f"orders:0@{n}" for n in range(3)} | {
        "orders:1@2"
    }


async def expired(options: str = "") -> tuple[Server, Client]:
    """Return a server that has lost old changes to compaction, and a client that comes back before that."""
    server = Server(ring=2).loaded()
    for number in range(6):
        server.put({"id": 1, "n": number})
    server.written[0] = server.written[0][3:]
    client = server.connect()
    with server.patched():
        client.ask("subscribe", bookmark="orders:0@1", options=options, ack_type="processed")
        await client.read()
    return server, client


async def test_a_bookmark_may_have_expired() -> None:
    """Where changes after it are gone, the answer is `bookmark_expired`, never a part of them."""
    server, client = await expired()
    (failure,) = client.received
    assert (failure["status"], failure["reason"]) == ("failure", "bookmark_expired")
    assert server.dispatcher.live == 0


async def at_an_expired_time(**request: Any) -> list[Json]:
    """Return what a client receives that begins at a time, behind which old changes are lost to compaction."""
    server = Server(ring=2, more=", history: {window: 3650000d}").loaded()
    for number in range(6):
        server.put({"id": 1, "n": number})
    server.written[0] = server.written[0][3:]
    client = server.connect()
    with server.patched():
        bookmark = "19700101T000001.001Z"
        client.ask("sow_and_subscribe", bookmark=bookmark, ack_type="processed,completed,stats", **request)
        return await client.read()


async def test_a_time_may_have_expired() -> None:
    """Where changes after it are gone, it is refused before the acknowledgement, or begins with current records."""
    (failure,) = await at_an_expired_time()
    assert (failure["status"], failure["reason"]) == ("failure", "bookmark_expired")
    messages = await at_an_expired_time(options="bookmark_not_found=now")
    assert [message.get("status") for message in messages if message["command"] == "ack"] == ["success"] * 3
    assert [message["records"][0]["data"]["n"] for message in messages if message["command"] == "sow"] == [5]


async def test_a_view_whose_bookmark_is_gone_is_completed_by_its_group() -> None:
    """As each view that begins with a group: `completed` has the bookmark of the group, and comes before `stats`."""
    server = Server(ring=2).loaded()
    for number in range(6):
        server.put({"id": 1, "n": number})
    server.written[0] = server.written[0][3:]
    client = server.connect()
    asked = {"order_by": "/n", "top_n": 1, "skip_n": 0, "options": "bookmark_not_found=now"}
    with server.patched():
        acks = "processed,completed,stats"
        client.ask("sow_and_subscribe", bookmark="orders:0@1", ack_type=acks, query_id="q", **asked)
        messages = await client.read()
    group = next(message for message in messages if message["command"] == "group_end")
    after = messages[messages.index(group) + 1 :]
    assert [message["ack_type"] for message in after] == ["completed", "stats"]
    assert (after[0]["bookmark"], after[0].get("sub_id")) == (messages[0]["bookmark"], None)


async def test_reset_asks_for_a_fresh_group_instead() -> None:
    """With `reset` an expired bookmark is answered with the records as they are, marked as a reset."""
    server, client = await expired("reset")
    assert commands(client.received) == ["ack", "group_begin", "sow", "group_end"]
    assert client.received[1]["reset"] is True
    server.put({"id": 2})
    assert commands(await client.read()) == ["publish"]


async def test_a_replica_behind_the_bookmark_is_waited_for(server: Server) -> None:
    """A client that has seen more than this replica is served once the replica has caught up."""
    server.put({"id": 1})
    client = server.connect()
    client.ask("subscribe", bookmark="orders:0@2", ack_type="processed")
    assert await client.read() == []
    for number in range(3):
        server.put({"id": number})
    ack, publish = await client.read()
    assert (ack["bookmark"], publish["bookmark"]) == ("orders:0@2", "orders:0@3")


async def test_a_replica_far_behind_refuses(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting has a limit; after that the answer is `behind`."""
    monkeypatch.setattr("sowline_query_service.subscriptions.bookmark_resolver.BEHIND_SECONDS_MAX", 0)
    client = server.connect()
    client.ask("subscribe", bookmark="orders:0@2")
    (failure,) = await client.read()
    assert failure["reason"] == "behind"


async def test_a_slow_client_gets_everything_at_its_own_pace() -> None:
    """Once its outbox is full, live messages are held back for it, and come from the ring when it reads again."""
    server = Server(backlog=300, ring=5).loaded()
    with server.patched():
        slow, quick = server.connect(), server.connect()
        for client in (slow, quick):
            client.ask("sow_and_subscribe", options="oof")
        await quick.read()
        for number in range(30):
            server.put({"id": number % 4, "n": number})
            await quick.read()
        assert slow.outbox.unsent_bytes < 10 * 100
        await slow.read()
        server.put({"id": 9})
        await slow.read()
        await quick.read()
    for client in (slow, quick):
        live = [m["bookmark"] for m in client.received if m["command"] == "publish"]
        assert live == [f"orders:0@{n}" for n in range(31)]


async def test_a_snapshot_waits_for_a_slow_client(server: Server) -> None:
    """A large result is encoded as the client takes it, and what happens meanwhile comes after it."""
    server = Server(backlog=200).loaded()
    for number in range(3000):
        server.put({"id": number})
    client = server.connect()
    client.ask("sow_and_subscribe", batch_size=100)
    await settled()
    server.put({"id": 0, "late": True})
    messages = await client.read()
    assert len(view_of(messages)) == 3000
    assert commands(messages)[-2:] == ["group_end", "publish"]
