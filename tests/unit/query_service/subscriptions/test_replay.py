"""Replays of a session: their ends, pauses, rates, and the word of where they stand."""

import asyncio
import json
from collections.abc import Callable, Iterator
from functools import reduce
from operator import xor
from typing import Any
from unittest.mock import patch

import pytest

from sowline.model.key import digest_of, sow_key
from sowline.serving.sessions import open_subscriptions
from sowline.serving.sessions.status import TICKS
from tests.unit.query_service.sessions import DOMAIN, Client, Json, Server, settled, view_of
from tests.unit.query_service.subscriptions.test_bookmark_resolver import first_offsets, log_offsets_at
from tests.waiting import as_soon_as, loop_turns, until

ALL_ACKS = "processed,completed,stats"


@pytest.fixture
def server() -> Iterator[Server]:
    """A server whose ring holds little, with ten changes of four records in two partitions."""
    server = Server(partitions=2, ring=3).loaded()
    with (
        server.patched(),
        patch("sowline_query_service.subscriptions.bookmark_resolver.log_offsets_at", log_offsets_at(server)),
        patch("sowline_query_service.subscriptions.bookmark_resolver.first_offsets", first_offsets),
        patch("sowline_query_service.subscriptions.end.log_offsets_at", log_offsets_at(server)),
    ):
        for number in range(10):
            server.put({"id": number % 4, "n": number}, partition=number % 2)
        yield server


def numbers_in(messages: list[Json]) -> list[int]:
    """Return the numbers in the changes that were sent."""
    return [message["data"]["n"] for message in messages if message["command"] == "publish"]


def commands(messages: list[Json]) -> list[str]:
    """Return the commands of messages, and the kinds of acknowledgements."""
    return [message["ack_type"] if "ack_type" in message else message["command"] for message in messages]


def acks(messages: list[Json]) -> list[Json]:
    """Return the acknowledgements."""
    return [message for message in messages if message["command"] == "ack"]


async def read_until(client: Client, condition: Callable[[list[Json]], bool]) -> list[Json]:
    """Return what is sent until something holds of it: other threads may have to answer first."""
    messages: list[Json] = []

    async def have_come() -> bool:
        messages.extend(await client.read())
        return condition(messages)

    await until(have_come)
    return messages


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


# pauses


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


# progress


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
