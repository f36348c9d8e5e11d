"""The errors that every codec raises."""

from collections.abc import Callable

import pytest

from sowline.codecs.errors import bad_message, bad_schema, incompatible_schema, json_object
from sowline.errors import SowlineError


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (bad_message, "bad message"),
        (bad_schema, "bad schema"),
        (incompatible_schema, "incompatible schema"),
    ],
)
def test_an_error_has_its_reason(made: Callable[[str], SowlineError], reason: str) -> None:
    """The sentence stays as it is."""
    error = made("expected a, got b")
    assert (error.reason, error.message) == (reason, "expected a, got b")


def test_an_object_is_parsed() -> None:
    """Blanks around it do not matter."""
    assert json_object(b' {"a": [1, null]} ') == {"a": [1, None]}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "expected a JSON object"),
        (b"[1]", "expected a JSON object, got an array"),
        (b'{"a":', "expected a JSON object"),
        (b'{"a":"\xff"}', "got the byte 0xff at offset 6"),
        (b'{"a":' * 600 + b"1" + b"}" * 600, "expected at most 500 levels"),
    ],
)
def test_what_is_no_object_is_a_bad_message(body: bytes, sentence: str) -> None:
    """Whatever is wrong with the JSON, the message is at fault."""
    with pytest.raises(SowlineError, match=sentence) as refused:
        json_object(body)
    assert refused.value.reason == "bad message"
