"""Streams: one query or subscription as its caller sees it, and how it goes on after a lost connection."""

import asyncio
import json
from typing import Any

import pytest

from sowline.errors import SowlineError
from sowline.message import read_frame
from sowline.stream import WAITING_MAX, Ask, Stream


async def give(stream: Stream, *messages: dict[str, Any]) -> None:
    """Let messages arrive from the connection."""
    for received in read_frame(json.dumps(list(messages))):
        await stream.receive(received)


def change(offset: int, partition: int = 0, command: str = "publish") -> dict[str, Any]:
    """Return a live message."""
    return {"command": command, "sids": ["1"], "bookmark": f"orders:{partition}@{offset}", "data": {}}


def group(bookmark: str, count: int = 0) -> list[dict[str, Any]]:
    """Return a whole group of so many records."""
    record = {"command": "sow", "records": [{"sow_key": "1", "data": {}}]}
    return [
        {"command": "group_begin", "bookmark": bookmark},
        *[record] * count,
        {"command": "group_end", "bookmark": bookmark, "records": count},
    ]


def processed(bookmark: str = "") -> dict[str, Any]:
    """Return the ack of a command."""
    return {"command": "ack", "ack_type": "processed", "status": "success", "bookmark": bookmark}


COMPLETED = {"command": "ack", "ack_type": "completed", "status": "success"}
FAILED = {
    "command": "ack",
    "ack_type": "processed",
    "status": "failure",
    "reason": "bad filter",
    "message": "m",
}


async def take(stream: Stream, count: int) -> list[str]:
    """Return the commands of the next messages."""
    return [(await anext(stream)).command for _ in range(count)]


async def test_a_query_ends_once_it_is_completed() -> None:
    """All its messages come, then the iteration ends."""
    stream = Stream("1", Ask("sow", "orders"))
    await give(stream, processed("orders:0@1"), *group("orders:0@1", 2), COMPLETED)
    assert [message.command async for message in stream] == ["group_begin", "sow", "sow", "group_end"]
    assert await stream.next_batch() == []


async def test_what_was_received_comes_before_the_error() -> None:
    """A refusal is raised once everything before it was given."""
    stream = Stream("1", Ask("subscribe", "orders"))
    await give(stream, processed("orders:0@1"), change(2), FAILED)
    assert await take(stream, 1) == ["publish"]
    with pytest.raises(SowlineError) as error:
        await anext(stream)
    assert error.value.reason == "bad filter"


async def test_whoever_waits_is_woken() -> None:
    """A caller that waits for a message gets it when it comes."""
    stream = Stream("1", Ask("subscribe", "orders"))
    waiting = asyncio.create_task(anext(stream))
    await asyncio.sleep(0)
    await give(stream, change(2))
    assert (await waiting).command == "publish"


async def test_a_batch_is_what_is_there() -> None:
    """Several messages at once, up to a limit."""
    stream = Stream("1", Ask("subscribe", "orders"))
    await give(stream, *(change(n) for n in range(5)))
    assert len(await stream.next_batch(3)) == 3
    assert len(await stream.next_batch(3)) == 2


async def test_the_bookmark_moves_on_delivery_not_on_receipt() -> None:
    """What waits was not delivered: the bookmark stands before it."""
    stream = Stream("1", Ask("sow_and_subscribe", "orders"))
    assert stream.bookmark is None
    await give(stream, *group("orders:0@1,1@7"), change(2), change(8, 1))
    assert stream.bookmark is None
    await take(stream, 2)
    assert stream.bookmark == "orders:0@1,1@7"
    await take(stream, 1)
    assert stream.bookmark == "orders:0@2,1@7"
    await take(stream, 1)
    assert stream.bookmark == "orders:0@2,1@8"


async def test_a_subscription_begins_where_its_ack_says() -> None:
    """Before the first change there is a place to come back to."""
    stream = Stream("1", Ask("subscribe", "orders"))
    await give(stream, processed("orders:0@5"))
    assert stream.bookmark == "orders:0@5"


async def test_a_subscription_goes_on_from_its_bookmark() -> None:
    """After a lost connection what was not delivered is asked for again, with filter and options."""
    stream = Stream("1", Ask("sow_and_subscribe", "orders", "/a = 1", "oof"))
    await give(stream, *group("orders:0@1"), change(2), change(3))
    await take(stream, 3)
    assert stream.resumed() == Ask("subscribe", "orders", "/a = 1", "oof", "orders:0@2")
    await give(stream, processed("orders:0@2"), change(3), change(4))
    assert [m.bookmark for m in await stream.next_batch()] == ["orders:0@3", "orders:0@4"]


async def test_a_group_that_was_cut_off_is_asked_for_again() -> None:
    """Before the end of its first group a subscription has no place to come back to."""
    ask = Ask("sow_and_subscribe", "orders")
    stream = Stream("1", ask)
    await give(stream, *group("orders:0@1", 3)[:-1])
    await take(stream, 2)
    assert stream.resumed() == ask


async def test_what_has_ended_does_not_go_on() -> None:
    """A query that was completed, and a stream that failed, are not asked for again."""
    done, failed = Stream("1", Ask("sow", "orders")), Stream("2", Ask("subscribe", "orders"))
    await give(done, COMPLETED)
    await give(failed, FAILED)
    assert (done.resumed(), failed.resumed()) == (None, None)


async def test_a_caller_who_does_not_read_holds_up_the_connection() -> None:
    """At the limit of waiting messages the reader waits, until the caller has taken half of them."""
    stream = Stream("1", Ask("subscribe", "orders"))
    reading = asyncio.create_task(give(stream, *(change(n) for n in range(WAITING_MAX + 1))))
    while len(stream._waiting) < WAITING_MAX:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not reading.done()
    await stream.next_batch(WAITING_MAX)
    await reading
    assert len(await stream.next_batch()) == 1


async def test_an_ask_is_sent_as_it_is() -> None:
    """What was not asked for is left out."""
    assert Ask("subscribe", "orders", bookmark="b").request("1") == {
        "command": "subscribe",
        "command_id": "1",
        "topic": "orders",
        "bookmark": "b",
        "batch_size": 10,
        "ack_type": "processed,completed",
    }
    page = Ask("sow", "orders", batch_size=5, order_by="/a", top_n=0, skip_n=0, sow_keys=("1",)).request("1")
    given = ("batch_size", "order_by", "top_n", "skip_n", "sow_keys")
    assert [page[name] for name in given] == [5, "/a", 0, 0, ["1"]]
