"""What clients read and print has the integers of the JSON, whatever their size; the rest is as orjson reads it."""

import json
import math
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.cli.columns import table_of
from sowline.client.publisher import encode
from sowline.model.exact_numbers import read_exact, write_exact
from sowline.model.nesting import NESTING_MAX
from sowline.wire.client_message import Message

INTEGERS = st.integers() | st.integers(2**62, 2**66) | st.integers(-(10**300), 10**300)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | INTEGERS
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda below: st.lists(below) | st.dictionaries(st.text(st.characters(codec="utf-8")), below),
)
PIECES = st.sampled_from(
    [
        *(
            "-",
            "0",
            "1",
            "9" * 18,
            "9" * 19,
            "9" * 400,
            ".",
            "e",
            "E",
            "+",
            "5",
            "308",
            "400",
            " ",
            ",",
            "[",
            "]",
        ),
        *('{"a":', "}", '"', "\\ud800", "\\udc00", "\\u0041", "null", "NaN", "Infinity", "\x00", "\xe9"),
    ]
)


def same(one: Any, other: Any) -> bool:
    """Whether two parsed values are the same, with the types and signs of their numbers."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return (one, math.copysign(1, one)) == (other, math.copysign(1, other))
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(same, one.values(), other.values()))
    return bool(one == other)


def outcome(read: Callable[[bytes], Any], body: bytes) -> Any:
    """Return what a function reads, or the error that it raises."""
    try:
        return read(body)
    except orjson.JSONDecodeError as error:
        return error


@given(VALUES, st.booleans())
@example({"id": 123456789012345678903}, False)
@example([2**64 - 1, 2**64, -(2**63), -(2**63) - 1, -0.0, 0, 1e308, 5e-324, 1e22], False)
def test_every_value_is_read_as_python_reads_it(value: Any, is_ascii: bool) -> None:
    """From a body, and in the message that has it."""
    text = json.dumps(value, ensure_ascii=is_ascii).encode()
    assert same(read_exact(text), value)
    assert same(Message("sow", body=b'{"a":%b}' % text).data, {"a": value})


@given(VALUES)
@example({"deep": [10**30]})
def test_every_value_is_written_as_it_is(value: Any) -> None:
    """What was read can be published and printed again."""
    assert same(json.loads(write_exact(value)), value)
    assert same(json.loads(encode({"a": value})), {"a": value})


@given(st.lists(PIECES).map("".join))
@example("1e400")
@example("-1e400")
@example("-0")
@example("-0.0")
@example("1e5")
@example("1.0")
@example("123456789012345678903.5")
@example("1" * 5000)
@example('"\\ud800"')
@example('"\xff"')
@example('{"a":1,"a":2}')
def test_any_other_text_is_read_as_by_orjson(text: str) -> None:
    """Also what is no JSON, with the same error; only integers beyond 64 bits differ, which Python decides."""
    body = text.encode("latin-1")
    by_orjson, found = outcome(orjson.loads, body), outcome(read_exact, body)
    if isinstance(by_orjson, orjson.JSONDecodeError):
        says_so = any(word in str(by_orjson) for word in ("infinite", "infinity"))
        is_too_large = says_so and not isinstance(found, orjson.JSONDecodeError)
        assert same(found, json.loads(body)) if is_too_large else str(found) == str(by_orjson)
    else:
        assert same(found, by_orjson) or same(found, json.loads(body))


@pytest.mark.parametrize("levels", [1, 199, 200, 201, 400, NESTING_MAX])
def test_the_deepest_bodies_too(levels: int) -> None:
    """They are read at any depth that a record may have, and written with more than orjson writes."""
    text = b'{"a":' * levels + b"123456789012345678903" + b"}" * levels
    assert write_exact(read_exact(text)) == text


def test_a_table_has_every_digit() -> None:
    """On a terminal; it is right-aligned like any number."""
    rows: list[dict[str, Any]] = [
        {"id": 1, "n": 123456789012345678903},
        {"id": 2, "n": [10**25, 1.5]},
        {"id": 3, "n": 1e20},
    ]
    assert table_of(rows[:1], 80) == ["ID                      N", " 1  123456789012345678903"]
    assert [line.split()[1] for line in table_of(rows[1:], 80)[1:]] == [
        "[10000000000000000000000000,1.5]",
        "1e+20",
    ]
