"""The registry's client against a real registry: schemas with references, unknown ids, and a registry that ends."""

from collections.abc import Iterator
from contextlib import closing

import orjson
import pytest

from sowline.codecs.codec import codec_of
from sowline.codecs.schema import AVRO, JSON_SCHEMA, PROTOBUF, Schema
from sowline.errors import SowlineError
from sowline.registry.client import Registry, RegistryAway, Resolved
from tests.integration.registry import schema_registry

SKU = {"type": "record", "name": "Sku", "namespace": "shop", "fields": [{"name": "code", "type": "string"}]}
LINE = {"type": "record", "name": "Line", "namespace": "shop", "fields": [{"name": "sku", "type": "Sku"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "lines", "type": {"type": "array", "items": "Line"}},
    ],
}


def text(document: object) -> str:
    """Return JSON."""
    return orjson.dumps(document).decode()


SCHEMAS = {
    "avro": Schema(AVRO, text(ORDER), (("shop.Sku", text(SKU)), ("shop.Line", text(LINE)))),
    "protobuf": Schema(
        PROTOBUF,
        'syntax = "proto3";\npackage shop;\n\nimport "shop/line.proto";\n\n'
        "message Order {\n  string id = 1;\n  repeated Line lines = 2;\n}\n",
        (
            ("shop/sku.proto", 'syntax = "proto3";\npackage shop;\n\nmessage Sku {\n  string code = 1;\n}\n'),
            (
                "shop/line.proto",
                'syntax = "proto3";\npackage shop;\n\nimport "shop/sku.proto";\nmessage Line {\n  Sku sku = 1;\n}\n',
            ),
        ),
    ),
    "json-schema": Schema(
        JSON_SCHEMA,
        text(
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "type": "object",
                "properties": {"lines": {"type": "array", "items": {"$ref": "line.json"}}},
            }
        ),
        (
            ("sku.json", text({"$schema": "http://json-schema.org/draft-07/schema#", "type": "string"})),
            (
                "line.json",
                text(
                    {
                        "$schema": "http://json-schema.org/draft-07/schema#",
                        "type": "object",
                        "properties": {"sku": {"$ref": "sku.json"}},
                    }
                ),
            ),
        ),
    ),
}


@pytest.fixture
def client(registry: str) -> Iterator[Registry]:
    """A client of the registry."""
    with closing(Registry(registry)) as client:
        yield client


@pytest.mark.parametrize("name", SCHEMAS)
def test_references(client: Registry, name: str) -> None:
    """A schema of each type comes back by its id, with all that it refers to."""
    schema, subject = SCHEMAS[name], f"{name}-value"
    assert client.id_of(subject, schema) is None
    number = client.register(subject, schema)
    assert client.register(subject, schema) == client.id_of(subject, schema) == number
    assert client.resolve(number) == client.latest(subject) == Resolved(schema, subject, 1, number)
    assert client.version(subject, 1).schema == schema
    assert client.versions(subject) == (1,)


def test_resolved_schema_is_usable(client: Registry) -> None:
    """A JSON Schema with references checks records as it is resolved."""
    found = client.resolve(client.register("usable", SCHEMAS["json-schema"]))
    assert found is not None
    codec = codec_of(found.schema)
    assert codec.write(b'{"lines":[{"sku":"a"}]}')
    with pytest.raises(SowlineError, match=r"at /lines\[0\]"):
        codec.write(b'{"lines":[{"sku":1}]}')


def test_unknown(client: Registry) -> None:
    """What is not there is so definitely."""
    assert client.resolve(2**31 - 1) is None
    assert client.resolve(2**32 - 1) is None
    assert client.versions("none") == ()
    assert client.id_of("none", SCHEMAS["avro"]) is None
    with pytest.raises(SowlineError, match="the latest schema of none") as unknown:
        client.latest("none")
    assert unknown.value.reason == "unknown schema"


def test_refused(client: Registry) -> None:
    """A schema that the registry can't parse."""
    with pytest.raises(SowlineError, match="under refused, but the registry answered 422") as refused:
        client.register("refused", Schema(AVRO, "{"))
    assert refused.value.reason == "not registered"


def test_wrong_address(registry: str) -> None:
    """A server that is there but has no such API gives no answer about an id."""
    wrong = Registry(registry.replace("ccompat", "nothing"))
    with closing(wrong), pytest.raises(RegistryAway, match="404"):
        wrong.resolve(1)


def test_killed() -> None:
    """A registry that ended gives no answer, also on connections that were open."""
    with schema_registry() as server, closing(Registry(server.url, timeout=5)) as client:
        assert client.resolve(1) is None
        server.kill()
        with pytest.raises(RegistryAway):
            client.resolve(1)
