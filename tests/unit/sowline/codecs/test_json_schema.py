"""JSON under a schema: the bytes stay, the schema decides, and every refusal says where and why."""

import socket
from pathlib import Path
from typing import Any

import orjson
import pytest

from sowline.codecs.codec import codec_of
from sowline.codecs.json_schema import JsonSchemaCodec
from sowline.codecs.schema import JSON_SCHEMA, MessagePayload, Schema
from sowline.errors import SowlineError
from sowline.model.nesting import NESTING_MAX

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
LINE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["sku"],
    "properties": {"sku": {"type": "string"}, "a/b~": {"type": "integer"}},
}
FLAGS = {"properties": {"y": {}}, "additionalProperties": {"type": "boolean"}}
ORDER = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "string", "minLength": 2},
        "qty": {"type": "integer"},
        "day": {"type": "string", "format": "date"},
        "state": {"enum": ["open", "closed"]},
        "line": {"$ref": "#/$defs/line"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "price": {"oneOf": [{"type": "null"}, {"type": "number"}]},
        "both": {"allOf": [{"type": "integer"}, {"minimum": 3}]},
        "tags": {"patternProperties": {"^(a+)+$": {"type": "integer"}}, "additionalProperties": False},
        "flags": FLAGS,
    },
    "$defs": {"line": LINE},
}


def schema(document: Any, **references: Any) -> Schema:
    """Return a schema; references are files `<name>.json`."""
    texts = tuple((f"{name}.json", orjson.dumps(text).decode()) for name, text in references.items())
    return Schema(JSON_SCHEMA, orjson.dumps(document).decode(), texts)


def read(codec: JsonSchemaCodec, body: bytes) -> bytes:
    """Read a payload whose writer schema does not matter."""
    return codec.read(MessagePayload(body), schema({}))


ORDERS = JsonSchemaCodec(schema(ORDER))


def test_bytes_stay() -> None:
    """A valid body keeps its exact text, whatever the way."""
    body = b' {"id": "a\\u0062", "qty": 1.0, "lines":[], "more": 12345678901234567890123}\n'
    assert read(ORDERS, body) == body
    assert ORDERS.write(body) == body
    assert ORDERS.completed(body) == body
    assert ORDERS.upgraded(body) == body
    assert ORDERS.write_delta(body) == (body, ())
    assert ORDERS.read_delta(MessagePayload(body), schema({}), None) == body


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


def test_incomplete() -> None:
    """A merged record without a required field is incomplete; a wrong value is a bad message."""
    with pytest.raises(SowlineError, match='at /, but it has no "id"') as incomplete:
        ORDERS.completed(b'{"qty":1}')
    assert incomplete.value.reason == "incomplete record"
    with pytest.raises(SowlineError, match="at /qty") as bad:
        ORDERS.completed(b'{"id":"ab","qty":"1"}')
    assert bad.value.reason == "bad message"


def test_long_values_are_cut() -> None:
    """A message shows the start of a long value."""
    with pytest.raises(SowlineError) as bad:
        ORDERS.write(orjson.dumps({"id": "ab", "qty": "x" * 100_000}))
    assert len(bad.value.message) < 500
    assert bad.value.message.endswith("xxx…")


def test_formats_are_not_asserted() -> None:
    """A format says what a text means and refuses nothing, in any draft."""
    assert ORDERS.write(b'{"id":"ab","day":"yesterday"}')
    assert JsonSchemaCodec(schema({**ORDER, "$schema": DRAFT_7})).write(b'{"id":"ab","day":"yesterday"}')


def test_delta_fields() -> None:
    """A delta may name the fields that it changes: these are all that counts of it."""
    body = MessagePayload(b'{"b": {"c": 1.0, "d": {"e": [1 ]}}, "a": 2, "g": 3}')

    def of(*fields: str) -> bytes:
        return ORDERS.read_delta(body, schema({}), fields)

    assert of("/a", "/b/d") == b'{"b":{"d":{"e": [1 ]}},"a":2}'
    assert of("/b", "/b/c") == of("/b/c", "/b") == b'{"b":{"c": 1.0, "d": {"e": [1 ]}}}'
    assert of("/none", "/a/x", "/b/x") == b'{"b":{}}'
    assert of() == b"{}"
    for wrong in ("a", "/a[0]", "/b[0]/c", "/b" * 201):
        with pytest.raises(SowlineError) as bad:
            of(wrong)
        assert bad.value.reason == "bad message"


@pytest.mark.parametrize(
    "check", [ORDERS.write, ORDERS.completed, ORDERS.write_delta, lambda b: read(ORDERS, b)]
)
@pytest.mark.parametrize("body", [b"", b"\xff", b"{", b"3", b'{"a":NaN}', b'{"a":"\\ud800"}', b"{}{}"])
def test_not_json(check: Any, body: bytes) -> None:
    """What is no JSON object is refused everywhere."""
    with pytest.raises(SowlineError) as bad:
        check(body)
    assert bad.value.reason == "bad message"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the schema as JSON"),
        ("[]", "as a JSON object"),
        ('{"type":"string"}', 'a schema of objects, got "string"'),
        ('{"type":["null","array"]}', "a schema of objects, got an array"),
        ('{"type":"nope"}', "a valid JSON Schema"),
        ('{"properties":3}', "a valid JSON Schema"),
        ('{"pattern":"("}', "a valid JSON Schema"),
        ('{"properties":{"a":{"pattern":"(?=a)"}}}', "a valid JSON Schema"),
        ('{"pattern":"(a{1000}){1000}"}', "a valid JSON Schema"),
        ('{"$ref":"#/nope"}', "'/nope' does not exist"),
        ('{"$ref":"http://127.0.0.1:1/a.json"}', "127.0.0.1"),
        ('{"$ref":"file:///etc/hostname"}', "hostname"),
        ('{"$schema":"http://example.com/own"}', "example.com/own"),
        ('{"properties":' * 101 + "{}" + "}" * 101, ""),
        ('{"not":' * 200 + "{}" + "}" * 200, "at most 200 levels in the schema"),
        ('{"a":' * 2000 + "{}" + "}" * 2000, "the schema as JSON"),
    ],
)
def test_bad_schema(text: str, message: str) -> None:
    """What is no schema of objects, or needs what is not with it, is refused. Nothing is fetched."""
    if not message:
        assert JsonSchemaCodec(Schema(JSON_SCHEMA, text)).write(b"{}")
        return
    with pytest.raises(SowlineError, match=message) as bad:
        JsonSchemaCodec(Schema(JSON_SCHEMA, text))
    assert bad.value.reason == "bad schema"


def test_nothing_is_fetched(tmp_path: Path) -> None:
    """Neither a file nor a server that is there is asked for a schema."""
    file = tmp_path / "line.json"
    file.write_text("{}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        for reference in (file.as_uri(), f"http://127.0.0.1:{server.getsockname()[1]}/line.json"):
            for document in (
                {"$ref": reference},
                {"$id": reference.replace("line", "a"), "$ref": "line.json"},
            ):
                with pytest.raises(SowlineError) as bad:
                    JsonSchemaCodec(schema(document))
                assert bad.value.reason == "bad schema"
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("own", [{}, {"$id": "http://example.com/order.json"}, {"$id": "order.json"}])
@pytest.mark.parametrize("line", [LINE, {**LINE, "$id": "line.json"}])
def test_references(own: dict[str, str], line: Any) -> None:
    """A schema finds others by their names."""
    document = {**own, "properties": {"line": {"$ref": "line.json"}}}
    codec = JsonSchemaCodec(schema(document, line=line))
    assert codec.write(b'{"line":{"sku":"a"}}')
    with pytest.raises(SowlineError, match="at /line, but"):
        codec.write(b'{"line":{"sku":1}}')
    described = codec.described()
    assert JsonSchemaCodec(schema(described)).write(b'{"line":{"sku":"a"}}')
    with pytest.raises(SowlineError):
        JsonSchemaCodec(schema(described)).write(b'{"line":{"sku":1}}')


def test_references_by_id() -> None:
    """A schema finds others by `$id`, and these find further ones."""
    line = {"$id": "http://example.com/line", "properties": {"sku": {"$ref": "http://example.com/sku"}}}
    sku = {"$id": "http://example.com/sku", "type": "string"}
    document = {"properties": {"line": {"$ref": "http://example.com/line"}}}
    codec = JsonSchemaCodec(schema(document, sku=sku, line=line))
    assert codec.write(b'{"line":{"sku":"a"}}')
    with pytest.raises(SowlineError):
        codec.write(b'{"line":{"sku":1}}')


def test_drafts() -> None:
    """The draft decides what a keyword means; the references are of the same one."""
    bound = {"maximum": 3, "exclusiveMaximum": True}
    old = {"$schema": DRAFT_4, "properties": {"a": bound, "b": {"$ref": "bound.json"}}}
    codec = JsonSchemaCodec(schema(old, bound=bound))
    assert codec.write(b'{"a":2,"b":2}')
    for wrong in (b'{"a":3}', b'{"b":3}'):
        with pytest.raises(SowlineError, match=r"at /[ab], but"):
            codec.write(wrong)
    with pytest.raises(SowlineError, match="a valid JSON Schema"):
        JsonSchemaCodec(schema({"properties": {"a": bound}}))


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


def test_errors_of_alternatives() -> None:
    """A deep body that fits no alternative is refused at once: no error is made of every combination."""
    operation = {"properties": {"args": {"items": {"$ref": "#"}}, "op": {"type": "string"}}, "type": "object"}
    codec = JsonSchemaCodec(schema({"anyOf": [{**operation, "maxProperties": n} for n in (3, 4, 5)]}))
    body = b'{"op":"or","args":[' * 200 + b"3" + b"]}" * 200
    with pytest.raises(SowlineError, match="it is not valid under anyOf: got an object"):
        codec.write(body)


def test_patterns_are_linear() -> None:
    """A pattern that other engines take forever for."""
    codec = JsonSchemaCodec(schema({"properties": {"a": {"pattern": "^(a+)+$"}}}))
    with pytest.raises(SowlineError, match="at /a, but"):
        codec.write(orjson.dumps({"a": "a" * 100_000 + "b"}))


def changed(**properties: Any) -> dict[str, Any]:
    """Return the schema of orders with other properties."""
    return {**ORDER, "properties": {**ORDER["properties"], **properties}}  # type: ignore[dict-item]


READ = {
    "the same": ORDER,
    "another text": {**ORDER, "title": "Order"},
    "fewer required fields": {**ORDER, "required": []},
    "a new optional field": changed(note={"type": "string"}),
    "a new optional field that refers": changed(second={"$ref": "#/$defs/line"}),
    "a wider type": changed(qty={"type": "number"}),
    "null allowed": changed(qty={"type": ["integer", "null"]}),
    "a wider enum": changed(state={"enum": ["open", "closed", "lost"]}),
    "a lower bound": changed(id={"type": "string"}),
    "opened": changed(tags={}),
    "a property less": {**ORDER, "properties": {"id": {"type": "string"}}},
}
NOT_READ = {
    "another required field": {**ORDER, "required": ["id", "qty"]},
    "a new required field": {**changed(note={"type": "string"}), "required": ["id", "note"]},
    "a narrower type": changed(price={"type": "number"}),
    "a narrower enum": changed(state={"enum": ["open"]}),
    "closed": {**ORDER, "additionalProperties": False},
    "another type": changed(qty={"type": "string"}),
    "another draft": {**ORDER, "$schema": DRAFT_7},
    "a field that was one of any name": changed(
        flags={**FLAGS, "properties": {"y": {}, "x": {"type": "integer"}}}
    ),
    "a bound": changed(qty={"type": "integer", "maximum": 10}),
}


@pytest.mark.parametrize("later", READ)
def test_reads_earlier(later: str) -> None:
    """A later schema that refuses no record of the earlier one."""
    JsonSchemaCodec(schema(READ[later])).check_reads(schema(ORDER))


@pytest.mark.parametrize("later", NOT_READ)
def test_reads_not(later: str) -> None:
    """A later schema that may refuse one."""
    with pytest.raises(SowlineError, match="all records of the earlier one are valid") as incompatible:
        JsonSchemaCodec(schema(NOT_READ[later])).check_reads(schema(ORDER))
    assert incompatible.value.reason == "incompatible schema"


def test_new_fields_below() -> None:
    """A field that is new in an object within, in a definition or in a closed object."""
    closed = changed(lines={"type": "array", "items": LINE})
    line = {**LINE, "properties": {**LINE["properties"], "color": {"type": "string"}}}  # type: ignore[dict-item]
    later = {**changed(lines={"type": "array", "items": line}), "$defs": {"line": line}}
    JsonSchemaCodec(schema(later)).check_reads(schema(closed))


@pytest.mark.parametrize("own", [{}, {"$id": "http://example.com/order.json"}])
def test_reads_with_references(own: dict[str, str]) -> None:
    """Each schema is compared with its own references."""
    document = {**own, "properties": {"line": {"$ref": "line.json"}}}
    wider = JsonSchemaCodec(schema(document, line={"type": ["string", "null"]}))
    wider.check_reads(schema(document, line={"type": "string"}))
    narrower = JsonSchemaCodec(schema(document, line={"type": "string"}))
    with pytest.raises(SowlineError, match="refuses some"):
        narrower.check_reads(schema(document, line={"type": ["string", "null"]}))
