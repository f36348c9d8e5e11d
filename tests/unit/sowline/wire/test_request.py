"""Requests as they are read."""

import pytest

from sowline.errors import SowlineError
from sowline.language.expressions.order import parse_order
from sowline.wire.request import Sow
from sowline.wire.request_fields import SOW_KEYS_MAX, command_id_of, read_fields, split_frame
from sowline.wire.request_parser import parse_request


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "bad request"),
        (b"[]", "bad request"),
        (b'"sow"', "bad request"),
        (b'{"command":5}', "bad request"),
        (b"{}", "bad request"),
        (b'{"command":"sow","filter":null}', "bad request"),
        (b'{"command":"sow","batch_size":1.5}', "bad request"),
        (b'{"command":"sow","color":"red"}', "bad request"),
        (b'{"command":"\xff"}', "bad request"),
        (b'{"command":"sow"} x', "bad request"),
        (b'{"command":"SOW"}', "unknown command"),
        (b'{"command":""}', "unknown command"),
        (b'{"command":"sow","batch_size":0}', "invalid batch size"),
        (b'{"command":"sow","batch_size":10001}', "invalid batch size"),
        (b'{"command":"sow","order_by":"/a DOWN"}', "invalid order by"),
        (b'{"command":"sow","top_n":-1}', "invalid top_n"),
        (b'{"command":"sow","top_n":"5"}', "bad request"),
        (b'{"command":"sow","skip_n":-1,"top_n":1}', "invalid skip_n"),
        (b'{"command":"sow","skip_n":1}', "invalid skip_n"),
        (b'{"command":"sow","sow_keys":[1]}', "bad request"),
        (b'{"command":"sow","sow_keys":{"1":"2"}}', "bad request"),
        (b'{"command":"sow","sow_keys":null}', "bad request"),
        (b'{"command":"sow","sow_keys":"[1]"}', "bad request"),
        (b'{"command":"sow","sow_key":"1"}', "bad request"),
        (b'{"command":"sow","sow_keys":"%s"}' % (b"1," * (SOW_KEYS_MAX + 1)), "too many keys"),
    ],
)
def test_a_bad_request_has_a_reason(text: bytes, reason: str) -> None:
    """Unknown fields, wrong types and unknown commands are errors, not silence."""
    with pytest.raises(SowlineError, match="expected") as error:
        read_fields(text)
    assert error.value.reason == reason


def test_ids_default_to_the_commands() -> None:
    """A query and a subscription are named by their command unless they have names of their own."""
    plain = parse_request(Sow, b'{"command":"sow","command_id":"7"}')
    assert (plain.id_of_query, plain.id_of_subscription) == ("7", "7")
    named = parse_request(Sow, b'{"command":"sow","command_id":"7","query_id":"q","sub_id":"s"}')
    assert (named.id_of_query, named.id_of_subscription) == ("q", "s")


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


def test_a_frame_is_one_request_or_an_array() -> None:
    """An array gives its parts as they stand; anything else is one request."""
    assert split_frame(b' [{"a": 1}, 2]') == [b'{"a": 1}', b"2"]
    assert split_frame(b'{"a":[1]}') == [b'{"a":[1]}']
    assert split_frame(b"[]") == []


@pytest.mark.parametrize("frame", [b"[", b"[1", b"[1]]", b"[\xff]", b"[" * 50_000, b"[" * 900 + b"]" * 900])
def test_an_array_that_is_none_is_refused(frame: bytes) -> None:
    """Broken arrays, and arrays nested beyond all reason, hold no request."""
    with pytest.raises(SowlineError) as error:
        _ = [read_fields(part) for part in split_frame(frame)]
    assert error.value.reason == "bad request"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'{"command_id":"7"}', "7"),
        (b'{"command_id":7}', ""),
        (b'{"data":"\\ud800","command_id":"7"}', "7"),
        (b'{"command_id":"\\ud800"}', ""),
        (b"{}", ""),
        (b"[]", ""),
        (b"x", ""),
        (b"", ""),
    ],
)
def test_the_id_of_a_broken_request(text: bytes, found: str) -> None:
    """A failure names its command wherever an id can be made out."""
    assert command_id_of(text) == found
