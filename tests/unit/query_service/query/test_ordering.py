"""Putting what was found in order: by columns' numbers or by bodies, of one topic or of several."""

import json
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.config.topics import parse_topics
from sowline.language.expressions.order import Order, parse_order
from sowline.model.key import sow_key
from sowline.model.position import Position
from sowline.serving.result import QueryLimits
from sowline_query_service.query.ordering import Found, in_order, sampled, within
from sowline_query_service.query.query import Query
from sowline_query_service.query.selection import Selection
from sowline_query_service.query.topic_slice import TopicSlice
from sowline_query_service.topics.state import ServedTopics

VALUES: list[Any] = [
    None,
    "",
    False,
    True,
    0,
    -0.0,
    1,
    1.5,
    -3,
    2**53,
    "a",
    "b",
    "10",
    "9",
    "\x00",
    "é",
    {},
    [],
]
HARD = [2**53 + 1, 2**60, [1, 2], ["a"]]


def parts_of(order: Order, *topics: list[Any]) -> list[TopicSlice]:
    """Return the parts of a query for all records, whose fields `/n` these are; topics share their SOW keys."""
    names = [f"t{number}" for number in range(len(topics))]
    definitions = ", ".join(f"{{name: {name}, key: /id, key_domain: d}}" for name in names)
    state = ServedTopics(parse_topics(f"topics: [{definitions}]"), 10)
    for name, values in zip(names, topics, strict=True):
        for number, value in enumerate(values):
            body = json.dumps({"id": number, "n": value, "g": number % 2}).encode()
            state.topics[name].rows.put(sow_key(b"d\0", str(number)), body, 0, Position(0, number), 0)
    query = Query(list(state.topics.values()), Selection(order=order), QueryLimits())
    assert query.begin_now()
    return query.topic_slices


def everything(topic_slices: list[TopicSlice]) -> Found:
    """All records of the parts."""
    return [(topic_slice, np.arange(len(topic_slice.captured))) for topic_slice in topic_slices]


async def ordered(
    topic_slices: list[TopicSlice], order: Order, first: int = 0, end: int | None = None
) -> list[tuple[str, bytes]]:
    """Return topics and SOW keys in the order."""
    return records_of(await in_order(everything(topic_slices), order, first, end))


def records_of(runs: Found) -> list[tuple[str, bytes]]:
    """Return topics and SOW keys of runs."""
    return [
        (topic_slice.name, topic_slice.captured.keys[at])
        for topic_slice, rows in runs
        for at in rows.tolist()
    ]


def expected(topic_slices: list[TopicSlice], order: Order) -> list[tuple[str, bytes]]:
    """Return the same by sorting all keys."""
    keys = [
        (order.key(json.loads(body), key), number, topic_slice.name, key)
        for number, topic_slice in enumerate(topic_slices)
        for key, body in zip(topic_slice.captured.keys, topic_slice.captured.bodies, strict=True)
    ]
    return [entry[2:] for entry in sorted(keys, key=lambda entry: entry[:2])]


ORDERS = ["", "/n", "/n DESC", "/n TEXT", "/n DESC TEXT", "/g DESC, /n", "/g, /n DESC", "/n, /g", "/no/such"]


@pytest.mark.parametrize("order_by", ORDERS)
@given(st.lists(st.sampled_from(VALUES), max_size=12), st.integers(0, 5), st.none() | st.integers(0, 14))
async def test_ranks_and_bodies_agree(order_by: str, values: list[Any], first: int, end: int | None) -> None:
    """What columns say of the order is what the values say, ties included."""
    order = parse_order(order_by)
    (topic_slice,) = topic_slices = parts_of(order, values)
    for _ in range(2):
        assert await ordered(topic_slices, order, first, end) == expected(topic_slices, order)[first:end]
        topic_slice.ranks = None


@pytest.mark.parametrize("order_by", ["/n", "/n DESC", "/g, /n", "/n TEXT"])
async def test_bodies_are_read_where_columns_can_not_tell(order_by: str) -> None:
    """Arrays count as their first element, and large integers are exact."""
    order = parse_order(order_by)
    topic_slices = parts_of(order, [*VALUES, *HARD])
    assert topic_slices[0].ranks is None
    assert await ordered(topic_slices, order) == expected(topic_slices, order)


async def test_ties_are_in_order_of_their_keys() -> None:
    """Of equal records the first so many are those with the lowest SOW keys."""
    order = parse_order("/g")
    topic_slices = parts_of(order, [None] * 40)
    assert topic_slices[0].ranks is not None
    for end in (1, 7, 20, 21, 40, 99):
        assert await ordered(topic_slices, order, 0, end) == expected(topic_slices, order)[:end]


@pytest.mark.parametrize("order_by", ORDERS)
@pytest.mark.parametrize(("first", "end"), [(0, None), (0, 3), (2, 9), (5, 5), (30, 40)])
async def test_several_topics_are_one_order(order_by: str, first: int, end: int | None) -> None:
    """As if all records were of one; where even the SOW keys are equal, in the order of the topics."""
    order = parse_order(order_by)
    topic_slices = parts_of(order, VALUES, [], HARD + VALUES[::-1])
    assert await ordered(topic_slices, order, first, end) == expected(topic_slices, order)[first:end]


async def test_runs_are_of_one_topic() -> None:
    """Neighbors of one topic come together."""
    order = parse_order("/n")
    runs = await in_order(everything(parts_of(order, [1, 2, 5], [3, 4])), order, 0, None)
    assert [(topic_slice.name, len(rows)) for topic_slice, rows in runs] == [
        ("t0", 2),
        ("t1", 2),
        ("t0", 1),
    ]


@pytest.mark.parametrize("order_by", ["", "/n", "/n TEXT"])
async def test_many_are_put_in_order_elsewhere(order_by: str) -> None:
    """The order is the same when a thread works it out."""
    order = parse_order(order_by)
    with (
        patch("sowline.serving.sorting.LARGE", 0),
        patch("sowline.serving.cooperative.TURN_RECORDS_MAX", 2),
    ):
        for topic_slices in (parts_of(order, VALUES), parts_of(order, VALUES, VALUES)):
            assert await ordered(topic_slices, order, 1, 9) == expected(topic_slices, order)[1:9]


async def test_nothing_is_in_order() -> None:
    """Of no records, and beyond the last one."""
    assert await ordered(parts_of(Order(), []), Order(), 0, 5) == []
    assert await ordered(parts_of(Order(), [1]), Order(), 1, 5) == []


@given(st.lists(st.integers(1, 2), max_size=25), st.integers(0, 30), st.integers(0, 30), st.integers(1, 9))
async def test_a_part_of_the_runs(values: list[int], first: int, end: int, step: int) -> None:
    """Runs of several topics are one list: a range of its records, and the last one of each step."""
    order = parse_order("/n")
    topic_slices = parts_of(order, values, values[::-1], [1, 2])
    runs, everyone = await in_order(everything(topic_slices), order, 0, None), expected(topic_slices, order)
    assert records_of(within(runs, first, end)) == everyone[first:end]
    assert records_of(sampled(runs, step)) == everyone[step - 1 :: step]
    assert all(len(rows) for _, rows in (*within(runs, first, end), *sampled(runs, step)))
