"""What a request asks for: its topics, which of their records, and from where on."""

import re2  # type: ignore[import-untyped,unused-ignore]

from fanout.subscription import Subscription, require_told_before
from query_service.grouping import GroupedQuery
from query_service.query import Limits, Query, Selection
from query_service.state import State, TopicState
from sowline.bookmark import EPOCH, NOW, Positions, named_place, parse_bookmark
from sowline.errors import SowlineError
from sowline.filter import Filter, compile_filter
from sowline.filter.patterns import reason_of
from sowline.filter.tree import Call, In, Literal, conjunction
from sowline.position import before_the_log
from sowline.projection import parse_projection
from sowline.wire import Request

PAGE_RECORDS_MAX = 10_000
"""Of a paginated subscription; a page is sent at once."""

Places = dict[str, Positions]
"""By log: a position of each partition."""


def topics_of(state: State, name: str) -> list[TopicState]:
    """Return the topic of that name, or where it begins with `^` all whose whole names match the pattern.

    Raises `invalid topic`, `bad regex topic`, and `not ready` while one of them is being loaded.
    """
    chosen = [state.topics[each] for each in _names(state, name) if each in state.topics]
    if not chosen:
        known = ", ".join(state.topics) or "none"
        raise SowlineError("invalid topic", f"expected a topic ({known}), got {name!r}")
    for topic in chosen:
        if topic.loading:
            raise SowlineError(
                "not ready", f"topic {topic.definition.name} is still being loaded; try again shortly"
            )
    return chosen


def _names(state: State, name: str) -> list[str]:
    if not name.startswith("^"):
        return [name]
    options = re2.Options()
    options.log_errors = False
    try:
        matches = re2.compile(name, options).fullmatch
    except re2.error as error:
        raise SowlineError(
            "bad regex topic", f"expected a pattern in RE2's syntax, got {name!r}: {reason_of(error)}"
        ) from None
    return [each for each in state.topics if matches(each)]


def only_topic(request: Request, topics: list[TopicState]) -> TopicState:
    """Return the one topic of a page or of groups; raises `regex topic not supported`."""
    if request.topic.startswith("^"):
        raise SowlineError(
            "regex topic not supported", "expected one topic by its name: pages and groups are of one topic"
        )
    return topics[0]


def query_of(request: Request, topics: list[TopicState], limits: Limits) -> Query | GroupedQuery:
    """Return the query that a request asks for."""
    selection = selection_of(request)
    if selection.options.projection:
        return GroupedQuery(only_topic(request, topics), selection, limits)
    return Query(topics, selection, limits)


def is_view(request: Request, selection: Selection) -> bool:
    """Tell whether a subscription is to a page or to groups; raises what such a one may not have."""
    is_page, is_grouped = request.skip_n is not None, bool(selection.options.projection)
    if not is_page and not is_grouped:
        return False
    kind = "an aggregated" if is_grouped else "a paginated"
    if not request.has_snapshot:
        raise SowlineError(
            "not supported",
            f"expected sow_and_subscribe or sow_and_delta_subscribe for {kind} subscription, got {request.command}",
        )
    if request.sow_keys:
        raise SowlineError("not supported", f"expected no sow_keys in {kind} subscription; use a filter")
    if is_page and (selection.top_n or 0) > PAGE_RECORDS_MAX:
        raise SowlineError(
            "invalid top_n", f"expected a page of at most {PAGE_RECORDS_MAX} records, got {selection.top_n}"
        )
    require_told_before(selection.filter, f"the filter of {kind} subscription")
    if is_grouped and (names := parse_projection(selection.options.projection).nondeterministic):
        raise SowlineError(
            "invalid projection",
            f"expected functions of the records in the projection of an aggregated subscription, got {names[0]}",
        )
    return True


def selection_of(request: Request) -> Selection:
    """Return which records the request is about; raises the reason of whatever is wrong with it."""
    return Selection(
        filter=compile_filter(request.filter),
        options=request.parsed_options,
        order=request.order,
        top_n=request.top_n,
        skip_n=request.skip_n or 0,
        sow_keys=tuple(key.encode() for key in request.sow_keys),
    )


def subscription_of(request: Request, selection: Selection) -> Subscription:
    """Return what a live subscription asks for; raises what its filter may not have."""
    oof, delta = selection.options.oof, request.is_delta
    if oof or delta:
        where = "the filter of a subscription with oof" if oof else "the filter of a delta subscription"
        require_told_before(selection.filter, where)
    return Subscription(live_filter(selection), oof, delta)


def live_filter(selection: Selection) -> Filter:
    """Return the filter of live messages: SOW keys restrict it as they restrict the snapshot."""
    if not selection.sow_keys:
        return selection.filter
    keys = tuple(Literal(key.decode()) for key in selection.sow_keys)
    return Filter(conjunction([In(Call("SOW_KEY", ()), keys), selection.filter.tree]))


def places_of(request: Request, topics: list[TopicState]) -> Places | None:
    """Return where a subscription begins; None for now.

    A pattern may match more topics than it did when the bookmark was made: those begin before their first change.
    """
    place = named_place(request.bookmark) if request.bookmark else NOW
    if place == NOW:
        return None
    logs = {topic.definition.log: len(topic.partitions) for topic in topics}
    given = {log: {} for log in logs} if place == EPOCH else parse_bookmark(request.bookmark)
    named = set(given) == set(logs) or (request.topic.startswith("^") and set(given) < set(logs))
    if not named:
        raise SowlineError(
            "invalid bookmark", f"expected a bookmark of {', '.join(logs)}, got one of {', '.join(given)}"
        )
    for log, positions in given.items():
        if beyond := [number for number in positions if number >= logs[log]]:
            raise SowlineError("invalid bookmark", f"{log} has no partition {beyond[0]}")
    return {
        log: {number: given.get(log, {}).get(number, before_the_log()) for number in range(count)}
        for log, count in logs.items()
    }
