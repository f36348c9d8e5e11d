"""Finding places: times, lists, ranges, and what is left where a place is gone."""

import asyncio
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from sowline.changes.change import Change
from sowline.errors import SowlineError
from sowline.model.bookmark_range import parse_bookmark_range
from sowline.model.position import Position, before_the_log
from sowline_query_service.context import ServiceContext
from sowline_query_service.subscriptions.bookmark_resolver import (
    LogOffsets,
    before_time,
    begin_of,
    check_eras,
    oldest,
)
from sowline_query_service.subscriptions.catch_up import BookmarkExpired
from sowline_query_service.topics.topic_state import TopicState
from tests.unit.query_service.sessions import Server, settled


def log_offsets_at(server: Server) -> Any:
    """Stand in for Kafka's answer: change n of a partition is of the log record n, at the time 1000 + n."""

    def offsets(kafka: Any, topic: TopicState, first_ms: int) -> dict[int, LogOffsets]:
        return {
            number: LogOffsets(max(0, min(first_ms - 1000, server.last[number].offset + 1)), 0)
            for number in topic.partitions
        }

    return offsets


def first_offsets(kafka: Any, topic: TopicState) -> dict[int, int]:
    """Stand in for Kafka's answer: nothing is deleted from the beginning."""
    return dict.fromkeys(topic.partitions, 0)


@pytest.fixture
def server() -> Iterator[Server]:
    """A server whose ring holds little, with changes at every second offset of two partitions."""
    server = Server(partitions=2, ring=3).loaded()
    with (
        server.patched(),
        patch("sowline_query_service.subscriptions.bookmark_resolver.log_offsets_at", log_offsets_at(server)),
        patch("sowline_query_service.subscriptions.bookmark_resolver.first_offsets", first_offsets),
    ):
        for number in range(10):
            server.put({"id": number, "n": number}, partition=number % 2, step=2)
        yield server


def context(server: Server) -> ServiceContext:
    """Return what a session has."""
    return ServiceContext(server.state, server.dispatcher, {}, server.limits)


def at(first: int, second: int) -> dict[int, Position]:
    """Return a place."""
    return {0: Position(0, first), 1: Position(0, second)}


async def begin(server: Server, bookmark: str | list[str]) -> dict[int, Position]:
    """Return where a span begins in the log of the orders."""
    return (await begin_of(context(server), [server.topic], parse_bookmark_range(bookmark)))["orders"]


@pytest.mark.parametrize("time", range(999, 1012))
async def test_a_time_is_behind_all_that_was_until_then(server: Server, time: int) -> None:
    """At a real position of each partition; changes are at 1, 3, 5, 7 and 9."""
    last = max((offset for offset in (1, 3, 5, 7, 9) if 1000 + offset <= time), default=-1)
    assert await before_time(context(server), server.topic, time + 1) == at(last, last)


@pytest.mark.parametrize(
    ("bookmark", "offset"),
    [
        ("19700101T000001.004Z", 3),
        ("19700101T000001.005Z", 5),
        ("19700101T000001.005999Z", 5),
        ("[19700101T000001.005Z..now]", 3),
        ("[19700101T000001.005001Z..now]", 5),
        ("(19700101T000001.005Z..now]", 5),
        ("[orders:0@5,1@5..now]", 3),
        ("(orders:0@5,1@5..now]", 5),
        ("orders:0@4,1@4", 4),
        ("epoch", -1),
    ],
)
async def test_brackets_say_whether_the_position_itself_counts(
    server: Server, bookmark: str, offset: int
) -> None:
    """A square one does, a round one and none do not."""
    assert await begin(server, bookmark) == at(offset, offset)


async def test_of_a_list_the_earliest_position_of_each_partition_counts(server: Server) -> None:
    """A partition that none of them names is told from its beginning."""
    assert await begin(server, ["orders:0@5,1@3", "orders:0@3,1@9"]) == at(3, 3)
    assert await begin(server, ["orders:0@5", "orders:1@7"]) == at(5, 7)
    assert await begin(server, ["orders:0@5", "now"]) == at(5, 9)
    assert await begin(server, ["orders:0@5", "orders:0@7"]) == {0: Position(0, 5), 1: before_the_log()}
    assert await begin(server, ["orders:0@7,1@7", "19700101T000001.004Z"]) == at(3, 3)


async def test_a_time_to_come_is_no_begin(server: Server) -> None:
    """But for one that is there in a moment."""
    with pytest.raises(SowlineError, match="got a future time"):
        await begin(server, "29990101T000000Z")


async def test_the_oldest_position_is_behind_the_last_gap(server: Server) -> None:
    """Where compaction has taken changes away."""
    assert (await oldest(context(server), [server.topic]))["orders"] == at(-1, -1)
    del server.written[0][1]
    del server.written[1][0]
    assert (await oldest(context(server), [server.topic]))["orders"] == at(3, 1)


async def test_a_time_before_changes_that_are_gone_is_not_found(server: Server) -> None:
    """Nothing is told then, for a gap would not be seen."""
    del server.written[0][1]
    with pytest.raises(BookmarkExpired, match=r"after orders:\d@-?\d+ are"):
        await before_time(context(server), server.topic, 1002)
    assert await before_time(context(server), server.topic, 1004) == at(3, 3)


async def test_a_time_before_the_log_began_is_not_found(server: Server) -> None:
    """What was then, the log does not tell; unless it began with nothing."""

    def shorter(kafka: Any, topic: TopicState, first_ms: int) -> dict[int, LogOffsets]:
        return {number: LogOffsets(max(5, first_ms - 1000), 5) for number in topic.partitions}

    with patch("sowline_query_service.subscriptions.bookmark_resolver.log_offsets_at", shorter):
        with pytest.raises(BookmarkExpired):
            await before_time(context(server), server.topic, 1004)
        assert await before_time(context(server), server.topic, 1006) == at(5, 5)


# eras


def changes_ends(*ends: int) -> Any:
    """Stand in for Kafka's answer where the changes topic ends."""
    return patch(
        "sowline_query_service.subscriptions.bookmark_resolver.last_offsets",
        lambda kafka, topic: dict(enumerate(ends)),
    )


@pytest.mark.parametrize(
    ("bookmark", "up_to"),
    [
        ("orders:1@1/3", ""),
        ('["epoch", "orders:1@9/0"]', ""),
        ("(orders:1@1/3..now)", ""),
        ("now", "orders:1@1/3"),
    ],
)
async def test_an_era_that_does_not_exist_is_refused_at_once(
    server: Server, bookmark: str, up_to: str
) -> None:
    """Wherever it is named: the replica has all that Kafka has, and that era is not in it."""
    with changes_ends(5, 5), pytest.raises(SowlineError) as refused:
        await check_eras(context(server), [server.topic], parse_bookmark_range(bookmark, up_to))
    assert refused.value.reason == "invalid bookmark"
    assert "partition 1 of orders has had, up to 0" in refused.value.message


async def test_an_era_that_is_yet_to_come_here_is_waited_for(server: Server) -> None:
    """A replica may be behind: what Kafka had when it was asked is applied before the answer."""
    bookmark_range = parse_bookmark_range("orders:0@8,1@1/0")
    with changes_ends(5, 6):
        checked = asyncio.ensure_future(check_eras(context(server), [server.topic], bookmark_range))
        server.put({"id": 0}, partition=0)
        await settled()
        assert not checked.done()
        after = server.last[1]
        server.take(Change(b"1", b"{}", None, Position(1, 0), after, "publish", 1, last=True), 1)
        await checked
    with changes_ends(5, 6), pytest.raises(SowlineError, match="up to 1"):
        await check_eras(context(server), [server.topic], parse_bookmark_range("orders:0@8,1@2/0"))
