"""Small mistakes in the gateway, as somebody might make them: each is found by a seed with gateways."""

from itertools import islice
from typing import Any
from unittest.mock import patch

from fanout.engine.groups.aggregates import AGGREGATES, Aggregate
from fanout.engine.groups.engine import Groups, GroupStates
from fanout.engine.groups.sums import Sums
from gateway.nodes.routing import Share, routes
from gateway.query.part import Part
from gateway.query.seen import SeenPositions
from gateway.query.sharded_query import forwarded
from gateway.subscriptions.view_subscription import ViewOverNodes
from sowline.model.path import Scalar
from tests.simulation.mistake import Mistake, mistakes_in

_open = ViewOverNodes._open
_opened = ViewOverNodes._opened


def _shard_left_out() -> list[Any]:
    def some(*given: Any) -> Any:
        found = routes(*given)
        return found[:-1] if len(found) > 1 else found

    return [patch("gateway.nodes.node_set.routes", some)]


def _other_shard_not_seen() -> list[Any]:
    def announced(self: Part, logs: Any) -> Share:
        return self.route.share

    return [patch.object(Part, "answers_for", announced)]


def _groups_merged_from_the_first_ones() -> list[Any]:
    return [patch.object(GroupStates, "records", lambda self: islice(Groups.records(self), 1))]


class _MeanOfMeans:
    """The state of an average that forgets how many values each part has."""

    def __init__(self) -> None:
        self._sums = Sums()
        self._means: list[float] = []

    def add(self, value: Scalar) -> None:
        self._sums.add(value)

    def remove(self, value: Scalar) -> None:
        self._sums.remove(value)

    def exported(self) -> float | None:
        return self._sums.average()

    def merge(self, exported: float | None) -> None:
        if exported is not None:
            self._means.append(exported)

    def average(self) -> float | None:
        return sum(self._means) / len(self._means) if self._means else self._sums.average()


def _average_of_averages() -> list[Any]:
    average = Aggregate(_MeanOfMeans, _MeanOfMeans.average)
    return [patch("fanout.engine.groups.aggregates.AGGREGATES", {**AGGREGATES, "AVG": average})]


def _bookmark_laid_over_that_of_another_shard() -> list[Any]:
    return [patch("gateway.query.sharded_query.lay_over", lambda one, other: {**one, **other})]


def _view_moves_to_the_bookmark_of_one_shard() -> list[Any]:
    return [patch("gateway.subscriptions.view_subscription.newest", lambda one, other: {**one, **other})]


def _floor_ignored() -> list[Any]:
    def without(request: Any, command: str, floor: str = "", **fields: Any) -> dict[str, Any]:
        return forwarded(request, command, **fields)

    return [
        patch("gateway.query.sharded_query.forwarded", without),
        patch.object(SeenPositions, "is_ahead_of", lambda self, positions: False),
    ]


def _view_comes_back_before_its_bookmark() -> list[Any]:
    async def opened(self: ViewOverNodes, at_least: str) -> Any:
        sent = self._sent
        self._sent = sent if self._positions else {}
        try:
            return await _opened(self, at_least)
        finally:
            self._sent = sent

    return [patch.object(ViewOverNodes, "_opened", opened)]


def _parts_told_apart_by_their_urls() -> list[Any]:
    return [patch.object(Part, "source", property(lambda self: self.url))]


def _step_lost_at_failover() -> list[Any]:
    async def open_(self: ViewOverNodes, at_least: str = "") -> None:
        await _open(self, at_least)
        if self._live.is_set():
            self._held = self._opened_view.shown()

    return [patch.object(ViewOverNodes, "_open", open_)]


def _step_twice_at_failover() -> list[Any]:
    async def open_(self: ViewOverNodes, at_least: str = "") -> None:
        await _open(self, at_least)
        if self._live.is_set():
            self._held = {}

    return [patch.object(ViewOverNodes, "_open", open_)]


GATEWAY_MISTAKES: dict[str, Mistake] = mistakes_in(globals())
"""Each mistake, by what it is."""
