"""What gateways ask of query services: that of version 0.1 is taken, and what is asked now is what 0.1 takes."""

from pathlib import Path

import msgspec
import pytest

from sowline.errors import SowlineError
from sowline.wire.node_queries import NodeQuery, encode, options_of_stream, options_of_window
from sowline.wire.options import Options, parse_options
from sowline.wire.request import Request
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
