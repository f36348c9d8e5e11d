"""Bodies that are refused: the sentence says what was expected, what came, and what to do."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.errors import SowlineError
from sowline.model.body import read_object, trimmed_json, why_not_json, write_body
from sowline.model.nesting import NESTING_MAX
from sowline.wire.request import Publish
from sowline.wire.request_parser import parse_request

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(),
    lambda below: st.lists(below) | st.dictionaries(st.text(), below),
)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"id":"\\ud800"}', "half of a surrogate pair at line 1, column 8: write both halves"),
        (b'{"id":1,\n"\\udc00":1}', "half of a surrogate pair at line 2"),
        (b'{"id":"\xff"}', "in UTF-8, got the byte 0xff at offset 7: encode the text as UTF-8"),
        (b'{"id":"\xed\xa0\x80"}', "in UTF-8, got the byte 0xed at offset 7"),
        (b'{"id":1e400}', "a number too large for a double at line 1, column 7: write it as a string"),
        (b'{"id":1', "expected a JSON object: "),
    ],
)
def test_a_body_that_is_no_json(body: bytes, message: str) -> None:
    """Of a Kafka record, and of a command, whose parser calls half of a pair a truncated text."""
    with pytest.raises(SowlineError) as refused:
        read_object(body)
    assert refused.value.reason == "not json"
    assert message in refused.value.message
    with pytest.raises(SowlineError) as refused:
        read_object(
            bytes(parse_request(Publish, b'{"command":"publish","topic":"orders","data":%s}' % body).data)
        )
    assert refused.value.reason in ("bad request", "not json")
    assert message.partition(" at ")[0].removeprefix("expected a JSON object: ") in refused.value.message


@pytest.mark.parametrize(
    ("body", "got"),
    [
        (b"this is not JSON at all", "'this is not JSON at ' at line 1, column 1"),
        (b'{"id":1,\n "is":nil}', "'nil}' at line 2, column 7"),
    ],
)
def test_a_word_that_is_no_json(body: bytes, got: str) -> None:
    """The message has the word itself, not the literal that begins with the same letter."""
    with pytest.raises(SowlineError) as refused:
        read_object(body)
    assert refused.value.message == f"expected a JSON object, got {got}"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"[]", "an array"),
        (b'"a"', "a string"),
        (b"true", "a boolean"),
        (b"null", "null"),
        (b"1.5", "a number"),
    ],
)
def test_a_body_that_is_no_object(body: bytes, kind: str) -> None:
    """The error names what it is."""
    with pytest.raises(SowlineError) as refused:
        read_object(body)
    assert (refused.value.reason, refused.value.message) == (
        "not an object",
        f"expected a JSON object, got {kind}",
    )


def test_a_body_that_nests_too_deeply_is_refused() -> None:
    """One level less is read."""
    deepest = b'{"a":' * (NESTING_MAX - 1) + b"{}" + b"}" * (NESTING_MAX - 1)
    read_object(deepest)
    with pytest.raises(SowlineError) as refused:
        read_object(b'{"a":%b}' % deepest)
    assert refused.value.reason == "too deep"


def test_what_msgspec_says_well_stays() -> None:
    """A field of a wrong type is no broken JSON."""
    with pytest.raises(msgspec.ValidationError) as error:
        msgspec.json.decode(b'{"a":1}', type=dict[str, str])
    assert why_not_json(b'{"a":1}', error.value, "texts") == f"expected texts: {error.value}"


def test_an_integer_beyond_64_bits_is_a_value_like_any_other() -> None:
    """Only a key may not be one: the body is stored byte for byte."""
    assert read_object(b'{"id":1,"n":1%s}' % (b"0" * 30))["n"] == 1e30


def in_objects(below: Any) -> Any:
    """Return a value one level deeper, between others."""
    return {"b": [1.0, None], "a": below, "": "\u00e9"}


def in_arrays(below: Any) -> Any:
    """Return a value one level deeper, between others."""
    return [below, {"z": 1, "y": True}]


@pytest.mark.parametrize("levels", [1, 200, 201, 254, 255, 256, 400, 401, NESTING_MAX, NESTING_MAX + 1, 1000])
@pytest.mark.parametrize("deeper", [in_objects, in_arrays])
def test_bodies_are_written_by_one_function(levels: int, deeper: Callable[[Any], Any]) -> None:
    """At any depth, in the form in which orjson writes, sorted too; what was given stays as it is."""
    document: Any = {"n": 1}
    for _ in range(levels - 1):
        document = deeper(document)
    before, _, after = orjson.dumps(deeper("below")).partition(b'"below"')
    written = before * (levels - 1) + b'{"n":1}' + after * (levels - 1)
    assert write_body(document) == written
    assert write_body(document) == written
    before, _, after = orjson.dumps(deeper("below"), option=orjson.OPT_SORT_KEYS).partition(b'"below"')
    sorted_bytes = before * (levels - 1) + b'{"n":1}' + after * (levels - 1)
    assert write_body(document, option=orjson.OPT_SORT_KEYS) == sorted_bytes


@pytest.mark.parametrize("write", [write_body, trimmed_json])
def test_json_that_is_kept_takes_no_more_than_its_bytes(write: Callable[[Any], bytes]) -> None:
    """The results of orjson itself have 4 KiB each."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = [write([number]) for number in range(1000)]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < len(kept) * 100


@given(VALUES, st.integers(0, 300))
def test_a_deep_body_is_written_as_a_flat_one(value: Any, levels: int) -> None:
    """Whatever is at the bottom."""
    document = value
    for _ in range(levels):
        document = {"a": document}
    assert write_body(document) == b'{"a":' * levels + orjson.dumps(value) + b"}" * levels


def test_a_deep_body_is_written_whatever_the_error_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of orjson may word it otherwise."""
    dumps = orjson.dumps

    def of_another_version(*given: Any) -> bytes:
        try:
            return dumps(*given)
        except orjson.JSONEncodeError as error:
            raise orjson.JSONEncodeError(str(error).replace("Recursion limit reached", "too deep")) from error

    monkeypatch.setattr(orjson, "dumps", of_another_version)
    document: Any = []
    for _ in range(NESTING_MAX - 1):
        document = [document]
    assert write_body(document) == b"[" * NESTING_MAX + b"]" * NESTING_MAX


@pytest.mark.parametrize("levels", [0, 300])
def test_what_is_no_json_is_refused_at_any_depth(levels: int) -> None:
    """With the error that says what it is."""
    document: Any = 2**64
    for _ in range(levels):
        document = [document]
    with pytest.raises(orjson.JSONEncodeError, match="64-bit"):
        write_body(document)
