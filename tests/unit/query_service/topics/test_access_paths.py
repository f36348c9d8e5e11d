"""Which access path a query of a topic takes, and which orders columns can tell."""

import json
from typing import Any

import pytest

from sowline.config.topics import parse_topics
from sowline.language.expressions.order import parse_order
from sowline.language.filter import compile_filter
from sowline.model.key import sow_key
from sowline.model.path import parse_path
from sowline.model.position import Position
from sowline.serving.result import QueryLimits
from sowline_query_service.index.access_path import NO_ROWS
from sowline_query_service.query.query import Query
from sowline_query_service.query.selection import Selection
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_indexes import TURN_ROWS_MAX
from sowline_query_service.topics.topic_state import TopicState
from tests.unit.query_service.topics.indexed_topic import UNSORTED, A, Topic, filled


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
