"""JSON under JSON Schemas made at random: what is read is what was written, and no bytes do harm."""

from collections.abc import Callable
from typing import Any

import jsonschema
import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.codecs.json_schema import JsonSchemaCodec
from sowline.codecs.schema import JSON_SCHEMA, MessagePayload, Schema
from sowline.errors import SowlineError

NAMES = st.sampled_from(["a", "b", "c/d", "é", "$ref"])
SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.5, 2.0]) | st.text(max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
RECORDS = st.dictionaries(NAMES, VALUES, max_size=4)
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
LEAVES = st.one_of(
    st.just({}),
    st.builds(lambda kind: {"type": kind}, TYPES),
    st.builds(lambda kinds: {"type": kinds}, st.lists(TYPES, min_size=1, max_size=3, unique=True)),
    st.builds(lambda values: {"enum": values}, st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr)),
    st.builds(lambda number: {"minimum": number}, st.integers(-5, 5)),
    st.builds(lambda number: {"maxLength": number}, st.integers(0, 3)),
    st.just({"$ref": "#/$defs/named"}),
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return schemas of objects with fields of some schemas."""
    return st.fixed_dictionaries(
        {"properties": st.dictionaries(NAMES, inner, max_size=3)},
        optional={
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": st.just(False) | inner,
            "maxProperties": st.integers(0, 3),
        },
    )


def _outer(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        _objects(inner),
        st.builds(lambda items: {"items": items}, inner),
        *(st.builds(lambda parts, word=word: {word: parts}, several) for word in ("allOf", "anyOf", "oneOf")),
        st.builds(lambda part: {"not": part}, inner),
    )


PARTS = st.recursive(LEAVES, _outer, max_leaves=6)
SCHEMAS = st.builds(
    lambda top, named: {**top, "$defs": {"named": named}},
    _objects(PARTS),
    PARTS.filter(lambda part: "$ref" not in repr(part)),
)
"""Schemas of objects, with one definition that their parts may refer to."""


def codec_for(document: Any) -> JsonSchemaCodec:
    """Return the codec of a schema."""
    return JsonSchemaCodec(Schema(JSON_SCHEMA, orjson.dumps(document).decode()))


def is_valid(codec: JsonSchemaCodec, body: bytes) -> bool:
    """Return whether a codec takes a body; every way in has to agree, and to keep the bytes."""
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: codec.read(MessagePayload(body), Schema(JSON_SCHEMA, "{}")),
        lambda: codec.write(body),
        lambda: codec.completed(body),
    )
    found: set[bool | str] = set()
    for way in ways:
        try:
            found.add(way() == body)
        except SowlineError as error:
            found.add(error.reason)
    assert found in ({True}, {"bad message"}, {"bad message", "incomplete record"})
    return found == {True}


@given(SCHEMAS, RECORDS)
@example({"properties": {}, "maxProperties": 0, "$defs": {}}, {"a": 1})
def test_as_the_reference_says(document: Any, record: Any) -> None:
    """A body is taken if another validator takes it, and is refused with a sentence otherwise."""
    expected = jsonschema.Draft202012Validator(document).is_valid(record)
    assert is_valid(codec_for(document), orjson.dumps(record)) == expected


@given(SCHEMAS, SCHEMAS, st.lists(RECORDS, max_size=5))
@example({"properties": {"a": {"not": {}}}}, {"properties": {}, "required": ["a"]}, [{"a": None}])
@example(
    {"allOf": [{"properties": {"a": {"type": "string"}}}]},
    {"allOf": [{"properties": {}}], "properties": {"a": {"type": "null"}}},
    [{"a": None}],
)
def test_what_reads_the_earlier(later: Any, earlier: Any, records: list[Any]) -> None:
    """A schema that passes for an earlier one takes its records, apart from fields that only the later names."""
    codec, before = codec_for(later), codec_for(earlier)
    try:
        codec.check_reads(Schema(JSON_SCHEMA, orjson.dumps(earlier).decode()))
    except SowlineError as error:
        assert error.reason == "incompatible schema"
        return
    fresh = set(repr(later).split("'")) - set(repr(earlier).split("'"))
    for record in records:
        body = orjson.dumps(record)
        if is_valid(before, body) and not fresh & set(repr(record).split("'")):
            assert is_valid(codec, body), record


@given(SCHEMAS)
def test_every_schema_reads_itself(document: Any) -> None:
    """A change of the description alone is no change."""
    codec_for({**document, "title": "another"}).check_reads(
        Schema(JSON_SCHEMA, orjson.dumps(document).decode())
    )


@given(
    st.binary(max_size=60)
    | st.text(alphabet='{}[]":,\\u0e1-9. truefalsn', max_size=60).map(str.encode)
    | st.builds(lambda n, m: b'{"a":' * n + b"[" * m + b"1", st.integers(0, 3000), st.integers(0, 3000))
    | st.builds(lambda n: b'{"a":' * n + b"1" + b"}" * n, st.integers(1, 3000))
)
def test_any_bytes(body: bytes) -> None:
    """Any bytes come back as they are, or are refused."""
    codec = codec_for(
        {"properties": {"a": {"$ref": "#"}}, "anyOf": [{"type": "object"}, {"type": "integer"}]}
    )
    is_valid(codec, body)
    for fields in (None, ("/a/a",)):
        try:
            codec.read_delta(MessagePayload(body), Schema(JSON_SCHEMA, "{}"), fields)
        except SowlineError as error:
            assert error.reason == "bad message"


@given(
    st.text(alphabet='{}[]":,#/$refidtypsn', max_size=80)
    | st.recursive(VALUES, _outer).map(lambda d: orjson.dumps(d).decode())
)
@example('{"$ref":"#"}')
@example('{"allOf":[{"$ref":"#/allOf/0"}]}')
@example('{"$id":"http://[","$ref":"x"}')
def test_any_schema(text: str) -> None:
    """Any text is a schema, or is refused as one."""
    try:
        codec = JsonSchemaCodec(Schema(JSON_SCHEMA, text))
    except SowlineError as error:
        assert error.reason == "bad schema"
    else:
        is_valid(codec, b'{"a":1}')
