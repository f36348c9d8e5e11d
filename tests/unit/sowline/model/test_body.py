"""Bodies that are refused: the sentence says what was expected, what came, and what to do."""

import msgspec
import pytest

from sowline.errors import SowlineError
from sowline.model.body import read_object, why_not_json
from sowline.protocol.request import read_request


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"id":"\\ud800"}', "half of a surrogate pair at line 1, column 8: write both halves"),
        (b'{"id":1,\n"\\udc00":1}', "half of a surrogate pair at line 2"),
        (b'{"id":"\xff"}', "in UTF-8, got the byte 0xff at offset 7: encode the text as UTF-8"),
        (b'{"id":"\xed\xa0\x80"}', "in UTF-8, got the byte 0xed at offset 7"),
        (b'{"id":1e400}', "a number too large for a double at line 1, column 7: write it as a string"),
        (b'{"id":1', "expected a JSON object: "),
    ],
)
def test_a_body_that_is_no_json(body: bytes, message: str) -> None:
    """Of a Kafka record, and of a command, whose parser calls half of a pair a truncated text."""
    with pytest.raises(SowlineError) as refused:
        read_object(body)
    assert refused.value.reason == "not json"
    assert message in refused.value.message
    with pytest.raises(SowlineError) as refused:
        read_object(bytes(read_request(b'{"command":"publish","topic":"orders","data":%s}' % body).data))
    assert refused.value.reason in ("bad request", "not json")
    assert message.split(" at ")[0].removeprefix("expected a JSON object: ") in refused.value.message


def test_what_msgspec_says_well_stays() -> None:
    """A field of a wrong type is no broken JSON."""
    with pytest.raises(msgspec.ValidationError) as error:
        msgspec.json.decode(b'{"a":1}', type=dict[str, str])
    assert why_not_json(b'{"a":1}', error.value, "texts") == f"expected texts: {error.value}"


def test_an_integer_beyond_64_bits_is_a_value_like_any_other() -> None:
    """Only a key may not be one: the body is stored byte for byte."""
    assert read_object(b'{"id":1,"n":1%s}' % (b"0" * 30))["n"] == 1e30
