"""Predicates on one operand with constants: their judges."""

from math import nan
from typing import Any

import pytest

from sowline.language.filter.parse import parse
from sowline.language.filter.predicates import Affixes, Membership, constant, judged
from sowline.language.filter.printer import text_of
from sowline.language.filter.regex import Regex
from sowline.language.filter.tree import Literal


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("/a > 5", 6, True),
        ("5 > /a", 6, False),
        ("/a > 5", None, None),
        ("/a = ''", 1, None),
        ("/a BETWEEN 1 AND 3", [0, 2], True),
        ("/a BETWEEN 1 AND NULL", 2, None),
        ("/a BETWEEN 1 AND NULL", 0, False),
        ("/a LIKE 'b'", "abc", True),
        ("/a LIKE 'b'", ["x", "b"], True),
        ("/a LIKE 'b+'", ["x", None], None),
        ("/a LIKE '1+'", 11, True),
        ("/a IS NULL", [None, 1], True),
        ("/a IS NULL", 0, False),
        ("/a IS NAN", "x", True),
        ("/a IS NAN", None, False),
        ("/a BEGINS WITH ('x', 1)", 12, True),
        ("/a BEGINS WITH ('x', 1)", "a", False),
        ("/a ENDS WITH ('x', NULL)", "a", None),
        ("/a IN (1, 'x')", ["y", "x"], True),
        ("/a IN (1, NULL)", 2, None),
    ],
)
def test_a_judge_gives_the_verdict_for_a_value(text: str, value: Any, expected: bool | None) -> None:
    """The operand's value is all that it depends on."""
    one = judged(parse(text))
    assert one is not None
    operand, judge = one
    assert text_of(operand) == "/a"
    assert judge(value) is expected


@pytest.mark.parametrize(
    "text", ["/a > /b", "/a BETWEEN 1 AND /b", "/a IN (1, /b)", "/a BEGINS WITH (/b)", "NOT /a = 1", "/a"]
)
def test_a_second_operand_needs_more_than_a_judge(text: str) -> None:
    """So does what is no predicate."""
    assert judged(parse(text)) is None


def test_the_elements_of_an_array_are_searched_together() -> None:
    """The limit is for their total length."""
    half = "a" * (longest("(a|b)+c") // 2 + 1)
    one = judged(parse("/a LIKE '(a|b)+c'"))
    assert one is not None
    assert one[1]([half]) is False
    assert one[1]([half, half]) is None


def longest(pattern: str) -> int:
    """Return how long a text may be for the pattern."""
    regex, low, high = Regex(pattern), 1, 1 << 40
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if regex.allows(middle) else (low, middle)
    return low


@pytest.mark.parametrize(
    ("items", "value", "expected"),
    [
        ([1, 2.0], 2, True),
        ([1], "1.0", True),
        (["01"], 1, True),
        (["01"], "1", False),
        (["x"], ["y", None], None),
        ([nan], nan, False),
        ([None], 1, None),
        ([True], 1, True),
    ],
)
def test_membership_is_equality_with_any(items: list[Any], value: Any, expected: bool | None) -> None:
    """A text that is a number equals that number, but not another text."""
    assert Membership(items)(value) is expected


def test_affixes_are_texts() -> None:
    """Numbers and booleans are compared in JSON's notation."""
    assert Affixes("ENDS", [5, True])("is true") is True
    assert Affixes("ENDS", [5])([1, 25]) is True
    assert Affixes("BEGINS", ["x"])(None) is None


def test_the_empty_text_is_null() -> None:
    """It is no value of the language."""
    assert (constant(Literal("")), constant(Literal(0)), constant(Literal("x"))) == (None, 0, "x")
