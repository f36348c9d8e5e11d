"""The fields of a delta that its paths name."""

import pytest

from sowline.codecs.schema import MessagePayload
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.json_schema.schemas import ORDERS, schema


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
