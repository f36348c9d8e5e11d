"""What a request asks for: its topics, its records, its place in the log, and what it may not have."""

import json
from typing import Any

import pytest

from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.language.filter.metadata import Metadata
from sowline.model.bookmark_range import BookmarkRange, Point, parse_point
from sowline.model.position import Position
from sowline.serving.authorization.entitlements import EVERYTHING
from sowline.serving.result import QueryLimits
from sowline.subscriptions.live.request_checks import check_pace
from sowline.wire.request import Read, Subscribe
from sowline.wire.request_parser import parse_request
from sowline_query_service.query.grouping import GroupedQuery
from sowline_query_service.query.query import Query
from sowline_query_service.query.read_request import (
    bookmark_range_of,
    live_filter,
    only_topic,
    query_of,
    read_request_of,
    selection_of,
    subscription_of,
    topics_of,
)
from sowline_query_service.topics.state import ServedTopics

TOPICS = (
    "topics: [{name: orders, key: /id, partitions: 2}, {name: order.lines, key: /id}, {name: x/y, key: /id}]"
)


@pytest.fixture
def state() -> ServedTopics:
    """Three topics, loaded and empty."""
    state = ServedTopics(parse_topics(TOPICS), 10)
    for topic in state.topics.values():
        state.loaded([(topic.definition.changes, number) for number in range(len(topic.partitions))])
    return state


def request(command: str = "sow", topic: str = "orders", **fields: Any) -> Read:
    """Return a request."""
    return parse_request(Read, json.dumps({"command": command, "topic": topic} | fields).encode())


def subscription(command: str, **fields: Any) -> Subscribe:
    """Return a request for a subscription."""
    return parse_request(Subscribe, json.dumps({"command": command, "topic": "orders"} | fields).encode())


def reason_of(error: pytest.ExceptionInfo[SowlineError]) -> str:
    """Return the reason code."""
    return error.value.reason


# topics


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders", ["orders"]),
        ("x/y", ["x/y"]),
        ("^orders", ["orders"]),
        ("^order.*", ["orders", "order.lines"]),
        ("^.*", ["orders", "order.lines", "x/y"]),
        (r"^order\.lines$", ["order.lines"]),
        ("^(?i)ORDERS", ["orders"]),
        ("^orders|x/y", ["orders", "x/y"]),
    ],
)
def test_topics(state: ServedTopics, name: str, expected: list[str]) -> None:
    """One by its name, or all whose whole names match a pattern, in the order of their definitions."""
    assert [topic.definition.name for topic in topics_of(state, name, EVERYTHING.read)] == expected


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "invalid topic"),
        ("Orders", "invalid topic"),
        ("order.*", "invalid topic"),
        ("^order", "invalid topic"),
        ("^", "invalid topic"),
        ("^(", "bad regex topic"),
        ("^(?=orders)", "bad regex topic"),
    ],
)
def test_no_topics(state: ServedTopics, name: str, reason: str) -> None:
    """The reason is given; an unknown name is told what there is."""
    with pytest.raises(SowlineError) as error:
        topics_of(state, name, EVERYTHING.read)
    assert reason_of(error) == reason
    if reason == "invalid topic":
        assert "orders, order.lines, x/y" in str(error.value)


def test_a_topic_that_is_being_loaded_is_not_ready() -> None:
    """Nor is a pattern that matches one such, though others are loaded."""
    state = ServedTopics(parse_topics(TOPICS), 10)
    state.loaded([("order.lines.changes", 0)])
    assert topics_of(state, "order.lines", EVERYTHING.read)
    for name in ("orders", "^.*"):
        with pytest.raises(SowlineError, match="topic orders is still being loaded") as error:
            topics_of(state, name, EVERYTHING.read)
        assert reason_of(error) == "not ready"


def test_pages_and_groups_are_of_one_topic(state: ServedTopics) -> None:
    """A pattern won't do, even where it matches one topic only."""
    topics = topics_of(state, "^orders", EVERYTHING.read)
    with pytest.raises(SowlineError) as error:
        only_topic(request(topic="^orders"), topics)
    assert reason_of(error) == "regex topic not supported"
    assert only_topic(request(), topics) is topics[0]


def query(state: ServedTopics, asked: Read) -> Query | GroupedQuery:
    """Return the query that somebody asks for who may read everything."""
    return query_of(asked, read_request_of(state, asked, EVERYTHING), QueryLimits())


# records


def test_a_selection_is_what_the_request_says() -> None:
    """Without limits, all records that match; in no order."""
    plain = selection_of(request())
    assert (plain.filter.text, plain.order.text, plain.top_n, plain.skip_n) == ("TRUE", "", None, 0)
    assert (plain.sow_keys, plain.end, plain.is_ordered) == ((), None, False)
    given = selection_of(
        request(filter="/a == 1", order_by="/b desc", top_n=5, skip_n=2, sow_keys=["1", "2"])
    )
    assert (given.filter.text, given.order.text, given.end) == ("/a = 1", "/b DESC", 7)
    assert (given.sow_keys, given.is_ordered) == ((b"1", b"2"), True)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"filter": "/a ="}, "bad filter"),
        ({"order_by": "/a DOWN"}, "invalid order by"),
        ({"options": "nonsense"}, "invalid options"),
    ],
)
def test_what_is_wrong_is_reported(fields: dict[str, Any], reason: str) -> None:
    """With its reason."""
    with pytest.raises(SowlineError) as error:
        selection_of(request(**fields))
    assert reason_of(error) == reason


def test_a_projection_makes_it_a_query_of_groups(state: ServedTopics) -> None:
    """Else it is one of records."""
    grouped = request(options="projection=[/g,COUNT(/id) AS /n],grouping=[/g]")
    assert isinstance(query(state, grouped), GroupedQuery)
    assert isinstance(query(state, request()), Query)


# views


def test_which_subscriptions_are_views() -> None:
    """Those to pages and to groups; a plain one isn't, nor one to the first so many."""
    page = subscription("sow_and_subscribe", top_n=2, skip_n=0)
    groups = subscription("sow_and_subscribe", options="projection=[/g],grouping=[/g]")
    plain = subscription("sow_and_subscribe", filter="/a = 1")
    assert [asked.is_window for asked in (page, groups, plain)] == [True, True, False]


# live filters


def test_sow_keys_restrict_what_is_live() -> None:
    """Beside the filter; without them, the filter is as it was given."""
    both = live_filter(selection_of(subscription("subscribe", filter="/a = 1", sow_keys=["7", "8"])))
    for key, a, expected in (("7", 1, True), ("8", 1, True), ("9", 1, False), ("7", 2, False)):
        assert both.matches_about({"a": a}, Metadata(sow_key=key)) is expected
    plain = selection_of(subscription("subscribe", filter="/a = 1"))
    assert live_filter(plain) is plain.filter


def test_focus_needs_a_filter_that_does_not_change_by_itself() -> None:
    """Without oof and deltas it may."""
    text = "UNIX_TIMESTAMP() > /a"
    plain = subscription("subscribe", filter=text)
    for asked in (
        subscription("subscribe", filter=text, options="oof"),
        subscription("delta_subscribe", filter=text),
    ):
        with pytest.raises(SowlineError) as error:
            subscription_of(asked, selection_of(asked))
        assert reason_of(error) == "bad filter"
    assert subscription_of(plain, selection_of(plain)).filter.text == text


# spans


def test_spans(state: ServedTopics) -> None:
    """Where a subscription begins and ends, as its request says."""
    topics = topics_of(state, "^order.*", EVERYTHING.read)
    assert bookmark_range_of(request(), topics) == BookmarkRange()
    assert bookmark_range_of(request(bookmark="epoch"), topics) == BookmarkRange(("epoch",))
    both: Point = {"orders": {1: Position(0, 7)}, "order.lines": {0: Position(0, 3)}}
    assert bookmark_range_of(request(bookmark="orders:1@7;order.lines:0@3"), topics) == BookmarkRange((both,))
    assert bookmark_range_of(request(topic="^order.*", bookmark="order.lines:0@3"), topics) == BookmarkRange(
        ({"order.lines": {0: Position(0, 3)}},)
    )
    end = "orders:0@1,1@2;order.lines:0@3"
    assert bookmark_range_of(request(up_to=end), topics).end == parse_point(end)


@pytest.mark.parametrize(
    "fields",
    [
        {"bookmark": "orders"},
        {"bookmark": "orders:0@x"},
        {"bookmark": "orders:2@1"},
        {"bookmark": "other:0@1"},
        {"bookmark": "orders:0@1;x.y:0@1"},
        {"bookmark": ["orders:0@1", "x.y:0@1"]},
        {"bookmark": "[epoch..orders:0@1]"},
        {"up_to": "orders:0@1"},
        {"up_to": "x.y:0@1,1@1"},
        {"up_to": "orders:0@1,1@1,2@1"},
    ],
)
def test_spans_that_are_not(state: ServedTopics, fields: dict[str, Any]) -> None:
    """A bookmark of other logs, of partitions that there are not, an end without all partitions, or none at all."""
    with pytest.raises(SowlineError) as error:
        bookmark_range_of(request(**fields), topics_of(state, "orders", EVERYTHING.read))
    assert reason_of(error) == "invalid bookmark"


@pytest.mark.parametrize("bookmark", ["epoch", "orders:0@1,1@1", '["now"]', "[epoch..now]"])
def test_a_query_is_of_a_time(state: ServedTopics, bookmark: str) -> None:
    """What records were at another place can't be told."""
    if bookmark == '["now"]':
        assert isinstance(query(state, request(bookmark=bookmark)), Query)
        return
    with pytest.raises(SowlineError) as error:
        query(state, request(bookmark=bookmark))
    assert reason_of(error) == "invalid bookmark"


def test_a_time_needs_history(state: ServedTopics) -> None:
    """Unless what is now will do."""
    with pytest.raises(SowlineError) as error:
        query(state, request(bookmark="20261121T120000Z"))
    assert reason_of(error) == "no history"
    current = request(bookmark="20261121T120000Z", options="current")
    assert isinstance(query(state, current), Query)


def test_a_rate_goes_with_a_bookmark() -> None:
    """And with changes one by one."""
    rated = subscription("subscribe", options="rate=5")
    page = subscription("sow_and_subscribe", bookmark="epoch", options="rate=5", top_n=2, skip_n=0)
    for asked in (rated, page):
        with pytest.raises(SowlineError) as error:
            check_pace(asked)
        assert reason_of(error) == "invalid options"
    asked = subscription("subscribe", bookmark="now", options="rate=5")
    check_pace(asked)
