"""Whether all records of an earlier schema are valid under a later one."""

from typing import Any

import pytest

from sowline.codecs.json_schema import JsonSchemaCodec
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.json_schema.schemas import DRAFT_7, FLAGS, LINE, ORDER, schema


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
