"""Queries: the records of one instant that match, in the order and number that was asked for."""

import asyncio
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import orjson
import pytest

from sowline.errors import SowlineError
from sowline.language.expressions.order import parse_order
from sowline.language.filter import compile_filter
from sowline.model.bookmark_range import BookmarkRange
from sowline.model.key import sow_key
from sowline.serving.cooperative import TURN_RECORDS_MAX
from sowline.serving.result import QueryLimits
from sowline.wire.options import parse_options
from sowline_query_service.query.query import Query
from sowline_query_service.query.selection import Selection
from sowline_query_service.subscriptions.query_at_bookmark import BookmarkQuery
from sowline_query_service.subscriptions.replacement import HeldRecords, ReplacementQuery
from tests.unit.query_service.sessions import DOMAIN, Server


def query(server: Server, text: str = "", limits: QueryLimits = QueryLimits(), **given: Any) -> Query:
    """Return a query of this instant."""
    order = parse_order(given.pop("order_by", ""))
    asked = Query([server.topic], Selection(compile_filter(text), order=order, **given), limits)
    assert asked.begin_now()
    return asked


async def found(asked: Query) -> list[int]:
    """Return the ids that a query finds, in its order."""
    return [
        orjson.loads(record)["data"]["id"] async for _, records, _ in asked.records() for record in records
    ]


def filled(*bodies: dict[str, Any], partitions: int = 1) -> Server:
    """Return a server with these records, which are numbered from 0."""
    server = Server(partitions=partitions).loaded()
    for number, body in enumerate(bodies):
        server.put({"id": number} | body, partition=number % partitions)
    return server


async def test_what_changes_later_is_not_found() -> None:
    """The records and the bookmark are those of the instant at which the query was made."""
    server = filled({}, {}, partitions=2)
    asked = query(server)
    server.put({"id": 3})
    server.put(None, key=1, partition=1)
    assert asked.bookmark == "orders:0@0,1@0"
    assert sorted(await found(asked)) == [0, 1]


async def test_the_hash_is_that_of_the_keys_returned() -> None:
    """It is the XOR of the 8-byte BLAKE2b of each SOW key returned, whatever their order."""
    asked = query(filled(*({"n": n} for n in range(5))), "/n >= 2", top_n=2, order_by="/n DESC")
    assert await found(asked) == [4, 3]
    hashes = [blake2b(sow_key(DOMAIN, str(n)), digest_size=8).digest() for n in (3, 4)]
    assert asked.result.hash == int.from_bytes(hashes[0], "big") ^ int.from_bytes(hashes[1], "big")
    assert asked.result.counts == {
        "topic_matches": 5,
        "matches": 3,
        "records_returned": 2,
        "records_deleted": 0,
    }


async def test_a_chunk_is_so_many_records_at_most() -> None:
    """Others get a turn between chunks."""
    asked = query(filled(*({} for _ in range(2 * TURN_RECORDS_MAX + 1))))
    assert [len(records) async for _, records, _ in asked.records()] == [
        TURN_RECORDS_MAX,
        TURN_RECORDS_MAX,
        1,
    ]


async def test_a_body_comes_as_it_is_stored() -> None:
    """Bodies are spliced in, not written again."""
    server = filled({})
    key = sow_key(DOMAIN, "0")
    position = server.topic.rows.position(key)
    assert position is not None
    server.topic.rows.put(key, b'{ "id":0, "p": 1.50 }', 0, position, 0)
    ((_, (record,), _),) = [step async for step in query(server).records()]
    assert record.endswith(b'"updated_at":"orders:0@0","data":{ "id":0, "p": 1.50 }}')


async def test_a_result_has_a_largest_number_of_records() -> None:
    """One more than the limit is an error; the limit is none; top_n keeps within it."""
    server = filled({}, {}, {})
    assert len(await found(query(server, limits=QueryLimits(records_max=3)))) == 3
    assert len(await found(query(server, limits=QueryLimits(records_max=2), top_n=2))) == 2
    with pytest.raises(SowlineError) as error:
        await found(query(server, limits=QueryLimits(records_max=2)))
    assert error.value.reason == "result too large"


async def test_groups_are_limited_as_records_are() -> None:
    """Each group is one record of the result."""
    server = Server(limits=QueryLimits(records_max=2)).loaded()
    for number in range(3):
        server.put({"id": number, "a": number % 2})
    client = server.connect()
    for path, command in (("/a", "group_end"), ("/id", "ack")):
        client.ask("sow", options=f"grouping=[{path}],projection=[{path}]")
        last = (await client.read())[-1]
        assert (last["command"], last.get("reason")) == (
            command,
            None if command == "group_end" else "result too large",
        )


async def test_a_result_has_a_largest_size() -> None:
    """Bytes are counted as they go on the wire."""
    server = filled({}, {"pad": "x" * 1000})
    assert len(await found(query(server, limits=QueryLimits(bytes_max=1300)))) == 2
    with pytest.raises(SowlineError) as error:
        await found(query(server, limits=QueryLimits(bytes_max=1000)))
    assert error.value.reason == "result too large"


async def test_a_query_may_work_for_so_long() -> None:
    """What takes longer is ended, and says so."""
    with pytest.raises(SowlineError) as error:
        await found(query(filled({}), limits=QueryLimits(seconds_max=1e-9)))
    assert error.value.reason == "query too long"


PAGES: list[dict[str, int]] = [
    {},
    {"top_n": 0},
    {"top_n": 2},
    {"top_n": 2, "skip_n": 1},
    {"top_n": 9, "skip_n": 4},
    {"top_n": 9, "skip_n": 5},
]


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("order_by", ["", "/n", "/n DESC", "/g DESC, /n", "/n TEXT", "/no/such"])
async def test_order(order_by: str, page: dict[str, Any], partitions: int) -> None:
    """Sorted by the order's keys, ties by SOW key; `skip_n` are left out before `top_n` are returned."""
    bodies = [{"n": n, "g": number % 2} for number, n in enumerate(("b", 2, "a", None, 2))]
    order = parse_order(order_by)
    keys = [order.key({"id": n} | body, sow_key(DOMAIN, str(n))) for n, body in enumerate(bodies)]
    expected = sorted(range(5), key=keys.__getitem__)
    skip, end = page.get("skip_n", 0), page.get("skip_n", 0) + page.get("top_n", 5)
    got = await found(query(filled(*bodies, partitions=partitions), order_by=order_by, **page))
    if order_by or page:
        assert got == expected[skip:end]
    else:
        assert sorted(got) == sorted(expected)


async def test_sow_keys_restrict() -> None:
    """Records of these keys only, and of them those that match; unknown keys are simply absent."""
    server = filled({"a": 1}, {"a": 2}, {"a": 1})
    keys = (sow_key(DOMAIN, "0"), sow_key(DOMAIN, "1"), b"1", sow_key(DOMAIN, "0"))
    asked = query(server, "/a = 1", sow_keys=keys)
    assert await found(asked) == [0]
    assert (asked.result.topic_matches, asked.result.matches) == (2, 1)


async def test_a_select_list_leaves_out() -> None:
    """What is left keeps its exact text; the filter sees all of it."""
    server = filled({"a": {"b": 1, "c": 2}, "d": 1.5})
    asked = query(server, "/d = 1.5", options=parse_options("select=[-/,+/id,+/a/b]"))
    ((_, (record,), _),) = [step async for step in asked.records()]
    assert record.endswith(b'"data":{"id":0,"a":{"b":1}}}')


async def test_a_filter_may_ask_about_the_record() -> None:
    """Its size, its key, its time: of the record as it was at the query's instant."""
    server = filled({}, {"pad": "x" * 50})
    assert await found(query(server, "MESSAGE_SIZE() > 50")) == [1]
    assert await found(query(server, f"SOW_KEY() = '{sow_key(DOMAIN, '0').decode()}'")) == [0]
    assert await found(query(server, "LAST_READ() IS NULL AND BOOKMARK() IS NULL")) == []
    server.put({"id": 2})
    assert await found(query(server, "LAST_READ() IS NULL AND BOOKMARK() IS NULL")) == [2]
    assert await found(query(server, "LAST_UPDATED() = 1.001 AND TOPIC_NAME() = 'orders'")) == [1]


def _of_now(server: Server) -> Query:
    return Query([server.topic], Selection(), QueryLimits())


def _at_bookmark(server: Server) -> Query:
    bookmark = BookmarkRange(({server.topic.definition.log: server.topic.positions},))
    return BookmarkQuery(server.context, [server.topic], Selection(), bookmark)


def _replacing(server: Server) -> Query:
    positions = {server.topic.definition.log: server.topic.positions}
    held = HeldRecords([server.topic], Selection(), positions)
    return ReplacementQuery(server.context, held, [server.topic], Selection())


@pytest.mark.parametrize("make", [_of_now, _at_bookmark, _replacing])
async def test_queries_that_begin_together_take_turns(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[Server], Query]
) -> None:
    """Other tasks run between two of them: to capture all records of a topic takes its time."""
    loop, turns, began = asyncio.get_running_loop(), [0], dict[Query, int]()

    def count() -> None:
        turns[0] += 1
        if len(began) < 4:
            loop.call_soon(count)

    def noted(query: Query) -> bool:
        if query in made:
            began[query] = turns[0]
        return begin_now(query)

    begin_now = Query.begin_now
    monkeypatch.setattr(Query, "begin_now", noted)
    server = filled({}, {})
    made = [make(server) for _ in range(4)]
    count()
    await asyncio.gather(*(query.begin() for query in made))
    assert len(set(began.values())) == 4
