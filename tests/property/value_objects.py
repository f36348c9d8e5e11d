"""What the property tests of message types without schemas share: JSON of clients, hostile bytes, merges."""

from collections.abc import Callable
from typing import Any

import orjson
from hypothesis import strategies as st

from sowline.codecs.schema import MessagePayload, Schema
from sowline.codecs.schemaless import SchemalessCodec
from sowline.errors import SowlineError
from sowline.model.body import read_object

NAMES = st.sampled_from(["a", "b", "é", "", "$", "$gt"]) | st.text(max_size=3)
REASONS = {"bad message", "too deep"}
MESSAGE_MAX = 500


def any_json(names: st.SearchStrategy[str], *values: Any) -> st.SearchStrategy[bytes]:
    """JSON objects that clients may publish, with names of value objects and what may be in such objects."""
    scalars = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(1 << 63), (1 << 64) - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=5),
        st.sampled_from(
            ["AAE=", "AAF=", "A", "NaN", "2026-11-26T12:34:56.7Z", "0001-01-01T00:00:00Z", [1, "AA=="]]
        ),
        st.sampled_from([*values, 5]),
    )
    parts = st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=2),
        max_leaves=8,
    )
    return st.dictionaries(names, parts, max_size=4).map(orjson.dumps)


def unless_refused(call: Callable[[], bytes]) -> bytes | None:
    """Return what a call returns; None if it refuses its input with a reason and a sentence."""
    try:
        return call()
    except SowlineError as error:
        if (
            error.reason not in REASONS
            or "expected " not in error.message
            or len(error.message) > MESSAGE_MAX
        ):
            raise
    return None


def check_any_json(codec: SchemalessCodec, reader: Schema, body: bytes) -> None:
    """Check that JSON is written as it is completed, or refused by both."""
    message = unless_refused(lambda: codec.write(body))
    completed = unless_refused(lambda: codec.completed(body))
    assert (message is None) == (completed is None)
    if message is not None and completed is not None:
        assert codec.read(MessagePayload(message), reader) == completed
        assert codec.completed(completed) == completed


def check_hostile(codec: SchemalessCodec, reader: Schema, message: bytes, data: st.DataObject) -> None:
    """Check that bytes made of a message, or at random, are refused or give a record that can be written."""
    changed = bytearray(message)
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(changed)))
        changed[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    hostile = data.draw(st.just(bytes(changed)) | st.binary(max_size=20))
    body = unless_refused(lambda: codec.read(MessagePayload(hostile), reader))
    if body is not None:
        read_object(body)
        assert codec.completed(body) == body


def merged_by_the_rules(
    record: dict[str, Any], delta: dict[str, Any], values: list[set[str]]
) -> dict[str, Any]:
    """Return parsed JSON after a delta, by recursion; objects with the names of `values` are no objects."""
    merged = dict(record)
    for name, value in delta.items():
        old = merged.get(name)
        is_merged = all(isinstance(part, dict) and part.keys() not in values for part in (old, value))
        merged[name] = (
            merged_by_the_rules(old, value, values) if is_merged and isinstance(old, dict) else value
        )
    return merged
