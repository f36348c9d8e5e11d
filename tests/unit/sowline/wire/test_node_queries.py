"""What gateways ask of query services: that of version 0.1 is taken, and what is asked now is what 0.1 takes."""

from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from sowline.commands.command import Origin
from sowline.errors import SowlineError
from sowline.model.position import Position
from sowline.wire.node_queries import (
    SUB_ID,
    NodeQuery,
    about_subscription,
    difference_of,
    encode,
    end_of,
    fetch_of,
    held_by,
    options_of_stream,
    options_of_window,
    outcome_of,
    past_view_of,
    records_of,
    sample_turn_seconds,
    sampled_at_once,
    subscription_of,
    view_of,
    watch_of,
)
from sowline.wire.options import Options, parse_options
from sowline.wire.request import Request, Sow
from sowline.wire.request_fields import RequestFields, read_fields
from sowline.wire.request_parser import parse, parse_request

RECORDED = Path(__file__).parent / "data" / "requests_of_gateways_0_1.jsonl"
REQUESTS = RECORDED.read_bytes().splitlines()

FIELDS_OF_0_1 = frozenset(
    [
        "command",
        "command_id",
        "topic",
        "filter",
        "condition",
        "options",
        "sub_id",
        "query_id",
        "batch_size",
        "bookmark",
        "up_to",
        "at_least",
        "max_staleness",
        "ack_type",
        "order_by",
        "top_n",
        "skip_n",
        "sow_keys",
        "data",
        "expiration",
        "correlation_id",
        "key",
        "sow_key",
        "tags",
        "change_id",
        "limit",
        "reversed",
        "token",
        "traceparent",
        "merges",
        "relays",
        "shares",
        "user",
        "sample_n",
        "replaces",
    ]
)
"""The fields that a node of version 0.1 knows. It refuses a request that has any other."""


def result_of(text: bytes) -> Request | str:
    """Return the command of a request, or the reason why there is none."""
    try:
        return parse_request(Request, text)
    except SowlineError as error:
        return error.reason


def test_the_requests_of_a_gateway_of_version_0_1_mean_the_same() -> None:
    """Written as now, each is the same command; one with a malformed bookmark is refused, as it was."""
    results = [result_of(text) for text in REQUESTS]
    sent = [NodeQuery(**msgspec.structs.asdict(read_fields(text))) for text in REQUESTS]
    again = [result_of(encode(query)) for query in sent]
    assert again == results
    refused = [result for result in results if isinstance(result, str)]
    assert set(refused) <= {"invalid bookmark"}
    assert len(refused) < len(results) // 10


def test_a_node_of_version_0_1_knows_each_field() -> None:
    """No field of a request of a gateway is new, and one that says nothing is not sent."""
    assert set(NodeQuery.__struct_fields__) <= FIELDS_OF_0_1
    assert NodeQuery.__struct_fields__ == RequestFields.__struct_fields__
    assert encode(NodeQuery(command="sow", topic="orders")) == b'{"command":"sow","topic":"orders"}'


def test_a_query_to_replace_is_a_sow() -> None:
    """A node refuses any other command there."""
    fields = read_fields(b'{"command":"sow","topic":"orders","replaces":{"command":"flush"}}')
    with pytest.raises(SowlineError, match="expected a Sow, got the command flush") as refused:
        parse(fields)
    assert refused.value.reason == "bad request"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("oof,rate=5,pause,replace,current,reset", "oof"),
        ("conflation=1s,conflation_key=[/a],timestamp,select=[-/,+/a]", "timestamp,select=[-/,+/a]"),
    ],
)
def test_a_stream_has_the_options_that_decide_its_messages(text: str, expected: str) -> None:
    """Subscriptions that differ in others share it; one that makes the messages itself needs fewer."""
    options = parse_options(text)
    assert options_of_stream(options, relays=False) == parse_options(expected)
    assert options_of_stream(options, relays=True) == Options(oof=options.oof)


def test_a_part_of_a_view_has_whole_records_and_all_that_leave() -> None:
    """The gateway selects the fields itself."""
    options = parse_options("select=[-/,+/a],conflation=1s,no_sowkey,intrinsics")
    assert options_of_window(options) == parse_options("intrinsics,oof,timestamp")
    assert options_of_window(options, is_live=False) == parse_options("intrinsics,timestamp")


def read(**fields: Any) -> Any:
    """Return a client's read."""
    return parse_request(Request, msgspec.json.encode({"command": "sow", "topic": "orders", **fields}))


FLOOR = {"orders": {0: Position(0, 7)}}


def test_each_node_gives_all_records_of_a_page() -> None:
    """The gateway merges them; the state must be at least as new as the one that the client has seen."""
    asked = read(filter="/a = 1", order_by="/a DESC", top_n=5, sow_keys=["1"], max_staleness="1s")
    made = records_of(asked, FLOOR)
    assert (made.command, made.filter, made.order_by, made.sow_keys) == ("sow", "/a = 1", "/a DESC", ("1",))
    assert (made.top_n, made.skip_n, made.merges, made.ack_type) == (None, None, True, "processed,stats")
    assert (made.at_least, made.max_staleness) == ("orders:0@7", "1000ms")
    assert records_of(read(), {}).at_least == ""


def test_a_difference_has_the_query_of_what_is_held() -> None:
    """Two queries in one request."""
    held = held_by(read(filter="/a = 1"), FLOOR)
    made = difference_of(past_view_of(records_of(read(), {})), held)
    assert made.relays
    assert parse_request(Sow, bytes(made.replaces)).filter == "/a = 1"
    assert held.bookmark == "orders:0@7"


def test_a_range_is_fetched_of_a_query_with_samples() -> None:
    """By number."""
    made = fetch_of(100, 20).named("f")
    assert (made.command, made.command_id, made.skip_n, made.top_n) == ("fetch", "f", 100, 20)


@pytest.mark.parametrize(
    ("command", "acks"),
    [("subscribe", "processed,completed"), ("sow_and_subscribe", "processed,completed,stats")],
)
def test_a_subscription_is_followed_without_its_rate(command: str, acks: str) -> None:
    """The gateway keeps the rate, and needs changes in the order of time for it."""
    asked = read(command=command, options="rate=5,oof,replace")
    made = subscription_of(records_of(asked, {}), asked, is_paused=True, relays=True)
    options = parse_options(made.options)
    assert (made.command, made.ack_type, made.relays, made.sub_id) == (command, acks, True, SUB_ID)
    assert (options.replace, options.pause, options.oof) == (False, True, True)
    assert options.rate is not None
    assert options.rate != asked.options.rate
    plain = read(command=command)
    followed = subscription_of(records_of(plain, {}), plain, is_paused=False, relays=False)
    assert parse_options(followed.options) == Options()


def test_a_view_has_the_first_records_of_each_node() -> None:
    """Or all groups."""
    page, groups = (view_of(records_of(read(), {}), "ann", count) for count in (10, None))
    assert (page.skip_n, page.top_n, page.user) == (0, 10, "ann")
    assert (groups.skip_n, groups.top_n) == (None, None)


def test_the_rest_of_a_life() -> None:
    """Commands about a subscription, and its end."""
    assert (about_subscription("pause", "p").sub_id, end_of("s").command) == (SUB_ID, "unsubscribe")


def test_reports_are_watched_and_asked_for() -> None:
    """By the position of a command, of some partitions."""
    watch, outcome = watch_of("orders", "w"), outcome_of("orders", Origin(0, 5), [1, 2])
    assert (watch.command, watch.query_id, watch.ack_type) == ("watch_outcomes", "w", "processed")
    assert orjson.loads(bytes(outcome.data)) == {"origin": [0, 5], "partitions": [1, 2]}


def test_a_node_samples_its_partitions_in_turns() -> None:
    """However many it has, a turn takes no longer than 15 seconds."""
    assert sampled_at_once(1) == sampled_at_once(10)
    assert sample_turn_seconds(1) < sample_turn_seconds(1000) <= 15
    assert sampled_at_once(100_000) > sampled_at_once(1000)
    assert sample_turn_seconds(100_000) <= 15
