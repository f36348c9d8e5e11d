"""The indexes of one topic: when they are made, how they are kept up to date, and which access path a query takes."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.language.expressions.order import Order, parse_order
from sowline.language.filter import compile_filter
from sowline.model.key import sow_key
from sowline.model.path import parse_path
from sowline.model.position import Position
from sowline.serving.result import QueryLimits
from sowline_query_service.index.access_path import NO_ROWS
from sowline_query_service.index.budget import Memory
from sowline_query_service.index.column import Column
from sowline_query_service.index.refusals import PATIENCE
from sowline_query_service.index.rows import Rows
from sowline_query_service.query.query import Query
from sowline_query_service.query.selection import Selection
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_indexes import AT_ONCE, TURN_ROWS_MAX, Indexes
from sowline_query_service.topics.topic_state import TopicState
from tests.waiting import loop_turns

COLUMN = 12_000
"""Bytes of one memo index of few records, and not of two."""

UNSORTED = Order()
A = compile_filter("/a = 1")


class Topic:
    """Rows, their indexes, and what records there are."""

    def __init__(self, more: str = "", bytes_max: int = 1 << 30) -> None:
        definition = parse_topics(f"topics: [{{name: t, key: /id{more}}}]").topics[0]
        self.rows = Rows()
        self.memory = Memory(bytes_max)
        self.indexes = Indexes(definition, self.rows, self.memory)
        self.bodies: dict[int, dict[str, Any]] = {}

    def put(self, number: int, **fields: Any) -> None:
        """Put a record."""
        self.bodies[number] = {"id": number} | fields
        body = json.dumps(self.bodies[number]).encode()
        self.rows.put(sow_key(b"t\0", str(number)), body, 0, Position(0, 0), 0)

    def remove(self, number: int) -> None:
        """End a record."""
        del self.bodies[number]
        self.rows.remove(sow_key(b"t\0", str(number)))

    def found(self, text: str) -> list[int]:
        """Follow the access path and return the ids of the records that match."""
        access_path = self.indexes.access_path(compile_filter(text), ())
        rows = access_path.decided.tolist()
        for some, filter in access_path.checks:
            rows += [row for row in some.tolist() if filter.matches(self._read(row))]
        assert len(rows) == len(set(rows))
        return sorted(self._read(row)["id"] for row in rows)

    def expected(self, text: str) -> list[int]:
        """Return the same by a look at every record."""
        return sorted(n for n, body in self.bodies.items() if compile_filter(text).matches(body))

    def _read(self, row: int) -> dict[str, Any]:
        body = self.rows.bodies[row]
        assert body is not None
        document: dict[str, Any] = json.loads(body)
        return document


def free(seconds: float) -> None:
    """Work that nobody counts."""


def filled(count: int, more: str = "", bytes_max: int = 1 << 30) -> Topic:
    """Return a topic of so many records."""
    topic = Topic(more, bytes_max)
    for number in range(count):
        topic.put(number, a=number % 3, b=str(number % 5))
    return topic


# making


def asked(topic: Topic, text: str) -> None:
    """Query as clients do: make what is missing, take the access path, and drop what most likely nobody meant."""
    filter = compile_filter(text)
    assert topic.indexes.at_hand(filter, UNSORTED)
    topic.indexes.access_path(filter, ())
    topic.indexes.drop_mistyped(filter, UNSORTED)


def test_a_mistyped_field_leaves_no_index() -> None:
    """An index without a value ends with its first query; a second query keeps it, a declared one stays anyway."""
    topic = filled(10, ", indexes: [/d]")
    asyncio.run(topic.indexes.make_declared())
    for text in ("/aa = 1", "/a = 1", "/d = 1"):
        asked(topic, text)
    assert topic.indexes.paths == {parse_path("/a"), parse_path("/d")}
    asked(topic, "/aa = 1")
    assert topic.indexes.paths == {parse_path("/a"), parse_path("/aa"), parse_path("/d")}
    topic.memory.make_room()


def test_a_small_topic_is_indexed_at_once() -> None:
    """The query need not wait."""
    topic = filled(TURN_ROWS_MAX)
    assert topic.indexes.at_hand(A, UNSORTED)
    assert topic.indexes.access_path(A, ()).name == "memo index"
    assert topic.found("/a = 1") == topic.expected("/a = 1")


def test_statistics_of_indexes() -> None:
    """The kind of each, its fields, its memory, and how many queries it has led or sorted."""
    topic = filled(10, ", hash_indexes: [[/b]]")
    assert topic.indexes.statistics() == ()
    assert topic.indexes.at_hand(A, parse_order("/b"))
    topic.indexes.access_path(A, ())
    topic.indexes.access_path(A, ())
    topic.indexes.sorting(parse_order("/b"), 10)
    statistics = {one.fields: one for one in topic.indexes.statistics()}
    assert {fields: (one.kind, one.uses) for fields, one in statistics.items()} == {
        "/a": ("memo index", 2),
        "/b": ("memo index", 1),
    }
    assert all(one.bytes > 0 for one in statistics.values())


def test_sizes_are_those_of_the_records_that_are_there() -> None:
    """Indexes that were made while the topic was empty do not all have the size of none."""
    topic = Topic()
    asked(topic, "/a = 'x' OR /b = 'x'")
    asked(topic, "/a = 'x' OR /b = 'x'")
    for number in range(2 * TURN_ROWS_MAX):
        topic.put(number, a="x", b=str(number))
    topic.indexes.keep_up(0)
    bytes_of = {one.fields: one.bytes for one in topic.indexes.statistics()}
    assert bytes_of["/a"] > 2 * TURN_ROWS_MAX
    assert bytes_of["/b"] > 10 * bytes_of["/a"]


def test_an_empty_topic_is_indexed_at_once() -> None:
    """And what comes later is found."""
    topic = Topic()
    assert topic.indexes.at_hand(A, parse_order("/b"))
    assert topic.found("/a = 1") == []
    topic.put(7, a=1)
    assert topic.found("/a = 1") == [7]


async def test_a_large_topic_is_indexed_in_steps() -> None:
    """A query waits for it; others get turns."""
    topic = filled(3 * TURN_ROWS_MAX + 1)
    assert not topic.indexes.at_hand(A, UNSORTED)
    work: list[float] = []
    await topic.indexes.build(A, UNSORTED, work.append)
    assert len(work) >= 4
    assert topic.indexes.at_hand(A, UNSORTED)
    assert topic.found("/a = 1") == topic.expected("/a = 1")


async def test_nothing_is_made_for_a_filter_without_fields() -> None:
    """Nor for one whose conditions no column can decide."""
    topic = filled(TURN_ROWS_MAX + 1)
    for text in ("", "LENGTH(/b) = 1", "/a + 1 = 2", "1 = 1"):
        assert topic.indexes.at_hand(compile_filter(text), UNSORTED)
        assert topic.found(text) == topic.expected(text)
    assert topic.memory.nbytes == 0


def changes(topic: Topic) -> Iterator[None]:
    """Change what has been indexed, what is being indexed, and what is yet to be; let rows be used again."""
    for number in range(12):
        yield
        topic.put(number * 3, a=1, b="0", s="rare")
        topic.remove(number * 3 + 1)
        topic.put(90_000 + number, a=1)
        topic.put(2500 + number, a=1, b="0")
    for number in range(90_100, 91_500):
        topic.put(number, a=1, b="0")
        topic.remove(number - 88_000)
    yield


async def test_rows_may_change_while_indexes_are_made() -> None:
    """Rows that were taken, that are next, and that are new are found as they are in the end."""
    topic = filled(3500, ", indexes: [/b], hash_indexes: [[/a], [/s]]")
    building = [
        asyncio.ensure_future(topic.indexes.make_declared()),
        asyncio.ensure_future(topic.indexes.build(A, parse_order("/b"), free)),
    ]
    for _ in changes(topic):
        assert topic.found("/a = 1") == topic.expected("/a = 1")
        topic.indexes.keep_up()
        await loop_turns()
    await asyncio.gather(*building)
    for text in ("/s = 'rare'", "/a = 1", "/a = '1'", "/b = '0'", "/b = '0' AND /a > 1", "/b IS NULL"):
        assert topic.found(text) == topic.expected(text)


async def test_one_index_is_made_once() -> None:
    """A query that needs it waits for the one that makes it."""
    topic = filled(3000)
    work: list[float] = []
    with patch("sowline_query_service.topics.topic_indexes.Column", wraps=Column) as made:
        await asyncio.gather(*(topic.indexes.build(A, UNSORTED, work.append) for _ in range(3)))
    assert made.call_count == 1


async def test_a_cancelled_build_leaves_nothing_behind() -> None:
    """The next one begins again; what changes in between is not lost."""
    topic = filled(3000)
    first = asyncio.ensure_future(topic.indexes.build(A, UNSORTED, free))
    second = asyncio.ensure_future(topic.indexes.build(A, UNSORTED, free))
    await loop_turns(2)
    first.cancel()
    topic.put(5, a=1)
    await second
    assert first.cancelled()
    topic.put(6, a=1)
    assert topic.indexes.access_path(A, ()).name == "memo index"
    assert topic.found("/a = 1") == topic.expected("/a = 1")


async def test_a_build_that_takes_too_long_ends() -> None:
    """With the query that asked for it; and can be made by another one."""
    topic = filled(3000)

    def too_long(seconds: float) -> None:
        raise SowlineError("query too long", "expected less")

    with pytest.raises(SowlineError):
        await topic.indexes.build(A, UNSORTED, too_long)
    assert not topic.indexes.at_hand(A, UNSORTED)
    await topic.indexes.build(A, UNSORTED, free)
    assert topic.found("/a = 1") == topic.expected("/a = 1")


def many_texts(count: int) -> Topic:
    """Return a topic of so many records, each with a string of its own."""
    topic = Topic()
    for number in range(count):
        topic.put(number, a=f"text {number}")
    return topic


async def test_many_strings_are_judged_in_steps() -> None:
    """No query that begins has to judge all of them."""
    topic, like = many_texts(25_000), compile_filter("/a LIKE '7$'")
    await topic.indexes.build(compile_filter("/a > 'x'"), UNSORTED, free)
    assert not topic.indexes.at_hand(like, UNSORTED)
    work: list[float] = []
    await topic.indexes.build(like, UNSORTED, work.append)
    assert len(work) >= 3
    assert topic.indexes.at_hand(like, UNSORTED)
    assert topic.found("/a LIKE '7$'") == topic.expected("/a LIKE '7$'")


async def test_what_was_judged_may_be_forgotten_again() -> None:
    """A query still begins after its build, though columns remember less than it asks for."""
    topic, both = many_texts(25_000), compile_filter("/a LIKE '7$' AND /a LIKE '1'")
    with patch("sowline_query_service.index.verdicts.BYTES_MAX", 30_000):
        await topic.indexes.build(both, UNSORTED, free)
        assert topic.indexes.at_hand(both, UNSORTED)
        assert topic.found(both.text) == topic.expected(both.text)


# keeping up


async def test_changes_are_bounded() -> None:
    """However many records change at once: so many at most are left for the next query."""
    topic = filled(3 * AT_ONCE)
    await topic.indexes.build(A, UNSORTED, free)
    for _ in range(2):
        for number in range(3 * AT_ONCE):
            topic.put(number, a=1)
        topic.indexes.keep_up()
        assert len(topic.rows.changed or ()) <= AT_ONCE
    assert topic.indexes.at_hand(A, UNSORTED)
    assert topic.found("/a = 1") == topic.expected("/a = 1")


async def test_a_query_waits_for_many_changes() -> None:
    """They are taken in by steps."""
    topic = filled(2 * AT_ONCE)
    await topic.indexes.build(A, UNSORTED, free)
    for number in range(2 * AT_ONCE):
        topic.put(number, a=2)
    assert not topic.indexes.at_hand(A, UNSORTED)
    await topic.indexes.build(A, UNSORTED, free)
    assert topic.indexes.at_hand(A, UNSORTED)
    assert topic.found("/a = 1") == []


def test_without_indexes_no_changes_are_noted() -> None:
    """Nobody would ever take them in."""
    topic = filled(10)
    assert topic.found("LENGTH(/b) = 1") == topic.expected("LENGTH(/b) = 1")
    assert topic.rows.changed is None


# memory


def test_without_memory_every_record_is_read() -> None:
    """And the access path says why."""
    topic = filled(20, bytes_max=0)
    assert topic.indexes.at_hand(A, UNSORTED)
    access_path = topic.indexes.access_path(A, ())
    assert (access_path.name, access_path.note) == ("scan", "index_bytes_max leaves no room for /a")
    assert topic.found("/a = 1") == topic.expected("/a = 1")
    assert topic.memory.nbytes == 0


async def test_two_indexes_and_room_for_one() -> None:
    """A query that would have both is answered with one, again and again, and does not wait for ever."""
    both = compile_filter("/a = 1 AND /b = '2'")
    topic = filled(TURN_ROWS_MAX + 1, bytes_max=COLUMN)
    for text in ("/a = 1", both.text, both.text, "/b = '2'", both.text):
        filter = compile_filter(text)
        await topic.indexes.build(filter, UNSORTED, free)
        assert topic.indexes.at_hand(filter, UNSORTED)
        access_path = topic.indexes.access_path(filter, ())
        assert access_path.name == "memo index"
        assert bool(access_path.note) == (filter == both)
        assert topic.found(text) == topic.expected(text)
    assert 0 < topic.memory.nbytes <= COLUMN


async def test_what_there_is_no_room_for_is_tried_again_later() -> None:
    """There may be by then."""
    topic = filled(TURN_ROWS_MAX + 1, bytes_max=0)
    await topic.indexes.build(A, UNSORTED, free)
    for _ in range(PATIENCE):
        assert topic.indexes.at_hand(A, UNSORTED)
        topic.found("/a = 1")
    assert not topic.indexes.at_hand(A, UNSORTED)


async def test_growth_is_kept_within_the_limit() -> None:
    """Records that come after an index was made count, too."""
    topic = filled(10, bytes_max=200_000)
    assert topic.indexes.at_hand(A, UNSORTED)
    for number in range(20_000):
        topic.put(number, a=f"text {number}")
    topic.indexes.keep_up()
    assert topic.memory.nbytes <= 200_000
    await topic.indexes.build(A, UNSORTED, free)
    assert topic.indexes.at_hand(A, UNSORTED)
    assert topic.found("/a = 1") == []


# access paths


async def explained(
    more: str, count: int, text: str, bytes_max: int = 1 << 30, **given: Any
) -> dict[str, Any]:
    """Explain a query of a topic of so many records; its declared indexes are there."""
    topics = parse_topics(f"topics: [{{name: t, key: /id{more}}}]")
    state = ServedTopics(topics, 10, bytes_max)
    topic: TopicState = state.topics["t"]
    for number in range(count):
        body = json.dumps({"id": number, "a": number % 3, "b": str(number % 5), "c": [number % 2, 7]})
        topic.rows.put(sow_key(b"t\0", str(number)), body.encode(), 0, Position(0, number), 0)
    await topic.indexes.make_declared()
    asked = Query([topic], Selection(compile_filter(text), **given), QueryLimits())
    (access_path,) = await asked.explain()
    return access_path


COUNTS = {"topic": "t", "records": 30}
EXPLAINED: list[tuple[str, str, dict[str, Any]]] = [
    ("", "", {"access_path": "scan", "candidates": 30, "read": 0, "matches": 30}),
    ("", "/a + 0 = 1", {"access_path": "scan", "candidates": 30, "read": 30, "matches": 10}),
    (
        "",
        "/a = 1",
        {
            "access_path": "memo index",
            "index": "/a",
            "indexed": "/a = 1",
            "candidates": 10,
            "read": 0,
            "matches": 10,
        },
    ),
    (
        "",
        "/b > '3' AND LENGTH(/b) = 1 AND /a = 1",
        {
            "access_path": "memo index",
            "index": "/a,/b",
            "indexed": "/b > '3' AND /a = 1",
            "candidates": 2,
            "read": 2,
            "matches": 2,
        },
    ),
    (
        "",
        "/c = 1",
        {
            "access_path": "memo index",
            "index": "/c",
            "indexed": "/c = 1",
            "candidates": 30,
            "read": 30,
            "matches": 15,
        },
    ),
    ("", "/id = '7'", {"access_path": "key", "index": "/id", "candidates": 1, "read": 1, "matches": 1}),
    (
        "",
        "/id IN ('7', 'x')",
        {"access_path": "key", "index": "/id", "candidates": 1, "read": 1, "matches": 1},
    ),
    (
        "",
        "/id = 7",
        {
            "access_path": "memo index",
            "index": "/id",
            "indexed": "/id = 7",
            "candidates": 1,
            "read": 0,
            "matches": 1,
        },
    ),
    (
        ", hash_indexes: [[/b], [/b, /a]]",
        "/b = '3' AND /a = '1.0'",
        {"access_path": "hash index", "index": "/b,/a", "candidates": 2, "read": 2, "matches": 2},
    ),
    (
        ", hash_indexes: [[/b], [/b, /a]]",
        "/b = '3' AND /a = 1",
        {"access_path": "hash index", "index": "/b", "candidates": 6, "read": 6, "matches": 2},
    ),
]


@pytest.mark.parametrize(("more", "text", "expected"), EXPLAINED)
async def test_access_paths(more: str, text: str, expected: dict[str, Any]) -> None:
    """Which one is taken, and how many records it leaves to be read."""
    assert await explained(more, 30, text) == COUNTS | expected


async def test_sow_keys_are_an_access_path() -> None:
    """Only those records count."""
    keys = (sow_key(b"t\0", "1"), sow_key(b"t\0", "2"), b"none")
    assert await explained("", 30, "/a = 1", sow_keys=keys) == {
        "topic": "t",
        "access_path": "sow keys",
        "records": 2,
        "candidates": 2,
        "read": 2,
        "matches": 1,
    }


async def test_explain_says_what_there_was_no_room_for() -> None:
    """So that the limit can be raised."""
    access_path = await explained("", 30, "/a = 1 AND /b = '1'", bytes_max=0)
    assert (access_path["access_path"], access_path["note"]) == (
        "scan",
        "index_bytes_max leaves no room for /a, /b",
    )


async def test_a_hash_index_that_leaves_many_is_not_taken() -> None:
    """Columns are quicker than the verification of so many records."""
    access_path = await explained(", hash_indexes: [[/b]]", 2 * TURN_ROWS_MAX, "/b = '3'")
    assert (access_path["access_path"], access_path["read"], access_path["matches"]) == ("memo index", 0, 400)


async def test_lookups_need_no_memo_index() -> None:
    """Neither by key, nor by a hash index, nor with an order of what is found."""
    topic = filled(3000, ", hash_indexes: [[/n]]")
    topic.put(5000, n="x")
    await topic.indexes.make_declared()
    for text in ("/id = '7'", "/id IN ('7', 'x') AND /a = 1", "/n = 'x'"):
        assert topic.indexes.at_hand(compile_filter(text), parse_order("/a"))
        assert topic.found(text) == topic.expected(text)


def test_a_filter_finds_what_its_like_did_not() -> None:
    """Conditions that differ in a constant's type only are not taken for each other."""
    topic = Topic()
    topic.put(1, a=1, b="x1")
    topic.put(2, a=1, b="xtrue")
    for constant, expected in (("1", [1]), ("TRUE", [2]), ("1.0", [])):
        assert topic.indexes.at_hand(A, UNSORTED)
        assert topic.found(f"/a = 1 AND CONCAT('x', {constant}) = /b") == expected


# orders


def test_an_order_is_of_the_records_as_they_are() -> None:
    """Also on access paths that ask no column."""
    topic, order = filled(10), parse_order("/a DESC")
    assert topic.indexes.at_hand(A, order)
    topic.put(3, a=50)
    sorting = topic.indexes.sorting(order, 10)
    assert sorting is not None
    assert sorting.of(topic.rows.all())[0].argmin() == 3


def test_few_records_are_not_ranked_among_many() -> None:
    """Their bodies are read sooner."""
    topic, order = filled(1000), parse_order("/a")
    assert topic.indexes.at_hand(A, order)
    assert topic.indexes.sorting(order, 9) is None
    assert topic.indexes.sorting(order, 10) is not None


def test_without_an_order_all_are_equal() -> None:
    """Columns can always tell."""
    sorting = filled(3).indexes.sorting(UNSORTED, 3)
    assert sorting is not None
    assert sorting.of(NO_ROWS) == []


def test_columns_can_not_tell_texts_of_numbers() -> None:
    """With TEXT, numbers have to be written first."""
    topic, order = filled(3), parse_order("/a TEXT")
    assert topic.indexes.at_hand(A, order)
    assert topic.indexes.sorting(order, 3) is None


@pytest.mark.parametrize("name", ["q\"'", "back\\slash", "é ä", "type", "__class__", "\x00", "😀", "a\tb"])
def test_fields_may_be_called_anything(name: str) -> None:
    """Their columns hold what their records do."""
    topic = Topic()
    topic.put(1, **{name: "x"})
    topic.put(2, **{name: "y"})
    text = f"[/{name}] = 'x'"
    assert str(parse_path(f"[/{name}]")) in compile_filter(text).text
    assert topic.indexes.at_hand(compile_filter(text), UNSORTED)
    assert topic.found(text) == [1]
