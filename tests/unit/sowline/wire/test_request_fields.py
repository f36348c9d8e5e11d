"""The fields of a request, as a client sends them."""

import pytest

from sowline.errors import SowlineError
from sowline.wire.request_fields import (
    COMMAS_MAX,
    LARGE_BYTES,
    SOW_KEYS_MAX,
    command_id_of,
    read_fields,
    split_frame,
    staleness_seconds,
)


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"command":"publish","condition":"{..}"}', "expected a condition only on sow, subscribe"),
        (b'{"command":"sow","sow_key":"1"}', "got one on sow; use sow_keys"),
        (b'{"command":"publish","at_least":"a:0@1"}', "expected at_least and max_staleness only on sow"),
        (b'{"command":"sow","max_staleness":"soon"}', "max_staleness: expected a duration"),
        (b'{"command":"sow","sample_n":-1}', "expected a sample_n of 0 or more, got -1"),
    ],
)
def test_a_field_is_for_some_commands(text: bytes, message: str) -> None:
    """The refusal names them."""
    with pytest.raises(SowlineError, match=message) as error:
        read_fields(text)
    assert error.value.reason == "bad request"


def test_a_large_request_has_no_long_lists() -> None:
    """Reading them would delay other clients; data may have any number of commas."""
    blank = b" " * LARGE_BYTES
    commas = b"," * (COMMAS_MAX + 1)
    with pytest.raises(SowlineError, match=f"expected at most {COMMAS_MAX} commas in a request without data"):
        read_fields(b'{"command":"sow","filter":"%s"}%s' % (commas, blank))
    data = read_fields(b'{"command":"publish","data":"%s"}%s' % (commas, blank)).data
    assert len(data) == len(commas) + 2


def test_more_keys_than_allowed_are_not_read() -> None:
    """An array of them is refused as a text is."""
    keys = b",".join([b'"1"'] * (SOW_KEYS_MAX + 1))
    with pytest.raises(SowlineError) as error:
        read_fields(b'{"command":"sow","sow_keys":[%s]}' % keys)
    assert error.value.reason == "too many keys"


def test_staleness_is_in_seconds() -> None:
    """A duration of files, as the clock of a service counts."""
    assert staleness_seconds("500ms") == 0.5


def test_the_id_of_a_large_request() -> None:
    """Only its id is read; what can't be read has none."""
    blank = b" " * LARGE_BYTES
    assert command_id_of(b'{"command_id":"7","filter":5}' + blank) == "7"
    assert command_id_of(b'{"command_id":' + blank) == ""
