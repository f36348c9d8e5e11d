"""One node's part of an answer."""

from typing import cast

from sowline.model.position import Position
from sowline_gateway.nodes.routing import Route
from sowline_gateway.query.part import Part


def test_a_topic_that_has_left_is_not_answered_for() -> None:
    """The answer then lacks a part, and the next attempt gives the reason."""
    part = Part(cast("Route", None), {"log": {0: Position(1, 2)}, "log.gone": {0: Position(1, 1)}})
    assert part.answers_for({"log": "orders"}) == {("orders", 0)}
