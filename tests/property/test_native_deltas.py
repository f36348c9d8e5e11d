"""The native core makes the trees of plain deltas that Python makes, and leaves all other texts to Python."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.language.emodb import use_native
from sowline.language.emodb.errors import DocumentError
from sowline.language.emodb.parse import read_delta
from sowline.language.emodb.printer import text_of
from tests.panics import panic
from tests.property import test_document
from tests.property.test_document import PIECES, delta_texts, keys, value_texts, values

native: Any = pytest.importorskip("sowline_native")

BLANKS = st.sampled_from(["", "", "", " ", "\n\t\r ", "\x01", "\x0b", "\x20", "\0", "\xa0", "\u2003"])
NUMBERS = st.sampled_from(
    [
        *(
            "0",
            "-0",
            "-0.0",
            "01",
            "1.",
            ".5",
            "+1",
            "1e400",
            "1e-400",
            "1E5",
            "2.5e3",
            "0.1",
            "4.35",
            "1e99",
        ),
        *("999999999999999999", "1000000000000000000", "9223372036854775807", "9223372036854775808"),
        *("-9223372036854775808", "-9223372036854775809", "123456789012345678901", "12345678.1234567"),
        *("0.30000000000000004", "1" * 400, "1" * 400 + ".0", "NaN", "Infinity", "-Infinity", "truth", "nul"),
    ]
)
KEYS = keys | st.sampled_from(["~a", "~", "\ue000", "\ufffd", "\U00010000", "a\ud800", "\x7f", "/"])


@st.composite
def plain_texts(draw: st.DrawFn) -> str:
    """Draw a map or an object of mostly plain JSON, with blanks, escapes and keys that come again."""
    entries = [
        (
            json.dumps(draw(KEYS), ensure_ascii=draw(st.booleans())),
            draw(value_texts | values.map(raw) | NUMBERS),
        )
        for _ in range(draw(st.integers(0, 4)))
    ]
    blank = draw(BLANKS)
    parts = [f"{key}{blank}:{blank}{value}" for key, value in entries]
    dots = draw(st.sampled_from(["..,", "..,", f"{blank}..{blank},", "..", "", ",", "...,"]))
    end = draw(st.sampled_from(["}", "}", "}", "}?", "}}", "", "} x"]))
    return f"{draw(BLANKS)}{{{dots}{blank}{','.join(parts)}{blank}{end}{draw(BLANKS)}"


def raw(value: object) -> str:
    """Return a value as JSON without escapes where none is needed."""
    return json.dumps(value, ensure_ascii=False)


mutated_texts = st.builds(
    test_document._mutated,
    plain_texts() | delta_texts,
    st.lists(
        st.tuples(
            st.integers(0, 60), st.integers(0, 6), st.sampled_from([*PIECES, ""]) | st.text(max_size=2)
        ),
        max_size=3,
    ),
)


@contextmanager
def reading(module: Any) -> Iterator[None]:
    """Read deltas with the native core, or with Python alone."""
    use_native(module)
    try:
        yield
    finally:
        use_native(None)


def outcome_of(text: str) -> tuple[str, str]:
    """Return the tree of a delta and its canonical text, or the reason and the text of the error."""
    try:
        tree = read_delta(text)
    except DocumentError as error:
        return error.reason, f"{error.message} {error.position}"
    return repr(tree), text_of(tree)


def check_delta(text: str) -> None:
    """Raise AssertionError if the native core and Python read a text differently."""
    with reading(native):
        found = outcome_of(text)
    assert found == outcome_of(text), text


@given(text=plain_texts() | delta_texts | mutated_texts)
@example('{..,"a":1,"a":2}')
@example('{"a":{"b":1,"b":2}}')
@example('{..,"\U00010000":1,"\ue000":2,"~z":3,"a":4}')
@example('{..,"a":"\ud800"}')
@example('{..,"a":"\\ud800"}')
@example('{..,"a":"\\ud83d\\ude00\\u0000"}')
@example('{..,"\\u0061":1,"a":2}')
@example('{..,"a":-0,"b":-0.0,"c":1.0}')
@example("{..,}")
@example('{..,"a":1}?')
@example('{..,"a":1{"b":2}')
@example("{.." + "," + '"a":' + "[" * 101 + "]" * 101 + "}")
@example('{..,"a":' + "[" * 600 + "]" * 600 + "}")
@example('{"a":"' + "[" * 600 + '"}')
@example('{..,"' + '":1,"'.join(map(str, range(100))) + '":1}')
def test_native_trees_are_pythons(text: str) -> None:
    """Whatever text comes: the tree, its canonical text, or the error."""
    check_delta(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{..,"status":"S1","qty":1}', [("qty", 1), ("status", "S1")]),
        (' {"a": [1, 2.5, null, true, {"b": "\\n"}]} ', {"a": [1, 2.5, None, True, {"b": "\n"}]}),
        ("{}", {}),
        ('{..,"a":~}', None),
        ("[1]", None),
        ("~", None),
    ],
)
def test_what_the_native_core_reads(text: str, found: object) -> None:
    """Plain maps and objects; nothing else."""
    assert native.plain_delta(text) == found


def test_a_panic_leaves_the_text_to_python() -> None:
    """Its tree is the same."""
    with reading(type("Module", (), {"plain_delta": panic})):
        assert text_of(read_delta('{..,"a":1}')) == '{..,"a":1}'
