"""A client's request for a page or for groups, and what follows from it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import msgspec

from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.language.expressions.order import Order
from sowline.language.expressions.projection import parse_projection
from sowline.language.groups import MergedGroups
from sowline.model.difference import Keys
from sowline.subscriptions.engine.conflation import pending_of
from sowline.subscriptions.engine.delivery import Form
from sowline.subscriptions.engine.page import Page
from sowline.subscriptions.engine.shown import ShownRecord, identifying_fields, in_order, keys_shown
from sowline.subscriptions.live.request_checks import PAGE_RECORDS_MAX, check_endless, check_pace
from sowline.wire.node_queries import options_of_window
from sowline.wire.options import Options
from sowline.wire.request import Subscribe, from_now
from sowline_gateway.subscriptions.merged_window import (
    MergedGroupPage,
    MergedGroupWindow,
    MergedPage,
    MergedWindow,
)


@dataclass(frozen=True, slots=True)
class WindowRequest:
    """A request for a page, or for all groups."""

    request: Subscribe
    topic: TopicDefinition
    page: Page | None
    form: Form
    keys: Keys
    """The fields that every delta has."""

    @classmethod
    def of(cls, request: Subscribe, topic: TopicDefinition) -> Self:
        """Return the request of a client; raise `not supported`, `invalid options` or `invalid top_n`."""
        check_endless(request)
        check_pace(request)
        options = request.options
        form = Form.live(options, topic, delta=request.is_delta)
        keys = keys_shown(topic, options)
        if options.conflation is not None:
            # For its checks only: a conflation key must not merge different records.
            pending_of(options, form, identifying_fields(topic, options), of_each=True)
        return cls(request, topic, _page_of(request), form, keys)

    @property
    def options(self) -> Options:
        """The options of the client."""
        return self.request.options

    @property
    def is_grouped(self) -> bool:
        """Whether it is for groups, or a page of groups."""
        return bool(self.options.projection)

    @property
    def begins_now(self) -> bool:
        """Whether it begins with the current records; with `current`, also for a time where there is no history."""
        bookmark_range = self.request.bookmark_range
        is_instead = (
            self.options.current and bookmark_range.moment is not None and self.topic.declared.history is None
        )
        return bookmark_range.begins_now or is_instead

    @property
    def is_held_whole(self) -> bool:
        """Whether the client holds everything shown: if groups have a limit, it gets only the first ones at first."""
        return self.page is not None or self.request.top_n is None

    @property
    def tells_latest(self) -> bool:
        """Whether a group may depend on the latest record: after changes are undone, that record is unknown."""
        return self.is_grouped and self._groups(1).tells_latest

    def is_grouped_like(self, other: "WindowRequest") -> bool:
        """Whether two windows show the same groups."""
        one, two = self.options, other.options
        return (one.grouping, one.projection, self.request.filter) == (
            two.grouping,
            two.projection,
            other.request.filter,
        )

    def first_shown(self, shown: Mapping[bytes, ShownRecord]) -> Mapping[bytes, ShownRecord]:
        """Return the content of the first message group: with a limit, only the first groups."""
        if self.page is not None:
            return shown
        skip, top = self.request.skip_n or 0, self.request.top_n
        return in_order(shown, self.request.order, skip, None if top is None else skip + top)

    def merged(self, groups_max: int) -> MergedWindow:
        """Return the empty window that the nodes' windows are merged into."""
        if not self.is_grouped:
            assert self.page is not None, "a window without groups is a page"
            return MergedPage(self.request.order, self.page)
        if self.page is None:
            return MergedGroupWindow(self._groups(groups_max))
        return MergedGroupPage(self._groups(groups_max), self.request.order, self.page)

    def _groups(self, groups_max: int) -> MergedGroups:
        projection = parse_projection(self.options.projection)
        return MergedGroups(self.topic.name, self.options.grouping, projection, groups_max=groups_max)

    # what nodes are asked

    @property
    def records_at_nodes(self) -> int | None:
        """How many records each node shows; None for groups."""
        page = self.page
        return None if page is None or self.is_grouped else page.skip + page.top

    def at_nodes(self) -> Subscribe:
        """Return the subscription to the parts of nodes, from now on."""
        return msgspec.structs.replace(
            from_now(self.request),
            options=options_of_window(self.options),
            top_n=None,
            skip_n=None,
            # `WindowParts` passes it as the floor of the query.
            at_least={},
            order=Order() if self.is_grouped else self.request.order,
        )

    def in_the_past(self) -> Subscribe:
        """Return the query for the window at the client's bookmark or time."""
        request = msgspec.structs.replace(
            self.request, options=options_of_window(self.options, is_live=False)
        )
        if self.page is None:
            # The client may hold more groups than the first ones: it was sent each that has changed.
            request = msgspec.structs.replace(request, top_n=None, skip_n=None, order=Order())
        return request


def _page_of(request: Subscribe) -> Page | None:
    """Return the requested page, None for all groups; raise `invalid top_n`."""
    if request.skip_n is None or request.top_n is None:
        return None
    end = request.skip_n + request.top_n
    # A page of groups has no such limit: nodes send all their groups in any case.
    if not request.options.projection and end > PAGE_RECORDS_MAX:
        raise SowlineError(
            "invalid top_n",
            f"expected a page that ends within the first {PAGE_RECORDS_MAX} records at a gateway, got skip_n +"
            f" top_n = {end}; use a filter",
        )
    return Page(request.skip_n, request.top_n)
