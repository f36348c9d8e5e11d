"""Replays of a session: their ends, their order, and what is gone."""

import json
from typing import Any
from unittest.mock import patch

import pytest

from tests.unit.query_service.sessions import Json, Server, settled, view_of
from tests.unit.query_service.subscriptions.replayed import (
    ALL_ACKS,
    acks,
    commands,
    numbers_in,
    read_until,
    server,
)
from tests.waiting import loop_turns

__all__ = ["server"]


@pytest.mark.parametrize(
    ("fields", "numbers", "bookmark"),
    [
        ({"bookmark": "epoch", "up_to": "now"}, range(10), "orders:0@4,1@4"),
        ({"bookmark": "epoch", "up_to": "orders:0@1,1@2"}, [0, 1, 2, 3, 5], "orders:0@1,1@2"),
        ({"bookmark": "[orders:0@1,1@1..orders:0@3,1@3]"}, range(2, 8), "orders:0@3,1@3"),
        ({"bookmark": "[orders:0@1,1@1..orders:0@3,1@3)"}, range(2, 6), "orders:0@2,1@2"),
        ({"bookmark": "(orders:0@1,1@1..orders:0@3,1@3]"}, range(4, 8), "orders:0@3,1@3"),
        ({"bookmark": "(19700101T000001Z..19700101T000001.002Z)"}, [2, 3], "orders:0@1,1@1"),
        ({"bookmark": "[19700101T000001Z..19700101T000001.002Z]"}, range(6), "orders:0@2,1@2"),
        ({"bookmark": "19700101T000001.003Z", "up_to": "20260101T000000Z"}, [8, 9], "orders:0@4,1@4"),
        ({"bookmark": '["orders:0@3", "orders:1@4"]', "up_to": "now"}, [8], "orders:0@4,1@4"),
        ({"bookmark": "orders:0@4,1@4", "up_to": "orders:0@1,1@1"}, [], "orders:0@4,1@4"),
        ({"up_to": "now"}, [], "orders:0@4,1@4"),
    ],
)
async def test_a_subscription_ends_where_it_should(
    server: Server, fields: Json, numbers: Any, bookmark: str
) -> None:
    """It is told every change up to there and none after it, in the order of their time, and is then over."""
    client = server.connect()
    client.ask("subscribe", sub_id="s", **fields)
    messages = await read_until(client, lambda messages: acks(messages) != [])
    assert sorted(numbers_in(messages)) == list(numbers)
    [end] = acks(messages)
    assert (end["ack_type"], end["status"], end["sub_id"]) == ("completed", "success", "s")
    assert (messages[-1], end["bookmark"]) == (end, bookmark)
    server.put({"id": 1, "n": 10})
    assert await client.read() == []
    client.ask("pause", sub_id="s")
    assert (await client.read())[0]["reason"] == "invalid subid"


@pytest.mark.parametrize("turns", range(12))
@pytest.mark.parametrize("fields", [{"options": "rate=1000"}, {"up_to": "20990101T000000Z"}])
async def test_a_change_at_the_start_of_a_replay_is_noticed(server: Server, fields: Json, turns: int) -> None:
    """Whichever turn of the loop it is applied in: nothing else may come for a long time."""
    client = server.connect()
    client.ask("subscribe", sub_id="s", bookmark="now", **fields)
    await loop_turns(turns)
    server.put({"id": 1, "n": 77})
    assert numbers_in(await read_until(client, lambda messages: 77 in numbers_in(messages))) == [77]


async def test_an_end_to_come_is_waited_for(server: Server) -> None:
    """Changes come as they happen until it is there; of each partition those that are before it."""
    client = server.connect()
    client.ask("subscribe", bookmark="now", up_to="orders:0@5,1@6", options="oof")
    assert await client.read() == []
    server.put({"id": 0, "n": 10}, partition=0)
    server.put({"id": 0, "n": 11}, partition=0)
    server.put({"id": 1, "n": 12}, partition=1)
    assert numbers_in(await client.read()) == [10, 12]
    server.put({"id": 1, "n": 13}, partition=1)
    messages = await client.read()
    assert numbers_in(messages) == [13]
    assert messages[-1]["bookmark"] == "orders:0@5,1@6"


async def test_a_snapshot_up_to_now_is_all_there_is(server: Server) -> None:
    """One completed acknowledgement, at the end; and what is replayed says so when it is live."""
    client = server.connect()
    client.ask("sow_and_subscribe", up_to="now", ack_type=ALL_ACKS, batch_size=10)
    messages = await client.read()
    assert commands(messages) == [
        "processed",
        "group_begin",
        "sow",
        "group_end",
        "stats",
        "completed",
    ]
    assert messages[0]["up_to"] == messages[-1]["bookmark"] == "orders:0@4,1@4"


async def test_a_replay_says_when_it_is_over(server: Server) -> None:
    """With the place where that was, if asked; then it is live."""
    client = server.connect()
    client.ask("subscribe", bookmark="orders:0@2,1@2", ack_type="processed,completed")
    messages = await client.read()
    assert commands(messages) == ["processed", *["publish"] * 4, "completed"]
    assert (messages[0]["bookmark"], messages[-1]["bookmark"]) == ("orders:0@2,1@2", "orders:0@4,1@4")
    server.put({"id": 1, "n": 10})
    assert numbers_in(await client.read()) == [10]
    client.ask("subscribe", sub_id="t", bookmark="epoch")
    assert acks(await client.read()) == []


async def test_changes_come_in_the_order_of_their_time(server: Server) -> None:
    """Over all partitions, where there is an end or a rate."""
    client = server.connect()
    client.ask("subscribe", bookmark="epoch", up_to="now")
    times = [number // 2 for number in numbers_in(await client.read())]
    assert times == sorted(times)


# where the place is gone


def is_settled(acks: list[Json]) -> bool:
    """Whether a replay has ended, one way or the other."""
    return any(ack["ack_type"] == "completed" or ack["status"] == "failure" for ack in acks)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [("fail", "bookmark_expired"), ("now", []), ("epoch", [2, 4, 6, 8]), ("reset", "group")],
)
@pytest.mark.parametrize("bookmark", ["epoch", "19700101T000000.500Z"])
async def test_what_is_gone(server: Server, wanted: str, expected: object, bookmark: str) -> None:
    """An error, or what was asked for in its place; nothing is told before that is known."""
    del server.written[0][0]
    server.written[1].clear()
    client = server.connect()
    client.ask(
        "subscribe", bookmark=bookmark, options=f"bookmark_not_found={wanted}", ack_type="processed,completed"
    )
    messages = await read_until(client, lambda messages: is_settled(acks(messages)))
    if wanted == "fail":
        assert [message["reason"] for message in messages] == [expected]
    elif wanted == "reset":
        [begin] = [message for message in messages if message["command"] == "group_begin"]
        assert begin["reset"]
        assert len(view_of(messages)) == 4
    else:
        assert numbers_in(messages) == expected
        server.put({"id": 1, "n": 10})
        assert numbers_in(await client.read()) == [10]


async def test_an_end_that_can_not_be_found_ends_the_subscription(server: Server) -> None:
    """Its client is told so: it does not wait for ever."""
    with patch(
        "sowline_query_service.subscriptions.end.log_offsets_at", side_effect=ValueError("no such place")
    ):
        client = server.connect()
        client.ask("subscribe", sub_id="s", bookmark="epoch", up_to="19700101T000002Z")
        messages = await read_until(client, lambda messages: any("reason" in m for m in messages))
    assert [ack["reason"] for ack in acks(messages)] == ["internal"]
    assert server.dispatcher.live == 0


async def test_a_replay_waits_for_its_client(server: Server) -> None:
    """A full outbox gets nothing more, and what waits comes later in its order."""
    client = server.connect(backlog=1)
    client.ask("subscribe", sub_id="s", bookmark="epoch", up_to="now")
    await settled()
    portions = []
    while taken := client.outbox.take_now():
        portions.append(numbers_in([json.loads(message) for message in taken]))
        await settled()
    assert max(map(len, portions)) == 1
    numbers = [number for portion in portions for number in portion]
    assert sorted(numbers) == list(range(10))
    assert [number // 2 for number in numbers] == sorted(number // 2 for number in numbers)
