"""What a view reflects of a topic that it reads: what all of its partitions have, from all owners of its source."""

import pytest

from sowline.config.reading_chains import chains_to
from sowline.config.topics import parse_topics
from sowline.model.position import Position
from sowline_query_service.topics.reflected import reflected, reflects
from sowline_query_service.topics.state import ServedTopics

TOPICS = parse_topics("""
topics:
  - {name: orders, key: /id, partitions: 2}
  - {name: customers, key: /id, partitions: 2}
views:
  - {name: tiers, from: customers, grouping: [/tier], projection: [COUNT(1) AS /n]}
  - name: joined
    from: orders
    join:
      - {topic: customers, on: /customer = /id, as: c}
      - {topic: tiers, on: /c/tier = /tier, as: t}
  - {name: parents, from: orders, join: [{topic: orders, on: /parent = /id, as: parent}]}
  - {name: above, from: joined}
""")


def found(taken: list[dict[int, str]], topic: str, view: str = "joined") -> dict[int, int]:
    """Return the offsets up to which a view reflects a topic, if its partitions have these bookmarks by owner."""
    state = ServedTopics(TOPICS, ring_changes_max=1).topics[view]
    for partition, bookmarks in zip(state.partitions.values(), taken, strict=True):
        partition.taken = bookmarks
    positions = reflected(state, TOPICS.named(topic), TOPICS.named("orders"))
    return {number: position.offset for number, position in positions.items()}


def test_the_source_is_reflected_by_the_owner_of_its_partition() -> None:
    """In the partition of the view that is furthest behind."""
    ahead, behind = {0: "orders:0@9", 1: "orders:1@8"}, {0: "orders:0@7", 1: "orders:1@8"}
    assert found([ahead, behind], "orders") == {0: 7, 1: 8}
    assert found([ahead, {1: "orders:1@8"}], "orders") == {1: 8}


def test_a_joined_topic_is_reflected_by_all_owners() -> None:
    """One that has reported nothing yet may be anywhere."""
    both = {0: "orders:0@9;customers:0@3,1@5", 1: "customers:0@4,1@1"}
    assert found([both, both], "customers") == {0: 3, 1: 1}
    assert found([both, {0: "customers:0@3,1@5"}], "customers") == {}
    assert found([both, both], "tiers") == {}


def test_a_topic_joined_to_itself_is_reflected_by_all_owners() -> None:
    """They hold all of it."""
    both = {0: "orders:0@3,1@5", 1: "orders:0@4,1@1"}
    assert found([both, both], "orders", "parents") == {0: 3, 1: 1}


def test_a_partition_that_is_not_known_is_not_reflected() -> None:
    """A read that demands it waits."""
    state = ServedTopics(TOPICS, ring_changes_max=1).topics["joined"]
    for partition in state.partitions.values():
        partition.taken = {0: "orders:0@9"}
    orders = TOPICS.named("orders")
    assert reflects(state, orders, orders, {0: Position(0, 9)})
    assert not reflects(state, orders, orders, {0: Position(0, 10)})
    assert not reflects(state, orders, orders, {1: Position(0, 0)})


@pytest.mark.parametrize(
    ("topic", "log", "chains"),
    [
        ("joined", "orders", [["orders", "joined"]]),
        ("joined", "customers", [["customers", "joined"], ["customers", "tiers", "joined"]]),
        ("above", "orders", [["orders", "joined", "above"]]),
        ("parents", "orders", [["orders", "parents"]]),
        ("tiers", "orders", []),
    ],
)
def test_a_read_waits_for_each_way_from_a_topic_to_a_view(
    topic: str, log: str, chains: list[list[str]]
) -> None:
    """A view may read a topic directly, and a view of it."""
    definitions = {one.name: one for one in TOPICS.topics}
    made = chains_to(definitions, definitions[topic], log)
    assert [[one.name for one in chain] for chain in made] == chains
