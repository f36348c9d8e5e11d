"""Which nodes answer a request: each partition is answered once, whatever the nodes hold."""

import asyncio
import json
from itertools import combinations
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.config.shard import Shard
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.model.position import Position
from sowline.wire.node_queries import sample_turn_seconds
from sowline_gateway.nodes.announcements import Announcements
from sowline_gateway.nodes.routing import (
    LAG_UNKNOWN,
    AnnouncedTopic,
    Announcement,
    Candidates,
    Share,
    holder,
)

TOPIC = parse_topics("topics: [{name: orders, key: /id, partitions: 6}]").topics[0]


def node(
    url: str, numbers: frozenset[int], *, is_loading: bool = False, topic: str = "orders"
) -> Announcement:
    """Return a node that holds some partitions of a topic."""
    positions = {number: Position(0, 5) for number in numbers}
    return Announcement(url, "", {topic: AnnouncedTopic(positions, is_loading)})


def by_url(found: Announcement) -> str:
    """Prefer the first URL."""
    return found.url


@pytest.mark.parametrize(
    ("partitions", "lag", "lag_seconds", "rank"),
    [
        (8, 0, 1.4, 0),
        (8, 0, 1.6, 2),
        (300, 0, 2.4, 0),
        (300, 0, 2.6, 3),
        (1600, 0, 9.0, 0),
        (1600, 0, 9.1, 9),
        (30_000, 0, 16.0, 0),
        (30_000, 0, 40.0, 40),
        (1600, 3, 8.0, 8),
        (1600, None, None, LAG_UNKNOWN),
    ],
)
def test_a_node_is_level_while_its_sample_is_not_older_than_its_turn(
    partitions: int, lag: int | None, lag_seconds: float | None, rank: float
) -> None:
    """Up to that age a sample is no reason to prefer another node. An older one may be of a node that has stalled."""
    orders = AnnouncedTopic({}, lag_seconds=lag_seconds, lag=lag)
    announced = Announcement("n", "", {"orders": orders}, sample_turn_seconds(partitions))
    assert announced.rank(["orders", "others"]) == rank


async def test_the_turn_of_a_node_follows_from_its_partitions() -> None:
    """Those of all its topics: it samples their logs together."""
    lags = [{"partition": number, "position": "4.0"} for number in range(150)]
    topics = [
        {"name": name, "loading": False, "lag_seconds": 0.5, "lag": 0, "lags": lags} for name in ("a", "b")
    ]
    answered = json.dumps({"shard": "0/1", "topics": topics}).encode()

    async def announced_by(url: str, seconds_max: float) -> bytes:
        return answered

    announcements = Announcements(["n"], cast("Any", SimpleNamespace(ask_announcement=announced_by)))
    following = asyncio.create_task(announcements.follow())
    await announcements.wait_for_news(10)
    following.cancel()
    (announced,) = announcements.nodes
    assert announced.turn_seconds == sample_turn_seconds(300)


held = st.lists(st.frozensets(st.integers(0, 3), max_size=4), max_size=7)


@given(held)
@example([frozenset({0, 1}), frozenset({1, 2, 3}), frozenset({2, 3})])
@example([frozenset({0, 1, 2}), frozenset({0}), frozenset({1}), frozenset({2, 3})])
def test_each_partition_is_answered_once(nodes: list[frozenset[int]]) -> None:
    """By nodes that do not overlap; if no such nodes exist, by none, and the missing partitions are named."""
    announced = [node(f"n{number}", numbers) for number, numbers in enumerate(nodes)]
    if not can_be_covered(nodes):
        missing = sorted({0, 1, 2, 3} - frozenset().union(*nodes))
        named = f"orders {', '.join(map(str, missing))}[.] " if missing else "overlap"
        with pytest.raises(SowlineError, match=named):
            Candidates(announced, {"orders": 4}, by_url).routes()
        return
    found = Candidates(announced, {"orders": 4}, by_url).routes()
    assert sorted(number for route in found for _, number in route.share) == [0, 1, 2, 3]
    assert all(route.share == route.node.share(["orders"]) for route in found)


@given(held, st.frozensets(st.integers(0, 3), min_size=1))
@example([frozenset({0, 1}), frozenset({1, 2})], frozenset({0, 2}))
def test_only_needed_partitions_are_answered(nodes: list[frozenset[int]], numbers: frozenset[int]) -> None:
    """Each once; nodes may overlap in others, which may also be missing."""
    announced = [node(f"n{number}", held) for number, held in enumerate(nodes)]
    needed = frozenset(("orders", number) for number in numbers)
    if not can_be_covered([held & numbers for held in nodes], numbers):
        with pytest.raises(SowlineError, match=r"these partitions now|overlap"):
            Candidates(announced, {"orders": 4}, by_url, needed=needed).routes()
        return
    found = Candidates(announced, {"orders": 4}, by_url, needed=needed).routes()
    assert sorted(one for route in found for one in route.share) == sorted(needed)
    assert all(route.share == route.node.share(["orders"]) & needed for route in found)


@given(held)
@example([frozenset({0, 1, 2}), frozenset({2, 3})])
def test_a_partial_answer_has_each_partition_once(nodes: list[frozenset[int]]) -> None:
    """And all that can be answered, if no partitions overlap; at least those of one node otherwise."""
    announced = [node(f"n{number}", numbers) for number, numbers in enumerate(nodes)]
    answered = [
        number
        for route in Candidates(announced, {"orders": 4}, by_url).some_routes()
        for _, number in route.share
    ]
    assert len(answered) == len(set(answered))
    there = frozenset().union(*nodes)
    assert set(answered) <= there
    if sum(map(len, set(nodes))) == len(there) or can_be_covered(nodes):
        assert set(answered) == there
    else:
        assert len(answered) >= max(map(len, nodes))


def can_be_covered(nodes: list[frozenset[int]], numbers: frozenset[int] = frozenset(range(4))) -> bool:
    """Return whether some of the nodes hold each of these partitions once, and no others."""
    return any(
        sum(map(len, some)) == len(numbers) and frozenset().union(*some) == numbers
        for count in range(1, 5)
        for some in combinations(nodes, count)
    )


def test_generations_overlap_while_the_number_of_shards_changes() -> None:
    """Nodes of 2 and of 3 shards run: each generation answers alone, whichever node is missing of the other."""
    generations = [
        [
            node(f"{number}/{count}", frozenset(Shard(number, count).partitions(TOPIC)))
            for number in range(count)
        ]
        for count in (2, 3)
    ]
    every = [one for generation in generations for one in generation]
    for gone in every:
        rest = [one for one in every if one is not gone]
        shares: list[Share] = [route.share for route in Candidates(rest, {"orders": 6}, by_url).routes()]
        assert sum(map(len, shares)) == 6


def test_a_topic_that_is_loading_is_not_answered() -> None:
    """Other topics of the same node are."""
    loading = Announcement(
        "a",
        "",
        {
            "orders": AnnouncedTopic({0: Position(0, 1)}, is_loading=True),
            "trades": AnnouncedTopic({0: Position(0, 1)}),
            "empty": AnnouncedTopic({}, is_loading=True),
        },
    )
    with pytest.raises(SowlineError, match="orders 0"):
        Candidates([loading], {"orders": 1}, by_url).routes()
    with pytest.raises(SowlineError, match="orders 0"):
        Candidates([loading], {"orders": 1, "trades": 1}, by_url).routes()
    assert [route.node.url for route in Candidates([loading], {"trades": 1}, by_url).routes()] == ["a"]
    with pytest.raises(SowlineError, match="orders 0"):
        holder([loading], "orders", 0, by_url)


def test_nodes_to_avoid_and_ranks() -> None:
    """Of equal nodes the one with the lowest rank answers, unless it has failed."""
    nodes = [node("b", frozenset({0})), node("a", frozenset({0}))]
    assert Candidates(nodes, {"orders": 1}, by_url).routes()[0].node.url == "a"
    assert Candidates(nodes, {"orders": 1}, by_url, {"a"}).routes()[0].node.url == "b"
    assert holder(nodes, "orders", 0, by_url, {"a"}).url == "b"
    with pytest.raises(SowlineError):
        Candidates(nodes, {"orders": 1}, by_url, {"a", "b"}).routes()


def test_what_a_node_has_reached() -> None:
    """Only its own partitions count."""
    one = node("a", frozenset({0, 2}))
    assert one.has_reached({"orders": {0: Position(0, 5), 1: Position(9, 9)}, "other": {0: Position(9, 9)}})
    assert not one.has_reached({"orders": {2: Position(0, 5, 1)}})


def test_many_shards_of_two_generations() -> None:
    """With a shard missing in each generation, the search ends at once, and the missing partition is named."""
    nodes = [
        node(f"{number}/{count}", frozenset(range(number, 256, count)))
        for count in (32, 64, 48)
        for number in range(count)
    ]
    one_short = [one for one in nodes if one.url not in ("31/32", "63/64")]
    for some in (nodes, one_short):
        found = Candidates(some, {"orders": 256}, by_url).routes()
        assert sorted(number for route in found for _, number in route.share) == list(range(256))
    rest = [one for one in one_short if one.url not in ("15/48", "31/48", "47/48")]
    with pytest.raises(SowlineError, match="orders 63, 127, 191, 255"):
        Candidates(rest, {"orders": 256}, by_url).routes()
