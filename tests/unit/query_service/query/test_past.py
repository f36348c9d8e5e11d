"""Queries at a past time: their parts, their facts, and what they leave alone."""

from typing import Any

import orjson
import pytest

from sowline.changes.change import Change
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.language.expressions.order import parse_order
from sowline.language.filter import compile_filter
from sowline.model.key import sow_key
from sowline.model.position import Position
from sowline.serving.result import QueryLimits
from sowline.wire.options import parse_options
from sowline_query_service.query import past
from sowline_query_service.query.grouping import GroupedQuery
from sowline_query_service.query.query import Query
from sowline_query_service.query.selection import Selection
from sowline_query_service.replica.plain_run import EventAtOffset
from sowline_query_service.topics.state import ServedTopics
from tests.unit.query_service.sessions import DOMAIN, Json, Server

HISTORY = ", history: {window: 1h}"
FIRST = 1000
"""The time of a server's first change; each change is a millisecond later."""


def served(*bodies: Json, more: str = HISTORY) -> Server:
    """Return a server that was told of these bodies, one after the other."""
    server = Server(more=more).loaded()
    for body in bodies:
        server.put(body)
    return server


def query(server: Server, at: int, text: str = "", **given: Any) -> Query:
    """Return a query at a time that has begun."""
    order, options = parse_order(given.pop("order_by", "")), parse_options(given.pop("options", ""))
    selection = Selection(compile_filter(text), options, order, **given)
    asked = Query([server.topic], selection, QueryLimits(), at)
    assert asked.begin_now()
    return asked


async def records(asked: Query | GroupedQuery) -> list[Json]:
    """Return what a query finds, as it goes on the wire."""
    return [orjson.loads(record) async for _, some, _ in asked.records() for record in some]


async def values(asked: Query) -> list[Any]:
    """Return the `n` of what a query finds."""
    return [record["data"]["n"] for record in await records(asked)]


async def test_records_that_were_deleted_later_are_there() -> None:
    """And those that came later are not."""
    server = served({"id": 1, "n": 1}, {"id": 2, "n": 2})
    server.put(None, key=1)
    server.put({"id": 3, "n": 3})
    assert [await values(query(server, FIRST + ms, order_by="/n")) for ms in range(-1, 5)] == [
        [],
        [1],
        [1, 2],
        [2],
        [2, 3],
        [2, 3],
    ]


async def test_counts_are_those_of_then() -> None:
    """Of the topic, of what matches, and the bookmark too."""
    server = served({"id": 1, "n": 1}, {"id": 2, "n": 2}, {"id": 1, "n": 5}, {"id": 3, "n": 3})
    asked = query(server, FIRST + 1, "/n < 3", top_n=0)
    assert (await records(asked), asked.bookmark) == ([], "orders:0@1")
    assert asked.result.counts == {
        "topic_matches": 2,
        "matches": 2,
        "records_returned": 0,
        "records_deleted": 0,
    }


async def test_a_record_says_when_it_had_changed() -> None:
    """Before the time, not since."""
    server = served({"id": 1, "n": 1}, {"id": 1, "n": 2})
    ((record),) = await records(query(server, FIRST, options="timestamp"))
    assert (record["updated_at"], record["timestamp"]) == ("orders:0@0", "1970-01-01T00:00:01.000000Z")


def reloaded() -> Server:
    """Return a server that has loaded a change, and not what was before it."""
    server = Server(more=HISTORY)
    key = sow_key(DOMAIN, "1")
    for offset, previous in ((4, b'{"id":0}'), (5, b'{"id":1,"n":1}')):
        name = key if offset == 5 else b"0"
        position, after = Position(0, offset), Position(0, offset - 1)
        server.take(Change(name, b'{"id":1,"n":2}', previous, position, after, "publish", FIRST + offset))
    return server.loaded()


async def test_what_is_not_known_is_left_out() -> None:
    """When a record had changed last, before all that was loaded; its body is exact."""
    server = reloaded()
    key = sow_key(DOMAIN, "1").decode()
    found = await records(query(server, FIRST + 4, "/n = 1"))
    assert found == [{"sow_key": key, "data": {"id": 1, "n": 1}}]
    assert await records(query(server, FIRST + 4, "/n = 1", options="timestamp")) == found
    assert len(await records(query(server, FIRST + 4, "LAST_UPDATED() IS NULL"))) == 1


async def test_a_group_takes_what_is_not_known_for_old() -> None:
    """Its latest record is another one, if there is one of which it is known."""
    server = reloaded()
    options = parse_options("grouping=[/id],projection=[/n AS /latest, COUNT(1) AS /count]")
    grouped = GroupedQuery(server.topic, Selection(options=options), QueryLimits(), FIRST + 4)
    await grouped.begin()
    assert [record["data"] for record in await records(grouped)] == [{"latest": 2, "count": 2}]
    assert grouped.positions == {"orders": {0: Position(0, 4)}}
    assert grouped.result.counts["topic_matches"] == 2


async def test_a_hole_is_the_end_of_the_past() -> None:
    """Before the change that shows it, nothing is told."""
    with pytest.raises(SowlineError) as error:
        query(reloaded(), FIRST + 3)
    assert error.value.reason == "history expired"
    assert "not before 19700101T000001.004000Z, got 19700101T000001.003000Z" in error.value.message


async def test_explain_has_an_entry_for_what_has_changed() -> None:
    """Next to the access path to what has not."""
    server = served(*({"id": n, "n": n} for n in range(5)), {"id": 1, "n": 9}, {"id": 9, "n": 9})
    explained = await query(server, FIRST + 4, "/n > 0").explain()
    assert explained == [
        {
            "topic": "orders",
            "access_path": "memo index",
            "index": "/n",
            "indexed": "/n > 0",
            "records": 4,
            "candidates": 3,
            "read": 0,
            "matches": 3,
        },
        {"topic": "orders", "access_path": "history", "records": 1, "candidates": 1, "read": 1, "matches": 1},
    ]


@pytest.mark.parametrize("by", ["filter", "sow_keys"])
async def test_a_key_leads_to_its_record_alone(by: str) -> None:
    """However many others have changed."""
    server = served(*({"id": n, "n": n} for n in range(9)), *({"id": n, "n": -n} for n in range(5)))
    given = {"sow_keys": (sow_key(DOMAIN, "3"),)} if by == "sow_keys" else {}
    for at, found in ((FIRST + 8, 3), (FIRST + 99, -3)):
        asked = query(server, at, "/id = '3'", **given)
        assert sum(entry.get("read", 0) for entry in await asked.explain()) == 1
        assert await values(query(server, at, "/id = '3'", **given)) == [found]


async def test_a_query_of_the_past_is_no_reading() -> None:
    """Neither of records that have changed since, nor of the others."""
    server = served({"id": 1, "n": 1}, {"id": 2, "n": 2}, {"id": 2, "n": 3})
    assert len(await records(query(server, FIRST + 1))) == 2
    captured = server.topic.rows.capture(server.topic.rows.all())
    assert captured.read_at.tolist() == [0.0, 0.0]
    assert len(await records(query(server, FIRST + 1, "LAST_READ() IS NULL"))) == 2


@pytest.mark.parametrize("at_once", [-1, past.AT_ONCE])
async def test_an_order_by_ranks_reads_few_bodies(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a page is asked for, the unchanged records that can't be on it are not read."""
    monkeypatch.setattr(past, "AT_ONCE", at_once)
    server = served(*({"id": n, "n": n} for n in range(50)), {"id": 7, "n": -1}, {"id": 8, "n": -2})
    asked = query(server, FIRST + 49, order_by="/n", top_n=3, skip_n=6)
    assert await values(asked) == [6, 7, 8]
    assert asked.result.counts["matches"] == 50
    assert await values(query(server, FIRST + 60, order_by="/n", top_n=3)) == [-2, -1, 0]
    topic_slice = asked.topic_slices[0]
    assert len(topic_slice.captured) == (50 if at_once < 0 else 9)
    (foremost,) = await asked._foremost(topic_slice, topic_slice.decided)
    assert len(foremost[1]) == 9


async def test_a_long_past_is_put_together_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others get turns; what they change does not matter."""
    monkeypatch.setattr(past, "STEP", 2)
    server = served(*({"id": n, "n": n} for n in range(9)), *({"id": n, "n": -n} for n in range(5)))
    asked = query(server, FIRST + 8, order_by="/n")
    server.put(None, key=3)
    server.put({"id": 20, "n": 20})
    assert await values(asked) == list(range(9))


async def test_each_topic_has_its_granularity() -> None:
    """A query of several is of the time that each of them can tell."""
    names = "abc"
    topics = ", ".join(
        f"{{name: {name}, key: /id, history: {{window: 1h, granularity: {granularity}}}}}"
        for name, granularity in zip(names, ("0s", "10ms", "1s"), strict=True)
    )
    state = ServedTopics(parse_topics(f"topics: [{topics}]"), 10)
    for name in names:
        state.loaded([(f"{name}.changes", 0)])
        last, previous = Position(0, -1), None
        for offset in range(25):
            body, position = orjson.dumps({"id": 1, "n": offset}), Position(0, offset)
            change = Change(b"1", body, previous, position, last, "publish", 10_000 + offset)
            state.take({(f"{name}.changes", 0): [EventAtOffset(offset, change)]})
            last, previous = position, body
    asked = Query(list(state.topics.values()), Selection(order=parse_order("/n")), QueryLimits(), 10_017)
    await asked.begin()
    assert await values(asked) == [0, 10, 17]
    assert asked.bookmark == "a:0@17;b:0@10;c:0@0"


async def test_a_time_may_expire_before_the_instant_is_taken() -> None:
    """Then there is no answer, rather than a wrong one."""
    server = served({"id": 1, "n": 1}, more=", history: {window: 3ms}")
    asked = Query([server.topic], Selection(), QueryLimits(), FIRST)
    for n in range(2, 9):
        server.put({"id": 1, "n": n})
    with pytest.raises(SowlineError) as error:
        asked.begin_now()
    assert error.value.reason == "history expired"
    assert asked.topic_slices == []
