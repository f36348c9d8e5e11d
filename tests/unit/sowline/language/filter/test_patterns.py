"""The patterns of LIKE: plain texts, anchors, and regular expressions."""

import pytest

from sowline.language.filter.compiled import compile_filter
from tests.unit.sowline.language.filter.refusals import refusal


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("'b'", "abc", True),
        ("'^b'", "abc", False),
        ("'^a'", "abc", True),
        ("'c$'", "abc", True),
        ("'b$'", "abc", False),
        ("'^abc$'", "abc", True),
        ("'^ab$'", "abc", False),
        (r"'a\.c'", "a.c", True),
        (r"'a\.c'", "abc", False),
        (r"'\$'", "a$b", True),
        (r"'a\^'", "a^", True),
        ("'c$'", "abc\n", False),
        ("'(?m)c$'", "abc\nd", True),
        ("'a.c'", "a\nc", False),
        ("'(?s)a.c'", "a\nc", True),
        ("'^.$'", "é", True),
        (r"'\x41\t'", "A\t", True),
        (r"'it\'s'", "it's", True),
        ("'a'", "A", False),
        ("'(?i)É'", "é", True),
        ("r'^a.'", "x^a.", True),
        ("r'^a.'", "ab", False),
        ("''", "abc", True),
        ("'a]'", "a]", True),
        ("'a'", "\ud800a", True),
        ("'[b]'", "\ud800", False),
    ],
)
def test_like(pattern: str, text: str, found: bool) -> None:
    """LIKE finds a pattern anywhere unless it is anchored; a raw pattern letter by letter."""
    assert compile_filter(f"/a LIKE {pattern}").matches({"a": text}) is found


def test_no_pattern_takes_forever() -> None:
    """The pattern that hangs a backtracking engine is answered at once."""
    hang = compile_filter("/a LIKE '(a+)+$'")
    assert hang.matches({"a": "a" * 100_000})
    assert not hang.matches({"a": "a" * 100_000 + "b"})


@pytest.mark.parametrize(
    "pattern", ["(a", "a**", r"(a)\1", "(?=a)", "a{2000}", "((a{100}){100}){100}", r"\y", "[z-a]"]
)
def test_a_bad_pattern_is_an_error(pattern: str) -> None:
    """A pattern that RE2 refuses is an error at the pattern's column, with RE2's reason."""
    error = refusal(f"/a LIKE '{pattern}'")
    assert error.column == 9
    assert "RE2" in error.message
