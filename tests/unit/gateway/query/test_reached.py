"""The floor of an answer: with the positions of the views between its topic and what it is computed from."""

import asyncio
from collections.abc import Mapping

import pytest

from sowline.config.topics import Topics
from sowline.model.bookmark import Positions, PositionsByLog
from sowline.model.position import Position
from sowline_gateway.query.reached import views_between, with_views_between

DEFINED = Topics.model_validate(
    {
        "topics": [{"name": "orders", "key": "/id"}, {"name": "customers", "key": "/id"}],
        "views": [
            {"name": "known", "from": "orders", "filter": "/id > 0"},
            {"name": "gold", "from": "known", "filter": "/id > 1"},
            {"name": "large", "from": "gold", "filter": "/id > 2"},
            {
                "name": "both",
                "from": "gold",
                "join": [{"topic": "orders", "on": "/id = /id", "as": "o"}],
            },
        ],
    }
)
TOPICS = {topic.name: topic for topic in DEFINED.topics}


@pytest.mark.parametrize(
    ("names", "of", "between"),
    [
        (["orders"], "orders", []),
        (["known"], "orders", []),
        (["gold"], "orders", ["known"]),
        (["gold"], "known", []),
        (["large"], "orders", ["gold"]),
        (["both"], "orders", ["gold"]),
        (["orders", "gold", "large"], "orders", ["known", "gold"]),
        (["gold"], "customers", []),
    ],
)
def test_views_between(names: list[str], of: str, between: list[str]) -> None:
    """Those that the topics read, unless they are the topic of the log itself."""
    assert views_between(TOPICS, names, TOPICS[of].log) == between


def test_a_floor_keeps_its_positions_and_gets_those_of_views_between() -> None:
    """Each view is asked for its positions once it has reached the log's; the newer ones count."""
    orders, known = TOPICS["orders"].log, TOPICS["known"].log
    asked = []

    async def positions_of(view: str, reached: Mapping[str, Positions]) -> PositionsByLog:
        asked.append((view, reached))
        return {TOPICS[view].log: {0: Position(0, 7), 1: Position(0, 8)}}

    floor = {orders: {1: Position(0, 5)}, known: {0: Position(0, 9)}}
    found = asyncio.run(with_views_between(TOPICS, ["gold"], floor, positions_of))
    assert asked == [("known", {orders: {1: Position(0, 5)}})]
    assert found == {
        orders: {1: Position(0, 5)},
        known: {0: Position(0, 9), 1: Position(0, 8)},
    }
    assert floor[known] == {0: Position(0, 9)}
