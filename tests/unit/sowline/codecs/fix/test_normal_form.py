"""JSON from clients in canonical form."""

from typing import Any

import orjson
import pytest

from sowline.codecs.fix.normal_form import FixNormalizer, document_in
from sowline.codecs.fix.options import FixOptions
from sowline.codecs.schema import FIX, Schema
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.fix.messages import (
    PIPES,
    refusal_of,
)


def test_scalars_have_their_text() -> None:
    """Numbers keep their digits; FIX has no exponents. Booleans are Y and N."""
    body = b'{"38":1.50,"44":2e-3,"53":12345678901234567890,"114":true,"141":false,"58":null,"1":[1,true]}'
    assert PIPES.write(body) == b"38=1.50|44=0.002|53=12345678901234567890|114=Y|141=N|58=|1=1|1=Y|"
    assert orjson.loads(PIPES.completed(body)) == {
        "38": "1.50", "44": "0.002", "53": "12345678901234567890", "114": "Y", "141": "N", "58": "", "1": ["1", "Y"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({}, "expected a JSON object with the fields of a message"),
        ([], "expected a JSON object"),
        ({"Symbol": "IBM"}, "expected a tag from 1 to 999999999, got 'Symbol'"),
        ({"58": "a|b"}, "expected no separator in the value of '58'"),
        ({"58": {"$base64": "fA=="}}, "expected no separator in the value of '58'"),
        ({"58": {"$base64": "?"}}, "expected base64 in $base64, got '?'"),
        ({"58": {"a": "b"}}, "expected a text, a number, a boolean or null in '58', got an object"),
        ({"58": []}, "expected at least one value in '58'"),
        ({"58": [["a"]]}, "got an array"),
        ({"453": "2"}, "expected an array of objects with the entries of the group '453'"),
        ({"453": ["A"]}, "expected an array of objects"),
        ({"453": [{}]}, "expected an array of objects"),
        ({"453": [{"55": "IBM"}]}, "expected members of the group 453 in its entries, got '55'"),
        ({"453": [{"448": ["A", "B"]}]}, "got an array"),
        ({"95": "1", "96": "a"}, "expected no '95': it is computed from the data field"),
        ({"8": "FIX.4.4", "35": "D", "9": "5"}, "expected no '9': 9 is computed"),
        ({"11": "1", "10": "000"}, "expected no '10'"),
        ({"8": "FIX.4.4"}, "expected one text in '35'"),
        ({"8": "FIX.4.4", "35": ["D", "8"]}, "expected one text in '35'"),
        ({"8": ["FIX.4.4", "FIX.4.2"], "35": "D"}, "expected one text in '8'"),
    ],
)
def test_json_that_no_message_has(document: Any, sentence: str) -> None:
    """It can be neither written nor stored."""
    assert sentence in refusal_of(document)


@pytest.mark.parametrize(
    "body", [b"{", b'{"58":"\\ud800"}', b'{"58":' + b"9" * 5000 + b"}", b'{"58":1e999999999}', b'{"58":\xff}']
)
def test_json_that_is_not_valid(body: bytes) -> None:
    """A record from an API is checked like any other."""
    with pytest.raises(SowlineError, match="expected") as caught:
        PIPES.write(body)
    assert caught.value.reason == "bad message"


def test_fields_have_one_name() -> None:
    """A client may write the name or the tag, and not both: one of the values would be lost."""
    options = FixOptions(Schema(FIX, '{"names":{"54":"Side"}}'))
    normalizer = FixNormalizer(options)
    assert normalizer.named({"54": "1", "11": "x"}) == {"Side": "1", "11": "x"}
    with pytest.raises(SowlineError, match="expected each field once, got one by its name and by its tag"):
        normalizer.named({"54": "1", "Side": "2"})


def test_json_nests_as_deep_as_records() -> None:
    """A deeper document is a bad message."""
    with pytest.raises(SowlineError, match="expected at most 500 levels") as caught:
        document_in(b'{"58":' + b"[" * 600 + b"]" * 600 + b"}")
    assert caught.value.reason == "bad message"


def test_entries_and_values_are_canonical() -> None:
    """Members of groups become texts, as fields do; one value is no array."""
    body = b'{"453":[{"448":5,"802":[{"523":true}]}],"58":["a"]}'
    assert PIPES.completed(body) == b'{"453":[{"448":"5","802":[{"523":"Y"}]}],"58":"a"}'
