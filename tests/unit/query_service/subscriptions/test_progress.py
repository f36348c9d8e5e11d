"""The word of where quiet subscriptions stand, and proofs of what they hold."""

import asyncio
from functools import reduce
from operator import xor

import pytest

from sowline.model.key import digest_of, sow_key
from sowline.serving.sessions import open_subscriptions
from sowline.serving.sessions.status import TICKS
from tests.unit.query_service.sessions import DOMAIN, Client, Json, Server, settled, view_of
from tests.unit.query_service.subscriptions.replayed import server
from tests.waiting import as_soon_as

__all__ = ["server"]


async def progress_timer(client: Client, looks: int = 4) -> list[Json]:
    """Let the looks for quiet subscriptions happen; return what is told then."""
    for _ in range(looks):
        client.session.commands.send_progress(0.0)
    return await client.read()


async def test_progress_of_many_subscriptions_is_spread(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them gets its bookmark once, in a message with some others; none after the session has ended."""
    monkeypatch.setattr(open_subscriptions, "PROGRESS_NAMES_MAX", 2)
    client = server.connect()
    for number in range(5):
        client.ask("subscribe", sub_id=f"s{number}", filter="/n < 0")
    await client.read()
    received = []
    for _ in range(TICKS):
        received += await progress_timer(client, looks=1)
    assert [one["sids"] for one in received] == [["s0", "s1"], ["s2", "s3"], ["s4"]]
    client.session.commands.send_progress(1000.0)
    client.session.close()
    await as_soon_as(lambda: len(asyncio.all_tasks()) <= 1)


async def test_quiet_subscriptions_are_sent_where_they_stand(server: Server) -> None:
    """Once, and together where they stand at the same place."""
    client = server.connect()
    for sub_id in ("s", "t"):
        client.ask("subscribe", sub_id=sub_id, filter="/n < 0")
    client.ask("sow_and_subscribe", sub_id="page", filter="/n < 0", skip_n=0, top_n=1)
    client.ask("subscribe", sub_id="busy")
    client.ask("subscribe", sub_id="paused", options="pause")
    await client.read()
    await progress_timer(client)
    server.put({"id": 1, "n": 10})
    assert await progress_timer(client, looks=3) != []
    [progress] = await progress_timer(client, looks=1)
    assert progress == {"command": "progress", "sids": ["s", "t", "page"], "bookmark": "orders:0@5,1@4"}
    assert await progress_timer(client, looks=2) != []
    assert await progress_timer(client, looks=20) == []


def proof(keys: list[int]) -> tuple[int, str]:
    """Return how many SOW keys these are, and their digest."""
    digests = [digest_of(sow_key(DOMAIN, str(key))) for key in keys]
    return len(keys), f"{reduce(xor, digests, 0):016x}"


@pytest.mark.parametrize(
    "fields",
    [
        {"options": "oof"},
        {"options": "oof,conflation=1h"},
        {"options": "oof", "skip_n": 0, "top_n": 10},
        {"options": "oof,conflation=1h", "skip_n": 0, "top_n": 10},
    ],
)
async def test_a_view_can_be_proved(server: Server, fields: Json) -> None:
    """In order with the messages: they lead to exactly so many records, with that digest."""
    client = server.connect()
    client.ask("sow_and_subscribe", sub_id="s", filter="/n > 6", batch_size=10, **fields)
    await client.read()
    server.put({"id": 2, "n": 1})
    server.put({"id": 7, "n": 9})
    client.ask("heartbeat", command_id="7", sub_id="s")
    await settled()
    server.put(None, key=1)
    await client.read()
    [at] = [number for number, m in enumerate(client.received) if m["command"] == "progress"]
    progress = client.received[at]
    assert (progress["command_id"], progress["sids"], progress["bookmark"]) == ("7", ["s"], "orders:0@6,1@4")
    view = view_of(client.received[:at])
    assert sorted(body["id"] for body in view.values()) == [0, 1, 3, 7]
    assert (progress["records"], progress["hash"]) == proof([0, 1, 3, 7])


@pytest.mark.parametrize("fields", [{"options": "pause"}, {"bookmark": "now", "options": "rate=5"}])
async def test_what_does_not_go_on_has_no_proof(server: Server, fields: Json) -> None:
    """For its place is not that of the records."""
    client = server.connect()
    client.ask("subscribe", sub_id="s", **fields)
    client.ask("heartbeat", sub_id="s")
    assert [m["reason"] for m in await client.read()] == ["not supported"]
