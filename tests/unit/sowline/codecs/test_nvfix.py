"""NVFIX messages as JSON: names instead of tags, and nothing that is computed."""

from typing import Any

import jsonschema_rs
import orjson
import pytest

from sowline.codecs.fix import NvfixCodec
from sowline.codecs.schema import NVFIX, MessagePayload, Schema
from sowline.errors import SowlineError

SCHEMA = Schema(NVFIX, "{}")
CODEC = NvfixCodec(SCHEMA)


def _codec(**options: Any) -> NvfixCodec:
    return NvfixCodec(Schema(NVFIX, orjson.dumps(options, option=orjson.OPT_SORT_KEYS).decode()))


def _read(message: bytes, codec: NvfixCodec = CODEC) -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(codec.read(MessagePayload(message), SCHEMA))
    return document


def test_fields_are_json_by_name() -> None:
    """Order and texts are kept. Tags of FIX are names like others."""
    message = "Symbol=IBM\x01price €=1.50\x018=FIX\x0110=x\x01Text=\x01".encode()
    document = _read(message)
    assert document == {"Symbol": "IBM", "price €": "1.50", "8": "FIX", "10": "x", "Text": ""}
    assert CODEC.write(orjson.dumps(document)) == message
    assert CODEC.completed(orjson.dumps(document)) == orjson.dumps(document)
    assert _read(message[:-1]) == document


def test_a_name_that_comes_several_times_is_an_array() -> None:
    """As in FIX, the order between several such names is not kept."""
    assert _read(b"a=1\x01b=x\x01a=2\x01") == {"a": ["1", "2"], "b": "x"}
    assert CODEC.write(b'{"a":["1","2"],"b":"x"}') == b"a=1\x01a=2\x01b=x\x01"


def test_groups_and_data_have_names() -> None:
    """There are none without options."""
    assert _read(b"NoLegs=1\x01LegQty=5\x01") == {"NoLegs": "1", "LegQty": "5"}
    codec = _codec(groups={"NoLegs": ["LegSymbol", "LegQty"]}, data={"Size": "Blob"}, separator="|")
    message = b"NoLegs=2|LegSymbol=A|LegQty=5|LegSymbol=B|Size=3|Blob=|=||x=y|"
    document = _read(message, codec)
    assert document == {
        "NoLegs": [{"LegSymbol": "A", "LegQty": "5"}, {"LegSymbol": "B"}], "Blob": "|=|", "x": "y"
    }  # fmt: skip
    assert codec.write(orjson.dumps(document)) == message
    assert jsonschema_rs.validator_for(codec.described()).is_valid(document)


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (b"", "got an empty one"),
        (b"a=1\x01\x01", "got an empty one"),
        (b"a=1\x01b", "got 'b'"),
        (b"=1", "expected a name without = and the separator, not empty, got ''"),
        (b"\xff=1", "expected a tag or name in UTF-8"),
    ],
)
def test_what_is_no_message(message: bytes, sentence: str) -> None:
    """The sentence has what was expected, and an excerpt of what came."""
    with pytest.raises(SowlineError) as caught:
        _read(message)
    assert caught.value.reason == "bad message"
    assert sentence in caught.value.message


@pytest.mark.parametrize(
    "document", [{"a=b": "x"}, {"a\x01b": "x"}, {"": "x"}, {"a": "x\x01y"}, {"a": {"b": "c"}}, {"a": []}]
)
def test_json_that_no_message_has(document: Any) -> None:
    """What a reader would read in another way is refused."""
    for call in (CODEC.write, CODEC.write_delta, CODEC.completed):
        with pytest.raises(SowlineError, match="expected") as caught:
            call(orjson.dumps(document))
        assert caught.value.reason == "bad message"


def test_a_delta_replaces_by_name() -> None:
    """The others stay."""
    delta = CODEC.read_delta(MessagePayload(b"id=1\x01qty=5\x01"), SCHEMA, None)
    assert CODEC.merged(b'{"id":"1","qty":"7","px":"2"}', delta) == b'{"id":"1","qty":"5","px":"2"}'
    assert CODEC.write_delta(delta) == (b"id=1\x01qty=5\x01", ())
    with pytest.raises(SowlineError, match=r"expected no sow\.fields"):
        CODEC.read_delta(MessagePayload(b"id=1\x01"), SCHEMA, ["/id"])


def test_options_that_are_wrong() -> None:
    """Names are those of the messages."""
    with pytest.raises(SowlineError, match="expected no names for nvfix") as caught:
        _codec(names={"55": "Symbol"})
    assert caught.value.reason == "bad schema"
    with pytest.raises(SowlineError, match="expected a name without ="):
        _codec(groups={"a=b": ["c"]})


def test_options_may_change_as_long_as_records_stay_right() -> None:
    """Members of groups may be added, but no groups."""
    _codec(groups={"n": ["a", "b"]}).check_reads(Schema(NVFIX, '{"groups":{"n":["a"]}}'))
    with pytest.raises(SowlineError, match="whether n is the count of a group"):
        _codec(groups={"n": ["a", "b"]}).check_reads(SCHEMA)
    assert CODEC.upgraded(b'{"a":"1"}') == b'{"a":"1"}'
