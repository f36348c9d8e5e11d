"""The indexes of one topic: when they are made, how they are kept up to date, and how much memory they take."""

import asyncio
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from sowline.errors import SowlineError
from sowline.language.expressions.order import parse_order
from sowline.language.filter import compile_filter
from sowline.model.path import parse_path
from sowline_query_service.index.column import Column
from sowline_query_service.index.refusals import PATIENCE
from sowline_query_service.topics.topic_indexes import AT_ONCE, TURN_ROWS_MAX
from tests.unit.query_service.topics.indexed_topic import COLUMN, UNSORTED, A, Topic, filled, free
from tests.waiting import loop_turns

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
