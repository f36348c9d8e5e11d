"""Streams: one query or subscription as its caller sees it, and how it goes on after a lost connection."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from sowline.client.stream import REFUSED_SECONDS, WAITING_MAX
from sowline.errors import SowlineError
from sowline.subscriptions.ask import Ask
from sowline.subscriptions.lifecycle import (
    Again,
    Proving,
    Send,
    Signal,
)
from tests.unit.sowline.client.played_stream import (
    COMPLETED,
    FAILED,
    OPEN,
    change,
    give,
    group,
    next_request,
    opened,
    processed,
    resumed,
    take,
    taken,
)
from tests.waiting import as_soon_as, loop_turns


async def test_a_query_ends_once_it_is_completed() -> None:
    """All its messages come, then the iteration ends."""
    stream = opened(Ask("sow", "orders"))
    await give(stream, processed("orders:0@1"), *group("orders:0@1", 2), COMPLETED)
    assert [message.command async for message in stream] == ["group_begin", "sow", "sow", "group_end"]
    assert await stream.next_batch() == []


async def test_a_request_that_is_refused_for_long_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, after some seconds: a topic may be loading for a moment, or wait for a leader of Kafka."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("sowline.client.stream.time", SimpleNamespace(monotonic=lambda: clock.now))
    stream = opened(Ask("sow", "orders"))
    for seconds in (0, REFUSED_SECONDS - 1, 1, 60):
        clock.now += seconds
        await give(stream, FAILED | {"reason": "not ready", "message": "orders waits"})
        assert bool(caplog.messages) == (clock.now >= 100 + REFUSED_SECONDS)
        stream.handle(Again(0))
        stream.outgoing.clear()
    assert caplog.messages == ["not ready: orders waits; trying again"]
    await give(stream, processed("orders:0@1"), *group("orders:0@1"), COMPLETED)
    assert await take(stream, 2) == ["group_begin", "group_end"]


async def test_what_was_received_comes_before_the_error() -> None:
    """A refusal is raised once everything before it was given."""
    stream = opened(Ask("subscribe", "orders"))
    await give(stream, processed("orders:0@1"), change(2), FAILED)
    assert await take(stream, 1) == ["publish"]
    with pytest.raises(SowlineError) as error:
        await anext(stream)
    assert error.value.reason == "bad filter"


async def test_a_waiter_is_woken() -> None:
    """A caller that waits for a message gets it when it comes."""
    stream = opened(Ask("subscribe", "orders"))
    waiting = asyncio.create_task(anext(stream))
    await loop_turns()
    await give(stream, processed("orders:0@1"), change(2))
    assert (await waiting).command == "publish"


async def test_a_batch_is_what_is_there() -> None:
    """Several messages at once, up to a limit."""
    stream = opened(Ask("subscribe", "orders"))
    await give(stream, processed("orders:0@0"), *(change(n) for n in range(5)))
    assert len(await stream.next_batch(3)) == 3
    assert len(await stream.next_batch(3)) == 2


async def test_the_bookmark_moves_on_delivery_not_on_receipt() -> None:
    """What waits was not delivered: the bookmark stands before it."""
    stream = opened(Ask("sow_and_subscribe", "orders"))
    assert stream.bookmark is None
    await give(stream, processed(), *group("orders:0@1,1@7"), change(2), change(8, 1))
    assert stream.bookmark is None
    await take(stream, 2)
    assert stream.bookmark == "orders:0@1,1@7"
    await take(stream, 1)
    assert stream.bookmark == "orders:0@2,1@7"
    await take(stream, 1)
    assert stream.bookmark == "orders:0@2,1@8"


async def test_a_subscription_begins_where_its_ack_says() -> None:
    """Before the first change there is a place to come back to."""
    stream = opened(Ask("subscribe", "orders"))
    await give(stream, processed("orders:0@5"))
    assert stream.bookmark == "orders:0@5"


async def test_a_subscription_goes_on_from_its_bookmark() -> None:
    """After a lost connection what was not delivered is asked for again, with filter and options."""
    stream = opened(Ask("sow_and_subscribe", "orders", "/a = 1", "oof"))
    await give(stream, processed(), *group("orders:0@1"), change(2), change(3))
    await take(stream, 3)
    assert resumed(stream) == Ask("subscribe", "orders", "/a = 1", "oof", "orders:0@2")
    await give(stream, processed("orders:0@2"), change(3), change(4))
    assert [m.bookmark for m in await stream.next_batch()] == ["orders:0@3", "orders:0@4"]


async def test_a_group_that_was_cut_off_is_asked_for_again() -> None:
    """Before the end of its first group a subscription has no place to come back to."""
    ask = Ask("sow_and_subscribe", "orders")
    stream = opened(ask)
    await give(stream, processed(), *group("orders:0@1", 3)[:-1])
    await take(stream, 2)
    assert resumed(stream) == ask


async def test_what_has_ended_does_not_go_on() -> None:
    """A query that was completed, and a stream that failed, are not asked for again."""
    done, failed = opened(Ask("sow", "orders")), opened(Ask("subscribe", "orders"))
    await give(done, processed(), COMPLETED)
    await give(failed, FAILED)
    assert (resumed(done), resumed(failed)) == (None, None)


async def test_a_caller_who_does_not_read_holds_up_the_connection() -> None:
    """At the limit of waiting messages the reader waits, until the caller has taken half of them."""
    stream = opened(Ask("subscribe", "orders"))
    messages = [change(n) for n in range(WAITING_MAX + 1)]
    reading = asyncio.create_task(give(stream, processed("orders:0@0"), *messages))
    await as_soon_as(lambda: len(stream.machine.taken.inbox) >= WAITING_MAX)
    await loop_turns()
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


async def test_of_a_shared_message_a_subscription_gets_what_it_selects() -> None:
    """What others of the connection select beside that is left out, until it selects something else itself."""
    stream = opened(Ask("delta_subscribe", "orders", options="oof,select=[-/,+/a,+/o/b]"))
    await give(stream, processed("orders:0@1"))
    shared = {"sids": ["2", "1"], "data": {"id": 1, "a": 2, "o": {"b": 3, "c": 4}}, "removed": ["/x", "/o"]}
    await give(stream, change(2) | shared, change(3) | shared | {"sids": ["1"]})
    stream.replace(options="select=[-/a]")
    await give(stream, taken(), change(4) | shared)
    messages = await stream.next_batch()
    assert [message.data for message in messages] == [
        {"a": 2, "o": {"b": 3}},
        shared["data"],
        {"id": 1, "o": {"b": 3, "c": 4}},
    ]
    assert messages[0].removed == ("/x", "/o")


# where it stands, ends and pauses


def progress(bookmark: str, **fields: Any) -> dict[str, Any]:
    """Return the word of where a subscription stands."""
    return {"command": "progress", "sids": ["1"], "bookmark": bookmark, **fields}


async def test_progress_moves_the_bookmark_on_and_is_not_given() -> None:
    """In order with the messages: not before those ahead of it were given."""
    stream = opened(Ask("subscribe", "orders"))
    await give(stream, processed("orders:0@1,1@1"), progress("orders:0@2,1@2"))
    await give(stream, change(3), change(4, 1), progress("orders:0@5,1@5"), change(6))
    assert stream.bookmark == "orders:0@1,1@1"
    assert await take(stream, 1) == ["publish"]
    assert stream.bookmark == "orders:0@3,1@2"
    assert await take(stream, 1) == ["publish"]
    assert stream.bookmark == "orders:0@5,1@5"
    assert [message.bookmark for message in await stream.next_batch()] == ["orders:0@6"]
    await give(stream, progress("orders:0@9,1@9"))
    ask = resumed(stream)
    assert ask is not None
    assert ask.bookmark == "orders:0@6,1@5"


async def test_a_waiter_is_not_woken_by_progress_alone() -> None:
    """There is nothing to give."""
    stream = opened(Ask("subscribe", "orders"))
    await give(stream, processed("orders:0@1"))
    waiting = asyncio.create_task(stream.next_batch())
    await give(stream, progress("orders:0@2"))
    await loop_turns()
    assert (waiting.done(), stream.bookmark) == (False, "orders:0@2")
    await give(stream, change(3))
    assert len(await waiting) == 1


async def test_a_proof_that_was_asked_for_is_given() -> None:
    """Among the messages; a refusal of it ends nothing."""
    stream = opened(Ask("subscribe", "orders"))
    stream.handle(Signal.PROVE)
    await give(
        stream, processed("orders:0@1"), change(2), progress("orders:0@2", records=1, hash="ab"), change(3)
    )
    given = await stream.next_batch()
    assert [(m.command, m.records, m.hash) for m in given if m.command == "progress"] == [
        ("progress", 1, "ab")
    ]
    assert stream.machine.proof is Proving.NONE
    stream.handle(Signal.PROVE)
    await give(stream, FAILED | {"command_id": "1.proof", "reason": "not supported"}, change(4))
    assert [(m.command, m.reason, m.hash) for m in await stream.next_batch()] == [
        ("progress", "not supported", ""),
        ("publish", None, None),
    ]
    assert stream.machine.proof is Proving.NONE


@pytest.mark.parametrize("asked", [{"up_to": "now"}, {"bookmark": "[epoch..now]"}])
async def test_a_subscription_with_an_end_is_over_there(asked: dict[str, Any]) -> None:
    """What came before is given."""
    stream = opened(Ask("subscribe", "orders", **asked))
    await give(stream, processed("orders:0@1"), change(2), COMPLETED)
    assert [message.command async for message in stream] == ["publish"]
    assert resumed(stream) is None


async def test_the_end_of_a_replay_is_not_the_end() -> None:
    """Without an end, a subscription goes on behind its completed acknowledgement."""
    stream = opened(Ask("subscribe", "orders", bookmark="epoch"))
    await give(stream, processed("epoch"), COMPLETED, change(2))
    assert await take(stream, 1) == ["publish"]


@pytest.mark.parametrize(
    ("asked", "known", "bookmark", "up_to"),
    [
        ({"bookmark": "epoch", "up_to": "20261121T120000Z"}, "", "orders:0@2", "20261121T120000Z"),
        ({"bookmark": "epoch", "up_to": "now"}, "orders:0@9", "orders:0@2", "orders:0@9"),
        ({"bookmark": "[epoch..orders:0@9)"}, "", "(orders:0@2..orders:0@9)", ""),
        ({"bookmark": "[epoch..now)"}, "orders:0@9", "orders:0@2", "orders:0@9"),
        ({"bookmark": datetime(2026, 11, 21, tzinfo=UTC)}, "", "orders:0@2", ""),
        ({"up_to": datetime(2026, 11, 21, tzinfo=UTC)}, "", "orders:0@2", "20261121T000000.000000Z"),
    ],
)
async def test_a_lost_connection_changes_no_end(
    asked: dict[str, Any], known: str, bookmark: str, up_to: str
) -> None:
    """It goes on from the last message that was given, up to where it would have ended."""
    stream = opened(Ask("subscribe", "orders", **asked))
    await give(stream, processed("orders:0@1") | {"up_to": known}, change(2), change(3))
    assert await take(stream, 1) == ["publish"]
    ask = resumed(stream)
    assert ask is not None
    request = ask.request("1")
    assert (request["bookmark"], request.get("up_to", "")) == (bookmark, up_to)


async def test_a_subscription_at_a_time_has_a_group() -> None:
    """So it has no place until that has ended, unlike one that comes back."""
    time = opened(Ask("sow_and_subscribe", "orders", bookmark="20261121T120000Z"))
    back = opened(Ask("sow_and_subscribe", "orders", bookmark=["orders:0@1", "20261121T120000Z"]))
    for stream in (time, back):
        await give(stream, processed("orders:0@1"))
    assert (time.bookmark, back.bookmark) == (None, "orders:0@1")
    await give(time, *group("orders:0@1", 1))
    await take(time, 3)
    ask = resumed(time)
    assert ask is not None
    assert ask.bookmark == "orders:0@1"


async def test_a_pause_outlives_the_connection() -> None:
    """What is paused begins so, and what was resumed does not."""
    stream = opened(Ask("subscribe", "orders", options="oof,select=[-/,+/a]"))
    await give(stream, processed("orders:0@1"))
    stream.handle(Signal.PAUSE)
    await give(stream, FAILED | {"command_id": "1.pause", "reason": "invalid subid"})
    ask = resumed(stream)
    assert ask is not None
    assert ask.options == "oof,pause,select=[-/,+/a]"
    begun = opened(Ask("subscribe", "orders", options="pause,oof"))
    assert begun.machine.is_paused
    begun.handle(Signal.UNPAUSE)
    ask = resumed(begun)
    assert ask is not None
    assert ask.options == "oof"
    assert stream.request(Send("pause")) == {"command": "pause", "command_id": "1.pause", "sub_id": "1"}
    assert stream.request(Send("prove")) == {"command": "heartbeat", "command_id": "1.proof", "sub_id": "1"}


RESET = {"command": "group_begin", "bookmark": "orders:0@9", "reset": True}


@pytest.mark.parametrize(
    ("ask", "command"),
    [
        (OPEN, "sow_and_subscribe"),
        (replace(OPEN, command="delta_subscribe", bookmark="orders:0@1"), "sow_and_delta_subscribe"),
    ],
)
async def test_a_connection_lost_within_a_reset(ask: Ask, command: str) -> None:
    """What the caller held is void, and the group is not whole: all of it comes again, marked so again."""
    stream = opened(ask)
    await give(stream, processed("orders:0@1"), *(group("orders:0@1") if ask is OPEN else []), change(2))
    await take(stream, 3 if ask is OPEN else 1)
    await give(stream, RESET, group("orders:0@9", 1)[1])
    assert await take(stream, 2) == ["group_begin", "sow"]
    assert stream.bookmark is None
    for _ in range(2):
        again = resumed(stream)
        assert again is not None
        assert (again.command, again.bookmark, again.options) == (command, "", "oof")
    await give(stream, processed("orders:0@12"), *group("orders:0@12", 1), change(13))
    assert (await anext(stream)).reset
    assert await take(stream, 3) == ["sow", "group_end", "publish"]
    assert stream.bookmark == "orders:0@13"
    again = resumed(stream)
    assert again is not None
    assert (again.command, again.bookmark) == (command.removeprefix("sow_and_"), "orders:0@13")


async def test_a_reset_that_the_caller_was_not_given_is_none() -> None:
    """It holds what it held: the server finds again that it can't go on from there."""
    stream = opened(OPEN)
    await give(stream, processed(), *group("orders:0@1"), RESET)
    await take(stream, 2)
    again = resumed(stream)
    assert again is not None
    assert (again.command, again.bookmark) == ("subscribe", "orders:0@1")


async def test_a_subscription_replaced_within_a_reset() -> None:
    """Its caller holds nothing that the changes of the new one could go on from."""
    stream = opened(OPEN)
    await give(stream, processed(), *group("orders:0@1"), RESET)
    await take(stream, 3)
    stream.replace(filter="/a = 2")
    assert next_request(stream) is not None
    await give(stream, {**processed(), "command_id": "1.1"})
    again = resumed(stream)
    assert again is not None
    assert (again.command, again.bookmark, again.filter) == ("sow_and_subscribe", "", "/a = 2")
