"""The nulls that an Avro schema wants and Spark leaves out."""

import json
from typing import Any

import pytest

from sowline.codecs.codec import codec_of
from sowline.codecs.schema import AVRO, Schema
from sowline.errors import SowlineError
from sowline.spark.missing_nulls import MissingNulls


def record(name: str, **types: Any) -> dict[str, Any]:
    """Return a record with these fields."""
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in types.items()]}


def added(schema: dict[str, Any], body: bytes) -> Any:
    """Return a body with its nulls."""
    return json.loads(MissingNulls(codec_of(Schema(AVRO, json.dumps(schema))).described()).added(body))


def test_levels() -> None:
    """They are added in records within records, arrays and maps, and where a record holds itself."""
    inner = record("Inner", x=["null", "int"], n="null", next=["null", "Inner"])
    schema = record("R", a=["int", "null"], b=inner, c={"type": "array", "items": "Inner"})
    schema["fields"].append({"name": "d", "type": {"type": "map", "values": ["null", "Inner"]}})
    empty = {"x": None, "n": None, "next": None}
    body = b'{"b":{"next":{"x":1}},"c":[{},{"x":2}],"d":{"k":{},"none":null}}'
    assert added(schema, body) == {
        "a": None,
        "b": {"x": None, "n": None, "next": {"x": 1, "n": None, "next": None}},
        "c": [empty, {"x": 2, "n": None, "next": None}],
        "d": {"k": empty, "none": None},
    }


def test_what_stays() -> None:
    """A field with a default gets none, nor does one that can't be null or may be several things."""
    schema = record("R", b="int", c=["null", record("A", x=["null", "int"]), "string"])
    schema["fields"].append({"name": "a", "type": ["null", "int"], "default": None})
    assert added(schema, b'{"c":{"y":1}}') == {"c": {"y": 1}}
    assert (
        MissingNulls(codec_of(Schema(AVRO, json.dumps(record("R", b="int")))).described()).added(b"{") == b"{"
    )


@pytest.mark.parametrize(("body", "reason"), [(b"{", "not json"), (b"[]", "not an object")])
def test_no_object(body: bytes, reason: str) -> None:
    """What is no JSON object is refused."""
    with pytest.raises(SowlineError) as refused:
        added(record("R", a=["null", "int"]), body)
    assert refused.value.reason == reason
