"""Compiled schemas: what is no schema, references, and drafts."""

import socket
from pathlib import Path
from typing import Any

import pytest

from sowline.codecs.json_schema import JsonSchemaCodec
from sowline.codecs.schema import JSON_SCHEMA, Schema
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.json_schema.schemas import LINE, schema

DRAFT_4 = "http://json-schema.org/draft-04/schema#"


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
