"""The patterns of `like`."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from sowline.language.emodb import compile_condition
from sowline.language.emodb.json_text import quoted
from sowline.language.emodb.like import like, wildcards
from sowline.language.emodb.printer import text_of
from sowline.language.emodb.tree import LikeTest

SECONDS_AT_ONCE = 10.0
"""Generous, as the machine may be busy; what would hang takes minutes."""


def _seconds(task: Callable[[], Any]) -> float:
    began = time.perf_counter()
    task()
    return time.perf_counter() - began


@pytest.mark.parametrize(
    ("pattern", "text", "holds"),
    [
        ("*a" * 1000 + "*", "a" * 100_000, True),
        ("*a" * 1000 + "*b", "a" * 100_000, False),
        ("*" * 1000, "a" * 100_000, True),
        ("*" + "ab*" * 1000, "ab" * 999, False),
        ("a" + "*" * 1000 + "b", "a" * 100_000, False),
    ],
)
def test_a_thousand_stars_are_matched_at_once(pattern: str, text: str, holds: bool) -> None:
    """No pattern takes longer than its text is long."""
    condition = compile_condition(f'like("{pattern}")')
    assert _seconds(lambda: condition.matches(text)) < SECONDS_AT_ONCE
    assert condition.matches(text) is holds


@pytest.mark.parametrize(
    ("pattern", "text", "holds"),
    [
        ("a*", "abc", True),
        ("*c", "abc", True),
        ("a*c", "abc", True),
        ("a*c", "ab", False),
        ("ab*ba", "aba", False),
        ("*b*", "abc", True),
        (r"a\*", "a*", True),
        (r"a\*", "ab", False),
        (r"\\*", "\\x", True),
        ("*", "", True),
        ("a**c", "ac", True),
    ],
)
def test_a_star_is_any_text(pattern: str, text: str, holds: bool) -> None:
    """A backslash makes the next character a plain one."""
    assert compile_condition(f"like({quoted(pattern)})").matches(text) is holds


@pytest.mark.parametrize(
    ("pattern", "canonical"),
    [("abc", '"abc"'), (r"a\*c", '"a*c"'), ("**", "is(string)"), ("a**c", 'like("a**c")'), ("", '""')],
)
def test_a_pattern_that_says_something_simpler(pattern: str, canonical: str) -> None:
    """It becomes that condition; others keep their text."""
    assert text_of(like(pattern)) == canonical


def test_a_run_of_stars_counts_once() -> None:
    """The cost of a pattern is by its runs."""
    assert [wildcards(one.pieces) for one in map(like, ("a**b", "*a*b*")) if isinstance(one, LikeTest)] == [
        1,
        3,
    ]


def test_a_pattern_does_not_end_in_a_backslash() -> None:
    """There is nothing to escape."""
    with pytest.raises(ValueError, match="expected a character after the backslash"):
        like("a\\")
