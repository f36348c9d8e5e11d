"""JSON in which integers of any size stay integers."""

from typing import Any

import orjson
import pytest

from sowline.model.exact_numbers import read_exact, write_exact


@pytest.mark.parametrize("number", [2**63, -(2**63), 2**64 - 1, 2**64, -(2**63) - 1, 10**30])
def test_an_integer_of_any_size_stays_one(number: int) -> None:
    """Also within arrays and objects."""
    value = {"a": [number]}
    text = b'{"a":[%d]}' % number
    assert write_exact(value) == text
    assert read_exact(text) == value
    assert type(read_exact(text)["a"][0]) is int


@pytest.mark.parametrize("value", [None, True, "é", 1.5, [], {"a": {"b": [1, None]}}])
def test_any_other_value_is_as_usual(value: Any) -> None:
    """As orjson writes and reads it."""
    assert write_exact(value) == orjson.dumps(value)
    assert read_exact(orjson.dumps(value)) == value


@pytest.mark.parametrize("text", [b"", b"{", b"nul", b'"\xff"', b"01"])
def test_what_is_no_json_is_refused(text: bytes) -> None:
    """With the error of orjson, for which all callers look."""
    with pytest.raises(orjson.JSONDecodeError):
        read_exact(text)
