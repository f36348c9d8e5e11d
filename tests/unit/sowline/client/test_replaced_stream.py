"""Subscriptions that are replaced, as their caller sees them, whenever the connection is lost."""

import asyncio
from dataclasses import replace

import pytest

from sowline.client.stream import WAITING_MAX, stream_id
from sowline.errors import SowlineError
from sowline.subscriptions.ask import Ask
from sowline.subscriptions.lifecycle import (
    Again,
    AskLater,
    State,
)
from sowline.subscriptions.taken import ServedRequest
from tests.unit.sowline.client.played_stream import (
    OPEN,
    change,
    give,
    group,
    next_request,
    opened,
    processed,
    refused,
    resumed,
    subscribed,
    take,
    taken,
)
from tests.waiting import as_soon_as


async def test_a_replacement_is_asked_for_under_a_name_of_its_own() -> None:
    """The subscription keeps its name; what is not named of it stays as it was."""
    stream = await subscribed()
    replacement = stream.replace(filter="/b = 2", top_n=None)
    request = next_request(stream)
    assert request == {
        "command": "sow_and_subscribe",
        "command_id": "1.1",
        "sub_id": "1",
        "query_id": "1",
        "topic": "orders",
        "filter": "/b = 2",
        "options": "replace,oof",
        "batch_size": 10,
        "ack_type": "processed,completed",
    }
    assert next_request(stream) is None
    assert (stream_id("1.1"), stream_id("1")) == ("1", "1")
    await give(stream, taken())
    await replacement.wait_settled()
    assert (stream.machine.taken.served.replacements, stream.ask) == (
        1,
        replace(OPEN, filter="/b = 2", top_n=None),
    )


async def test_what_is_refused_changes_nothing() -> None:
    """The subscription goes on, and so do its bookmark and what is asked for again."""
    stream = await subscribed()
    replacement = stream.replace(filter="nonsense")
    await give(stream, refused(), change(2))
    with pytest.raises(SowlineError, match="m") as error:
        await replacement.wait_settled()
    assert error.value.reason == "bad filter"
    await take(stream, 1)
    assert stream.bookmark == "orders:0@2"
    assert resumed(stream) == replace(OPEN, command="subscribe", bookmark="orders:0@2")


async def test_a_failure_of_the_subscription_ends_it_with_its_replacements() -> None:
    """Callers that wait for them get the reason."""
    stream = await subscribed()
    replacements = [stream.replace(filter="/b = 2"), stream.replace(filter="/b = 3")]
    await give(stream, refused(reason="gap", sub_id="1"), change(3))
    for replacement in replacements:
        with pytest.raises(SowlineError) as error:
            await replacement.wait_settled()
        assert error.value.reason == "gap"
    with pytest.raises(SowlineError):
        await anext(stream)
    with pytest.raises(SowlineError):
        stream.replace(filter="/b = 4")


async def test_replacements_come_one_after_the_other() -> None:
    """The next is sent when the one before is settled, and changes what has become of that."""
    stream = await subscribed()
    stream.replace(filter="/b = 2")
    refused_one, last = stream.replace(filter="nonsense", order_by="/b"), stream.replace(top_n=7)
    sent = []
    for answer in (taken(1), refused(2), taken(3)):
        sent.append(next_request(stream))
        assert next_request(stream) is None
        await give(stream, answer)
    assert [request and request["command_id"] for request in sent] == ["1.1", "1.2", "1.3"]
    with pytest.raises(SowlineError):
        await refused_one.wait_settled()
    await last.wait_settled()
    assert (stream.ask, stream.machine.taken.served.replacements) == (
        replace(OPEN, filter="/b = 2", top_n=7),
        2,
    )


async def test_a_replaced_subscription_has_no_position_until_its_group_was_given() -> None:
    """Messages that still wait belong to the previous one, groups included."""
    stream = await subscribed()
    stream.replace(filter="/b = 2")
    await give(stream, change(2), *group("orders:0@3"), taken())
    await take(stream, 1)
    assert (stream.bookmark, stream.shown) == (None, ServedRequest(0, OPEN))
    assert [m.command for m in await stream.next_batch()] == ["group_begin", "group_end"]
    assert (stream.bookmark, stream.shown) == (None, ServedRequest(0, OPEN))
    leaving = {
        "command": "oof",
        "sids": ["1"],
        "reason": "match",
        "more": True,
        "bookmark": "orders:0@3",
        "data": {},
    }
    begin, *rest = group("orders:0@5", 1)
    await give(stream, leaving, begin | {"replace": True}, *rest, change(6))
    given = await stream.next_batch()
    assert [m.command for m in given] == ["oof", "group_begin", "sow", "group_end"]
    assert given[1].replace
    assert (stream.bookmark, stream.shown) == ("orders:0@5", ServedRequest(1, replace(OPEN, filter="/b = 2")))
    assert resumed(stream) == replace(OPEN, command="subscribe", filter="/b = 2", bookmark="orders:0@5")


async def test_a_connection_lost_before_the_answer_to_a_replacement() -> None:
    """The subscription goes on as it was; once it does, it is replaced."""
    stream = await subscribed()
    stream.replace(filter="/b = 2")
    request = next_request(stream)
    await give(stream, change(2))
    assert resumed(stream) == replace(OPEN, command="subscribe", bookmark="orders:0@1")
    assert next_request(stream) is None
    await give(stream, processed("orders:0@1"))
    assert next_request(stream) == request


@pytest.mark.parametrize("given", range(3))
async def test_a_connection_lost_during_the_group_of_a_replacement(given: int) -> None:
    """The new subscription begins with a whole group, however much of the other one its caller has."""
    stream = await subscribed()
    stream.replace(filter="/b = 2")
    begin, *_ = group("orders:0@5")
    await give(
        stream, change(2), *group("orders:0@3"), taken(), begin | {"replace": True}, *group("", 1)[1:2]
    )
    await take(stream, given)
    assert resumed(stream) == replace(OPEN, filter="/b = 2")
    await give(stream, processed("orders:0@7"), *group("orders:0@7"))
    assert await take(stream, 2) == ["group_begin", "group_end"]
    assert stream.bookmark == "orders:0@7"


async def test_a_subscription_without_a_group_is_replaced_where_it_stands() -> None:
    """It has a place all the time, and goes on from there as the new one."""
    stream = opened(Ask("subscribe", "orders", "/a = 1"))
    await give(stream, processed("orders:0@1"))
    stream.replace(filter="/b = 2")
    await give(stream, change(2), taken(), change(3))
    await take(stream, 1)
    assert (stream.bookmark, stream.shown) == (
        "orders:0@2",
        ServedRequest(1, Ask("subscribe", "orders", "/b = 2")),
    )
    assert resumed(stream) == Ask("subscribe", "orders", "/b = 2", bookmark="orders:0@2")


async def test_a_replacement_that_can_not_be_done_yet_is_asked_for_again() -> None:
    """While a topic is loaded; its refusal is not one of the subscription."""
    stream = await subscribed()
    stream.replace(filter="/b = 2")
    request = next_request(stream)
    await give(stream, refused(reason="not ready"))
    assert list(stream.outgoing) == [AskLater(1)]
    stream.handle(Again(1))
    assert next_request(stream) == request


@pytest.mark.parametrize("part", ["proof", "pause", "resume"])
@pytest.mark.parametrize("reason", ["not ready", "shard unavailable"])
async def test_a_refused_command_about_a_subscription_is_not_its_refusal(part: str, reason: str) -> None:
    """Asked for again, a subscription that goes on would be refused, because its name is taken."""
    stream = await subscribed()
    await give(stream, refused(reason=reason) | {"command_id": f"1.{part}"})
    assert (list(stream.outgoing), stream.machine.state) == ([], State.LIVE)


async def test_who_waits_for_a_replacement_does_not_keep_its_answer_away() -> None:
    """A caller that has left too many messages unread for the connection to be read is answered."""
    stream = await subscribed()
    messages = [change(n) for n in range(2, WAITING_MAX + 10)]
    reading = asyncio.create_task(give(stream, *messages, taken(), change(WAITING_MAX + 10)))
    await as_soon_as(lambda: len(stream.machine.taken.inbox) >= WAITING_MAX)
    replacement = stream.replace(filter="/b = 2")
    await replacement.wait_settled()
    stream.close()
    await reading


async def test_not_everything_can_be_replaced() -> None:
    """Only subscriptions that go on, and only what they are asked for beside their topic."""
    with pytest.raises(SowlineError, match="expected a subscription to replace, got a query"):
        opened(Ask("sow", "orders")).replace(filter="/b = 2")
    stream = await subscribed()
    for name in ("bookmark", "topic", "command"):
        with pytest.raises(TypeError, match=name):
            stream.replace(**{name: ""})  # type: ignore[arg-type]
    waiting = stream.replace(filter="/b = 2")
    stream.close()
    with pytest.raises(SowlineError, match="ended"):
        await waiting.wait_settled()
    with pytest.raises(SowlineError, match="ended"):
        stream.replace(filter="/b = 3")
