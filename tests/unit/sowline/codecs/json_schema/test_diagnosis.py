"""Where and why a body is not valid."""

from typing import Any

import orjson
import pytest

from sowline.codecs.json_schema import JsonSchemaCodec
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.json_schema.schemas import DRAFT_7, LINE, ORDERS, read, schema

DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"id": 3}, 'at /id, but it is not of type "string": got 3'),
        ({"id": "a"}, "at /id, but it is shorter than 2 characters"),
        ({"id": "ab", "state": "x"}, 'at /state, but it is not one of "open" or "closed": got "x"'),
        ({"id": "ab", "line": {}}, 'at /line, but it has no "sku", which is required'),
        ({"id": "ab", "lines": [{"sku": "a"}, {"sku": 1}]}, r"at /lines\[1\]/sku, but"),
        ({"id": "ab", "line": {"sku": "a", "a/b~": ""}}, r"at /line\[/a/b~\], but"),
        ({"id": "ab", "line": {"sku": "a", "x": 1}}, "at /line, but Additional properties .*'x'"),
        ({"id": "ab", "price": ""}, 'at /price, but it is not valid under oneOf: got ""'),
        ({"id": "ab", "both": 2}, "at /both, but it is less than the minimum of 3: got 2"),
        ({"id": "ab", "tags": {"b": 1}}, "at /tags, but Additional properties"),
        (
            {"id": "ab", "tags": {"a": ""}},
            "at /tags, but it is not valid under .*patternProperties: got an object",
        ),
        ({"id": "ab", "flags": {"x": 1}}, "at /flags/x, but it is not of type"),
        ([], "a JSON object, got an array"),
    ],
)
def test_invalid(body: Any, message: str) -> None:
    """What the schema does not describe is refused: where, and what came."""
    for check in (ORDERS.write, lambda text: read(ORDERS, text)):
        with pytest.raises(SowlineError, match=message) as bad:
            check(orjson.dumps(body))
        assert bad.value.reason == "bad message"


def test_long_values_are_cut() -> None:
    """A message shows the start of a long value."""
    with pytest.raises(SowlineError) as bad:
        ORDERS.write(orjson.dumps({"id": "ab", "qty": "x" * 100_000}))
    assert len(bad.value.message) < 500
    assert bad.value.message.endswith("xxx…")


def test_next_to_a_reference() -> None:
    """Up to draft 7, nothing else counts in a schema with `$ref`."""
    line = {"$ref": "#/$defs/line", "required": ["color"]}
    document = {"properties": {"line": line}, "$defs": {"line": LINE}}
    for draft, reason in ((DRAFT_7, "bad message"), (DRAFT_2020, "incomplete record")):
        with pytest.raises(SowlineError, match="at /line") as refused:
            JsonSchemaCodec(schema({"$schema": draft, **document})).completed(b'{"line":{"sku":3}}')
        assert refused.value.reason == reason


def test_schemas_with_names_within() -> None:
    """A `$ref` within a schema with its own `$id` is another's; the message then stops above it."""
    inner = {"$id": "http://example.com/a", "x": {"type": "integer"}, "properties": {"b": {"$ref": "#/x"}}}
    codec = JsonSchemaCodec(schema({"x": {"type": "nope"}, "properties": {"a": inner}}))
    assert codec.write(b'{"a":{"b":1}}')
    with pytest.raises(SowlineError, match=r"at /a/b, but it is not valid under [$]ref: got 3.5"):
        codec.write(b'{"a":{"b":3.5}}')


def test_anchors() -> None:
    """A `$ref` to an anchor decides like any other; the message stops above it."""
    document = {
        "properties": {"a": {"$ref": "#one"}},
        "$defs": {"one": {"$anchor": "one", "type": "integer"}},
    }
    with pytest.raises(SowlineError, match=r"at /a, but it is not valid under [$]ref: got 3.5"):
        JsonSchemaCodec(schema(document)).write(b'{"a":3.5}')


def test_errors_of_alternatives() -> None:
    """A deep body that fits no alternative is refused at once: no error is made of every combination."""
    operation = {"properties": {"args": {"items": {"$ref": "#"}}, "op": {"type": "string"}}, "type": "object"}
    codec = JsonSchemaCodec(schema({"anyOf": [{**operation, "maxProperties": n} for n in (3, 4, 5)]}))
    body = b'{"op":"or","args":[' * 200 + b"3" + b"]}" * 200
    with pytest.raises(SowlineError, match="it is not valid under anyOf: got an object"):
        codec.write(body)
