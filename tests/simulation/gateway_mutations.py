"""Small mistakes in the gateway, as somebody might make them: each is found by a seed with gateways."""

from itertools import islice
from typing import Any
from unittest.mock import patch

from sowline.language.groups.aggregates import AGGREGATES, Aggregate
from sowline.language.groups.engine import Groups, GroupStates
from sowline.language.groups.sums import Sums
from sowline.model.bookmark import PositionsByLog
from sowline.model.path import Scalar
from sowline.wire.node_queries import NodeQuery, records_of
from sowline.wire.request import Read
from sowline_gateway.nodes.routing import Candidates, Share
from sowline_gateway.query.part import Part
from sowline_gateway.query.seen import NONE, SeenPositions
from sowline_gateway.streams.member import Member
from sowline_gateway.streams.stream import SharedStream
from sowline_gateway.subscriptions.held_window import HeldWindow
from sowline_gateway.subscriptions.stream_membership import StreamMembership
from sowline_gateway.subscriptions.window_parts import WindowParts
from tests.simulation.mistake import Mistake, mistakes_in

_begin_part = SharedStream._begin_part
_leave = Member.leave
_routes = Candidates.routes
_release = Member.release
_open = WindowParts.open
_floor = WindowParts._floor


def _shard_left_out() -> list[Any]:
    def some(self: Candidates) -> Any:
        found = _routes(self)
        return found[:-1] if len(found) > 1 else found

    return [patch.object(Candidates, "routes", some)]


def _other_shard_not_seen() -> list[Any]:
    def announced(self: Part, logs: Any) -> Share:
        return self.route.share

    return [patch.object(Part, "answers_for", announced)]


def _groups_merged_from_the_first_ones() -> list[Any]:
    return [patch.object(GroupStates, "records", lambda self: islice(Groups.records(self), 1))]


class _MeanOfMeans:
    """The state of an average that forgets how many values each part has."""

    nbytes = 0

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
    return [patch("sowline.language.groups.aggregates.AGGREGATES", {**AGGREGATES, "AVG": average})]


def _bookmark_laid_over_that_of_another_shard() -> list[Any]:
    return [patch("sowline_gateway.query.sharded_query.lay_over", lambda one, other: {**one, **other})]


def _view_moves_to_the_bookmark_of_one_shard() -> list[Any]:
    return [patch("sowline_gateway.subscriptions.window_parts.newest", lambda one, other: {**one, **other})]


def _floor_ignored() -> list[Any]:
    def without(request: Read, floor: Any) -> NodeQuery:
        return records_of(request, {})

    return [
        patch("sowline_gateway.query.sharded_query.records_of", without),
        patch.object(SeenPositions, "is_ahead_of", lambda self, positions: False),
    ]


def _view_comes_back_before_its_bookmark() -> list[Any]:
    def floor(self: WindowParts, held: HeldWindow, at_least: PositionsByLog) -> PositionsByLog:
        return _floor(self, held if self._opened is not None else HeldWindow(held.asked), at_least)

    return [patch.object(WindowParts, "_floor", floor)]


def _stream_joined_before_it_is_level() -> list[Any]:
    def join(self: StreamMembership) -> bool:
        if self._stream is None or self.is_member:
            return self.is_member
        self._attach(self._stream)
        self.release()
        self.settled.set()
        return True

    return [patch.object(StreamMembership, "join_if_level", join)]


def _what_waited_for_the_snapshot_dropped() -> list[Any]:
    def release(self: Member, begun: Any) -> None:
        self._held = []
        _release(self, begun)

    return [patch.object(Member, "release", release)]


def _what_the_snapshot_has_sent_again() -> list[Any]:
    return [patch.object(Member, "release", lambda self, begun: _release(self, {}))]


def _stream_goes_on_from_now() -> list[Any]:
    async def begin(self: SharedStream, part: Any) -> None:
        self._has_begun = False
        await _begin_part(self, part)
        self._has_begun = True

    return [patch.object(SharedStream, "_begin_part", begin)]


def _message_that_did_not_fit_taken_for_sent() -> list[Any]:
    def fall_behind(self: Member) -> None:
        self.is_too_slow = True
        _leave(self)
        for of in self.begun.values():
            for number, position in of.items():
                of[number] = position._replace(offset=position.offset + 1)

    return [patch.object(Member, "fall_behind", fall_behind)]


def _step_lost_at_failover() -> list[Any]:
    async def open_(self: WindowParts, held: HeldWindow, at_least: PositionsByLog = NONE) -> None:
        is_again = self._opened is not None
        await _open(self, held, at_least)
        if is_again:
            held.shown = self.opened.merged.shown()

    return [patch.object(WindowParts, "open", open_)]


def _step_twice_at_failover() -> list[Any]:
    async def open_(self: WindowParts, held: HeldWindow, at_least: PositionsByLog = NONE) -> None:
        is_again = self._opened is not None
        await _open(self, held, at_least)
        if is_again:
            held.shown = {}

    return [patch.object(WindowParts, "open", open_)]


GATEWAY_MISTAKES: dict[str, Mistake] = mistakes_in(globals())
"""Each mistake, by what it is."""
