"""The codec of `json-schema`: bytes stay, and what the schema does not describe is refused."""

from typing import Any

import orjson
import pytest

from sowline.codecs.codec import codec_of
from sowline.codecs.json_schema import JsonSchemaCodec
from sowline.codecs.schema import MessagePayload
from sowline.errors import SowlineError
from sowline.model.nesting import NESTING_MAX
from tests.unit.sowline.codecs.json_schema.schemas import DRAFT_7, ORDER, ORDERS, read, schema


def test_bytes_stay() -> None:
    """A valid body keeps its exact text, whatever the way."""
    body = b' {"id": "a\\u0062", "qty": 1.0, "lines":[], "more": 12345678901234567890123}\n'
    assert read(ORDERS, body) == body
    assert ORDERS.write(body) == body
    assert ORDERS.completed(body) == body
    assert ORDERS.upgraded(body) == body
    assert ORDERS.write_delta(body) == (body, ())
    assert ORDERS.read_delta(MessagePayload(body), schema({}), None) == body


def test_incomplete() -> None:
    """A merged record without a required field is incomplete; a wrong value is a bad message."""
    with pytest.raises(SowlineError, match='at /, but it has no "id"') as incomplete:
        ORDERS.completed(b'{"qty":1}')
    assert incomplete.value.reason == "incomplete record"
    with pytest.raises(SowlineError, match="at /qty") as bad:
        ORDERS.completed(b'{"id":"ab","qty":"1"}')
    assert bad.value.reason == "bad message"


def test_formats_are_not_asserted() -> None:
    """A format says what a text means and refuses nothing, in any draft."""
    assert ORDERS.write(b'{"id":"ab","day":"yesterday"}')
    assert JsonSchemaCodec(schema({**ORDER, "$schema": DRAFT_7})).write(b'{"id":"ab","day":"yesterday"}')


@pytest.mark.parametrize(
    "check", [ORDERS.write, ORDERS.completed, ORDERS.write_delta, lambda b: read(ORDERS, b)]
)
@pytest.mark.parametrize("body", [b"", b"\xff", b"{", b"3", b'{"a":NaN}', b'{"a":"\\ud800"}', b"{}{}"])
def test_not_json(check: Any, body: bytes) -> None:
    """What is no JSON object is refused everywhere."""
    with pytest.raises(SowlineError) as bad:
        check(body)
    assert bad.value.reason == "bad message"


def test_described() -> None:
    """Without references, the description is the schema; a caller may change it."""
    assert ORDERS.described() == ORDER
    ORDERS.described().clear()
    assert ORDERS.described() == ORDER


def test_codec_of() -> None:
    """The message type has this codec."""
    assert isinstance(codec_of(schema(ORDER)), JsonSchemaCodec)


TREE = {"type": "object", "properties": {"below": {"$ref": "#"}, "name": {"type": "string"}}}


def nested(levels: int, leaf: bytes = b"{}") -> bytes:
    """Return objects in objects."""
    return b'{"below":' * (levels - 1) + leaf + b"}" * (levels - 1)


def test_recursive_schema() -> None:
    """Bodies may nest as deep as all bodies; what is wrong far below is refused too."""
    codec = JsonSchemaCodec(schema(TREE))
    assert codec.write(nested(NESTING_MAX))
    for wrong in (nested(NESTING_MAX + 1), nested(NESTING_MAX, b"3"), nested(NESTING_MAX, b'{"name":3}')):
        with pytest.raises(SowlineError) as bad:
            codec.write(wrong)
        assert bad.value.reason == "bad message"


def test_deep_bodies_under_long_chains() -> None:
    """Where one level takes validation many steps, bodies may nest less: the stack is never used up."""
    chain = {f"n{number}": {"allOf": [{"$ref": f"#/$defs/n{number + 1}"}]} for number in range(150)}
    codec = JsonSchemaCodec(
        schema({"$ref": "#/$defs/n0", "$defs": {**chain, "n150": {"properties": {"below": {"$ref": "#"}}}}})
    )
    assert codec.write(nested(100))
    with pytest.raises(SowlineError, match="at most 105 levels"):
        codec.write(nested(106))


def test_patterns_are_linear() -> None:
    """A pattern that other engines take forever for."""
    codec = JsonSchemaCodec(schema({"properties": {"a": {"pattern": "^(a+)+$"}}}))
    with pytest.raises(SowlineError, match="at /a, but"):
        codec.write(orjson.dumps({"a": "a" * 100_000 + "b"}))


def test_a_later_schema_may_refuse_records() -> None:
    """Then it is incompatible. The schema itself reads its records without a proof."""
    narrower = {**ORDER, "required": ["id", "qty"]}
    ORDERS.check_reads(schema(ORDER))
    with pytest.raises(SowlineError, match="all records of the earlier one are valid") as refused:
        JsonSchemaCodec(schema(narrower)).check_reads(schema(ORDER))
    assert refused.value.reason == "incompatible schema"
