"""Reads a request: its topics, the selection of their records, and its bookmark range."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from sowline.errors import SowlineError
from sowline.language.emodb import compile_condition
from sowline.language.expressions.projection import parse_projection
from sowline.language.filter import ALL, Filter, compile_filter
from sowline.language.filter.parse import FILTER_CHARS_MAX
from sowline.language.filter.tree import Call, In, Literal, Meets, Node, conjunction, parts_of
from sowline.model.bookmark import PositionsByLog
from sowline.model.bookmark_range import BookmarkRange, Point
from sowline.model.position import invalid_bookmark
from sowline.serving.authorization.entitlements import (
    Entitlements,
    Rights,
    both,
    check_fields,
    chosen_topic,
    chosen_topics,
    together,
)
from sowline.serving.authorization.topic_patterns import is_pattern
from sowline.serving.refusal import no_sow
from sowline.serving.result import QueryLimits
from sowline.serving.typed_records.checks import check_typed_read
from sowline.serving.worker_thread import bytes_to_read
from sowline.subscriptions.engine.subscription import Subscription, is_sent_before, require_sent_before
from sowline.subscriptions.live.request_checks import check_window
from sowline.wire.options import Options
from sowline.wire.request import Read, Subscribe
from sowline_query_service.query.grouping import GroupedQuery
from sowline_query_service.query.query import Query
from sowline_query_service.query.selection import Selection
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_state import TopicState, require_loaded

FILTER_PARTS_MAX = 1500
"""Paths, conditions, functions and constants of a request's filter; constants in a list do not count."""

FILTER_PATHS_MAX = 256
"""Different paths of a request's filter."""


def topics_of(state: ServedTopics, name: str, entitlements: Entitlements) -> list[TopicState]:
    """Return the topic of that name; if the name starts with `^`, all topics whose whole names match the pattern.

    Raise `not entitled` if the entitlements do not name one of the topics, whether it exists or not. Also raise
    `invalid topic`, `bad regex topic`, and `not ready` while a topic is being loaded.
    """
    chosen = [state.topics[each] for each in chosen_topics(name, state.topics, entitlements)]
    require_loaded(chosen)
    return chosen


def one_topic(state: ServedTopics, name: str, entitlements: Entitlements) -> TopicState:
    """Return the topic of that name; raise `regex topic not supported`, and as `topics_of` does."""
    return topics_of(state, chosen_topic(name, state.topics, entitlements), entitlements)[0]


def only_topic(request: Read, topics: list[TopicState]) -> TopicState:
    """Return the one topic of a page or of groups; raise `regex topic not supported` or `no sow`."""
    if is_pattern(request.topic):
        raise SowlineError(
            "regex topic not supported", "expected the name of one topic: a page or groups cover one topic"
        )
    if not topics[0].definition.has_sow:
        raise no_sow(topics[0].definition.name)
    return topics[0]


def bytes_to_check(request: Read) -> int:
    """Return the time that `read_request_of` takes, in bytes of a body that take as long."""
    return bytes_to_read(request.filter, request.condition, sow_keys=request.sow_keys)


class ReadRequest(NamedTuple):
    """The topics of a read, and the selection of their records."""

    topics: list[TopicState]
    selection: Selection


def read_request_of(state: ServedTopics, request: Read, rights: Rights) -> ReadRequest:
    """Return the topics of a read, and the selection of what the user may see; raise if the request is invalid."""
    topics = topics_of(state, request.topic, rights.read)
    selection = selection_of(request)
    if selection.options.projection:
        # Raises what parsing the options has found, before the errors of rights and bookmarks.
        parse_projection(selection.options.projection)
    if selection.options.is_typed:
        check_typed_read(request, (topic.definition for topic in topics), rights.read)
    selection = _entitled_to_read(selection, topics, rights)
    # After the rights: live messages must be limited by the filter of the entitlement, too.
    if request.sow_keys and isinstance(request, Subscribe):
        selection = replace(selection, live=live_filter(selection))
    return ReadRequest(topics, selection)


def _entitled_to_read(selection: Selection, topics: Sequence[TopicState], rights: Rights) -> Selection:
    """Return the part of a selection that the user may see; raise `not entitled`."""
    each = {topic.definition.name: rights.read.of(topic.definition.name) for topic in topics}
    entitlement = together(rights.read, list(each))
    if entitlement.is_whole:
        return selection
    options = selection.options
    # Check the request alone: the filter of the entitlement may use fields that the user may not read.
    paths = (*selection.order.paths, *options.grouping, *options.conflation_key)
    check_fields(entitlement, selection.filter, paths, _computed(options))
    selection = replace(
        selection,
        filter=both(selection.filter, entitlement.filter),
        hides=entitlement.filter != ALL,
        readable=entitlement.select,
    )
    # A projection shows no other fields than those that were checked above.
    if options.projection:
        return selection
    if entitlement.select is not None:
        mine, wanted = entitlement.select, options.select
        options = replace(options, select=mine if wanted is None else mine & wanted)
    return replace(
        selection,
        options=options,
        entitled={name: one.filter for name, one in each.items() if one.filter != ALL},
    )


def _computed(options: Options) -> list[Node]:
    """Return the expressions of a projection."""
    fields = parse_projection(options.projection).fields if options.projection else ()
    return [field.expression for field in fields]


def query_of(request: Read, asked: ReadRequest, limits: QueryLimits) -> Query | GroupedQuery:
    """Return the query for a request; raise `no sow`, `invalid bookmark` or `no history`."""
    topics, selection = asked
    if not any(topic.definition.has_sow for topic in topics):
        raise no_sow(topics[0].definition.name)
    check_documents(selection.options, topics)
    bookmark_range = bookmark_range_of(request, topics)
    if bookmark_range.end is not None or bookmark_range.is_return:
        raise invalid_bookmark(
            "expected a time or a bookmark such as 20261121T120000Z or orders:0@1187, got"
            f" {request.bookmark or request.up_to!r}"
        )
    at = past_of(bookmark_range, selection.options, topics)
    if selection.options.projection:
        return GroupedQuery(only_topic(request, topics), selection, limits, at)
    return Query(topics, selection, limits, at)


def check_window_selection(request: Subscribe, selection: Selection) -> None:
    """Raise if a page or groups do not support what is requested of them."""
    check_window(request)
    is_grouped = bool(selection.options.projection)
    kind = "an aggregated" if is_grouped else "a paginated"
    require_sent_before(selection.filter, f"the filter of {kind} subscription")
    if is_grouped and (names := parse_projection(selection.options.projection).nondeterministic):
        raise SowlineError(
            "invalid projection",
            f"expected functions of the records in the projection of an aggregated subscription, got {names[0]}",
        )


def selection_of(request: Read) -> Selection:
    """Return the selection of a request; raise if it is invalid."""
    return Selection(
        filter=asked_filter(request.filter, request.condition),
        options=request.options,
        order=request.order,
        top_n=request.top_n,
        skip_n=request.skip_n or 0,
        sow_keys=tuple(key.encode() for key in request.sow_keys),
        merges=request.of_gateway.merges,
        relays=request.of_gateway.relays,
        shares=request.of_gateway.shares,
        sample_n=request.of_gateway.sample_n,
    )


def asked_filter(text: str, condition: str) -> Filter:
    """Return the filter and the condition of a request as one filter; raise `bad filter` or `bad condition`."""
    filter = compile_filter(text)
    _check_parts(filter)
    if not condition.strip():
        return filter
    if len(condition) > FILTER_CHARS_MAX:
        raise SowlineError(
            "bad condition",
            f"expected a condition of at most {FILTER_CHARS_MAX} characters, got {len(condition)}",
        )
    meets = Meets(compile_condition(condition))
    return Filter(meets if filter == ALL else conjunction([filter.tree, meets]))


def _check_parts(filter: Filter) -> None:
    """Raise `bad filter` for a filter so large that it would block the event loop."""
    parts = parts_of(filter.tree)
    if parts > FILTER_PARTS_MAX or len(filter.paths) > FILTER_PATHS_MAX:
        raise SowlineError(
            "bad filter",
            f"expected a filter of at most {FILTER_PARTS_MAX} parts and {FILTER_PATHS_MAX} paths, got {parts} and"
            f" {len(filter.paths)}; a list (IN) of constants is one part",
        )


def subscription_of(request: Subscribe, selection: Selection) -> Subscription:
    """Return the live subscription of a request; raise `bad filter` if its filter can't be used for one."""
    options, delta = selection.options, request.is_delta
    if options.oof or options.no_redundant:
        option = "oof" if options.oof else "no_redundant"
        require_sent_before(selection.filter, f"the filter of a subscription with {option}")
    elif delta:
        require_sent_before(selection.filter, "the filter of a delta subscription")
    return Subscription(live_filter(selection), options.oof, delta, options.no_redundant)


def is_certain(selection: Selection) -> bool:
    """Whether the records at some positions are known; not with a limit, or a filter that depends on the time."""
    return selection.top_n is None and is_sent_before(selection.filter)


def live_filter(selection: Selection) -> Filter:
    """Return the filter of live messages, which includes the SOW keys of the request."""
    if selection.live is not None or not selection.sow_keys:
        return selection.live or selection.filter
    keys = tuple(Literal(key.decode()) for key in selection.sow_keys)
    return Filter(conjunction([In(Call("SOW_KEY", ()), keys), selection.filter.tree]))


def bookmark_range_of(request: Read, topics: list[TopicState]) -> BookmarkRange:
    """Return the start and the end of a subscription in these topics; raise `invalid bookmark`."""
    bookmark_range = request.bookmark_range
    is_list = len(bookmark_range.starts) > 1
    for start in bookmark_range.starts:
        if isinstance(start, dict):
            _check_partitions(start, topics)
            if not is_list and not is_pattern(request.topic) and len(start) < len(topics):
                raise _other_logs(start, topics)
    if isinstance(bookmark_range.end, dict):
        _check_partitions(bookmark_range.end, topics)
        for topic in topics:
            # Without an end in one partition, the subscription would never reach its end.
            log, named = topic.definition.log, bookmark_range.end.get(topic.definition.log, {})
            if missing := [number for number in topic.partitions if number not in named]:
                raise invalid_bookmark(
                    f"expected an end in each partition, got none in {missing[0]} of {log}"
                )
    starts = tuple(_held_of(start, topics) for start in bookmark_range.starts)
    end = None if bookmark_range.end is None else _held_of(bookmark_range.end, topics)
    return bookmark_range._replace(starts=starts, end=end)


def _held_of(point: Point, topics: list[TopicState]) -> Point:
    """Return a start or an end without the positions of partitions that this service does not hold."""
    if not isinstance(point, dict):
        return point
    return {
        topic.definition.log: topic.held_of(point[topic.definition.log])
        for topic in topics
        if topic.definition.log in point
    }


def _check_partitions(positions_by_log: PositionsByLog, topics: list[TopicState]) -> None:
    counts = {topic.definition.log: topic.definition.partitions for topic in topics}
    if not set(positions_by_log) <= set(counts):
        raise _other_logs(positions_by_log, topics)
    for log, positions in positions_by_log.items():
        if beyond := [number for number in positions if number >= counts[log]]:
            raise invalid_bookmark(f"expected a partition of {log} below {counts[log]}, got {beyond[0]}")


def _other_logs(positions_by_log: PositionsByLog, topics: list[TopicState]) -> SowlineError:
    logs = ", ".join(topic.definition.log for topic in topics)
    return invalid_bookmark(f"expected a bookmark of {logs}, got one of {', '.join(positions_by_log)}")


def past_of(bookmark_range: BookmarkRange, options: Options, topics: list[TopicState]) -> int | None:
    """Return the time in ms whose records are requested; None for the current records.

    Raise `no history` if a topic has none, unless the option `current` accepts the current records.
    """
    if bookmark_range.moment is None:
        return None
    lacking = [topic.definition.name for topic in topics if topic.definition.declared.history is None]
    if not lacking:
        return bookmark_range.moment.microseconds // 1000
    if options.current:
        return None
    raise SowlineError(
        "no history",
        f"expected a topic with a history, got {lacking[0]}; read the current records, or give the option current",
    )


def check_documents(options: Options, topics: list[TopicState]) -> None:
    """Raise `no documents` if an option needs documents and a topic has none."""
    asked = [name for name in ("intrinsics", "no_redundant") if getattr(options, name)]
    lacking = [topic.definition.name for topic in topics if not topic.definition.documents]
    if asked and lacking:
        raise SowlineError(
            "no documents", f"expected a topic with documents for the option {asked[0]}, got {lacking[0]}"
        )
