"""Chains of topics from a log to the topic that is computed from it."""

import pytest

from sowline.config.reading_chains import chains_to
from sowline.config.topics import Topics

VIEWS = [
    {"name": "late", "from": "orders", "filter": "/late = 1"},
    {"name": "latest", "from": "late"},
    {
        "name": "joined",
        "from": "orders",
        "join": [
            {"topic": "late", "on": "/id = /id", "as": "late"},
            {"topic": "users", "on": "/u = /id", "as": "u"},
        ],
    },
]
TOPICS = Topics.model_validate(
    {"topics": [{"name": "orders", "key": "/id"}, {"name": "users", "key": "/id"}], "views": VIEWS}
)


@pytest.mark.parametrize(
    ("topic", "log", "chains"),
    [
        ("orders", "orders", [["orders"]]),
        ("latest", "orders", [["orders", "late", "latest"]]),
        ("joined", "orders", [["orders", "joined"], ["orders", "late", "joined"]]),
        ("joined", "users", [["users", "joined"]]),
        ("joined", "late.partials", [["late", "joined"]]),
        ("latest", "users", []),
    ],
)
def test_each_way_from_a_log_to_a_topic_is_a_chain(topic: str, log: str, chains: list[list[str]]) -> None:
    """A view that reads a log in two ways has two; a topic that does not read it has none."""
    named = {one.name: one for one in TOPICS.topics}
    assert [[one.name for one in chain] for chain in chains_to(named, named[topic], log)] == chains
