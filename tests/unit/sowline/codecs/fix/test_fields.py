"""The fields of a message: tags and values, and data that may contain the separator."""

import orjson
import pytest

from sowline.codecs.fix.fields import FIELDS_MAX, bytes_of, count_of, is_bytes, join, split, value_of
from sowline.codecs.fix.options import FixOptions
from sowline.codecs.schema import FIX, Schema
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.fix.messages import (
    PIPES,
    read,
    refusal,
    written,
)


def test_an_equals_sign_belongs_to_the_value() -> None:
    """Only the first one ends the tag."""
    assert read("58=a=b|") == {"58": "a=b"}


def test_data_fields_may_contain_the_separator() -> None:
    """Their length is in bytes, and is not in the JSON."""
    assert read("95=7|96=a|b=c|d|58=x|") == {"96": "a|b=c|d", "58": "x"}
    assert written({"96": "a|b=c|d", "58": "x"}) == "95=7|96=a|b=c|d|58=x|"
    assert read("95=4|96=é\x01x|") == {"96": "é\x01x"}
    assert read("95=0|96=") == {"96": ""}


def test_bytes_that_are_not_utf8_are_base64() -> None:
    """Text in Latin-1, or as MessageEncoding (347) has it, comes back as it was."""
    message = b"58=\xe9t\xe9|95=3|96=\xff|\x00|"
    assert read(message) == {"58": {"$base64": "6XTp"}, "96": {"$base64": "/3wA"}}
    assert PIPES.write(orjson.dumps(read(message))) == message
    assert PIPES.completed(b'{"58":{"$base64":"SUJN"}}') == b'{"58":"IBM"}'
    assert PIPES.merged(b'{"58":{"$base64":"/w=="}}', b'{"58":"x"}') == b'{"58":"x"}'


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("95=5|96=abc|", "expected 5 bytes and the separator in the data field 96"),
        ("95=2|96=abc|", "expected 2 bytes"),
        ("95=-1|96=abc|", "got '-1'"),
        ("95=999999999|96=abc|", "expected 999999999 bytes"),
        (f"95={'1' * 100_000}|96=abc|", "expected a number of at most 9 digits"),
        ("95=3|58=abc|", "expected the data field 96 after its length 95, got '58='"),
        ("95=3", "expected the data field 96 after its length 95, got the end"),
        ("95=3|", "expected the data field 96"),
    ],
)
def test_data_of_another_length_is_refused(message: str, sentence: str) -> None:
    """No length makes a reader look beyond the message."""
    assert sentence in refusal(message)


OPTIONS = FixOptions(Schema(FIX, '{"separator":"|"}'))


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        (b"55=IBM|38=5|", (["55", "38"], ["IBM", "5"])),
        (b"55=IBM|38=5", (["55", "38"], ["IBM", "5"])),
        (b"58=a|58=|", (["58", "58"], ["a", ""])),
        (b"58=\xff|1=x|", (["58", "1"], [{"$base64": "/w=="}, "x"])),
        (b"95=3|96=a|b|1=x|", (["96", "1"], ["a|b", "x"])),
    ],
)
def test_a_message_is_its_fields_in_order(data: bytes, fields: tuple[list[str], list[object]]) -> None:
    """Joined, they are the message again, with a separator after each."""
    assert split(data, OPTIONS) == fields
    assert join(*fields, OPTIONS) == data.removesuffix(b"|") + b"|"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"55=IBM|x", "expected fields like tag=value with one separator after each, got 'x'"),
        (b"55=IBM||", "got an empty one"),
        (b"", "got an empty one"),
        (b"\xff", r"got '\\xff'"),
        (b"\xff=1", "expected a tag or name in UTF-8"),
        (b"x=1", "expected a tag from 1 to 999999999"),
        (b"1=|" * (FIELDS_MAX + 1), f"expected at most {FIELDS_MAX} fields, got more"),
    ],
)
def test_what_has_no_fields_is_refused(data: bytes, sentence: str) -> None:
    """The sentence has an excerpt of what came."""
    with pytest.raises(SowlineError) as caught:
        split(data, OPTIONS)
    assert caught.value.reason == "bad message"
    assert sentence in caught.value.message


def test_a_message_has_a_limit_of_fields() -> None:
    """No longer one is written."""
    with pytest.raises(SowlineError, match=f"expected at most {FIELDS_MAX} fields, got {FIELDS_MAX + 1}"):
        join(["1"] * (FIELDS_MAX + 1), ["x"] * (FIELDS_MAX + 1), OPTIONS)


def test_counts_are_digits() -> None:
    """Of ASCII, and few of them."""
    assert count_of("453", "012") == 12
    for wrong in ("", "-1", "1.0", "٣", "1" * 10, {"$base64": "/w=="}):
        with pytest.raises(SowlineError, match="expected a number of at most 9 digits in '453'"):
            count_of("453", wrong)


def test_bytes_have_a_text_or_base64() -> None:
    """Only an object with exactly that member stands for bytes."""
    assert value_of(b"x") == "x"
    assert value_of(b"\xff") == {"$base64": "/w=="}
    assert bytes_of({"$base64": "/w=="}) == b"\xff"
    assert bytes_of("x") == b"x"
    assert is_bytes({"$base64": "?"})
    assert not any(map(is_bytes, ("x", {}, {"$base64": 5}, {"$base64": "", "a": 1})))
    with pytest.raises(SowlineError, match=r"expected base64 in [$]base64, got '[?]'"):
        bytes_of({"$base64": "?"})
