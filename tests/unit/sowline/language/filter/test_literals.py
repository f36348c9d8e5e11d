"""The literals that clients write read back as the values that they were written for."""

import json
from pathlib import Path
from typing import Any

import pytest

from sowline.language.filter import compile_filter
from sowline.language.filter.literals import quoted, quoted_as_is, unescape

LINES = (Path(__file__).parents[4] / "conformance" / "literals.jsonl").read_text()
CASES = [json.loads(line) for line in LINES.splitlines()]


@pytest.mark.parametrize("line", CASES, ids=lambda line: ascii(line["literal"]))
def test_a_literal(line: dict[str, Any]) -> None:
    """A record with the value equals it, and one with another value does not."""
    value = line["value"]
    equal = compile_filter(f"/a = {line['literal']}")
    assert equal.matches({"a": value})
    assert not equal.matches({"a": f"{value}!"})
    if isinstance(value, str):
        assert quoted(value) == line["literal"]


@pytest.mark.parametrize(
    ("inner", "value"),
    [
        ("plain", "plain"),
        (r"\a\b\t\n\f\r", "\a\b\t\n\f\r"),
        (r"\x41\101\u", "AAu"),
        (r"\'\\", "'\\"),
    ],
)
def test_escapes_are_read(inner: str, value: str) -> None:
    """A code gives a character, and any other escaped character is itself."""
    assert unescape(inner) == value
    assert unescape(quoted(value)[1:-1]) == value


def test_control_characters_are_escaped() -> None:
    """Those with a name by their name, others by their code."""
    assert quoted("\n\x01\x7f'\\é") == r"'\n\x01\x7f\'\\é'"


@pytest.mark.parametrize(
    ("inner", "literal"), [("a", "'a'"), ("it's", '"it\'s"'), (r"it\'s", r"'it\'s'"), ('"', "'\"'")]
)
def test_a_pattern_keeps_its_escapes(inner: str, literal: str) -> None:
    """It is quoted so that they need no change."""
    assert quoted_as_is(inner) == literal
