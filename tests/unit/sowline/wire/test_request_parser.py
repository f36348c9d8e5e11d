"""Typed commands, made of the fields of a request."""

from typing import Any

import msgspec
import pytest

from sowline.errors import SowlineError
from sowline.language.expressions.order import parse_order
from sowline.model.position import Position
from sowline.wire.request import OfGateway, Request, Sow
from sowline.wire.request_fields import COMMANDS
from sowline.wire.request_parser import parse_request


def test_a_request_may_ask_for_a_page_in_an_order() -> None:
    """No `top_n` is no limit; a `top_n` of 0 is a page of nothing, for who only counts."""
    plain = parse_request(Sow, b'{"command":"sow"}')
    assert (plain.order, plain.top_n, plain.skip_n) == (parse_order(""), None, None)
    page = parse_request(Sow, b'{"command":"sow","order_by":"/a desc","top_n":0,"skip_n":5}')
    assert (page.order, page.top_n, page.skip_n) == (parse_order("/a DESC"), 0, 5)


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        (b"[]", ()),
        (b'""', ()),
        (b'["1","2"]', ("1", "2")),
        (b'["a,b"," "]', ("a,b", " ")),
        (b'"1, 2,,"', ("1", "2")),
        (b'["1",""]', ("1", "")),
    ],
)
def test_sow_keys_are_an_array_or_a_text_with_commas(given: bytes, keys: tuple[str, ...]) -> None:
    """Keys of an array are taken as they are; a text is split, and blanks around its keys go."""
    assert parse_request(Sow, b'{"command":"sow","sow_keys":%s}' % given).sow_keys == keys
    assert parse_request(Sow, b'{"command":"sow"}').sow_keys == ()


def test_acks_are_a_list_of_known_kinds() -> None:
    """Kinds are separated by commas; an unknown one is an error."""
    assert parse_request(Sow, b'{"command":"sow","ack_type":"stats, processed,"}').acks == {
        "stats",
        "processed",
    }
    with pytest.raises(SowlineError) as error:
        parse_request(Sow, b'{"command":"sow","ack_type":"all"}')
    assert error.value.reason == "invalid ack type"


def parsed(command: str, **fields: Any) -> Any:
    """Return the command of a request with these fields."""
    return parse_request(Request, msgspec.json.encode({"command": command, **fields}))


@pytest.mark.parametrize("command", [*COMMANDS, "watch_outcomes", "fetch"])
def test_each_command_has_a_type(command: str) -> None:
    """With the fields that it uses, and the id by which it is answered."""
    made = parsed(command, command_id="7")
    assert (made.command, made.command_id) == (command, "7")


def test_values_are_parsed_once() -> None:
    """No later code reads their texts."""
    made = parsed(
        "sow_and_subscribe",
        options="oof",
        bookmark="orders:0@5",
        up_to="orders:0@9",
        at_least="orders:0@7",
        max_staleness="1s",
    )
    assert (made.options.oof, made.options_text) == (True, "oof")
    assert made.bookmark_range.starts == ({"orders": {0: Position(0, 5)}},)
    assert made.bookmark_range.end == {"orders": {0: Position(0, 9)}}
    assert (made.at_least, made.staleness_seconds_max) == ({"orders": {0: Position(0, 7)}}, 1.0)


def test_a_timeline_begins_at_the_epoch() -> None:
    """Unless the client asks for another start; it is for one record, with a limit."""
    assert parsed("timeline", key="a").bookmark_range.starts == ("epoch",)
    assert parsed("timeline", key="a", bookmark="now").bookmark_range.starts != ("epoch",)
    for fields, reason in (({"limit": 0}, "invalid limit"), ({"key": "x" * 5000}, "bad key")):
        with pytest.raises(SowlineError) as error:
            parsed("timeline", **fields)
        assert error.value.reason == reason


def test_a_gateway_demands_more() -> None:
    """A client demands nothing of the kind."""
    held = {"command": "sow", "topic": "orders", "bookmark": "orders:0@5"}
    made = parsed("sow", merges=True, user="ann", replaces=held).of_gateway
    assert (made.merges, made.relays, made.user) == (True, False, "ann")
    assert made.replaces == parse_request(Sow, msgspec.json.encode(held))
    assert parsed("sow").of_gateway == OfGateway()


def test_an_outcome_is_asked_of_partitions() -> None:
    """By the partition and the offset of the command."""
    made = parsed("outcome", topic="orders", data={"origin": [0, 5], "partitions": [1, 2]})
    assert (tuple(made.asked.origin), made.asked.partitions) == ((0, 5), (1, 2))
    with pytest.raises(SowlineError, match="expected an origin and partitions as data"):
        parsed("outcome", topic="orders", data={})


def test_a_request_of_another_kind_is_refused() -> None:
    """The caller takes one kind of command."""
    with pytest.raises(SowlineError, match="expected a Sow, got the command publish"):
        parse_request(Sow, b'{"command":"publish"}')


def test_a_long_list_of_acks_is_refused() -> None:
    """Before it is read."""
    with pytest.raises(SowlineError, match="expected at most 1000 characters, got 1001"):
        parsed("sow", ack_type="x" * 1001)
