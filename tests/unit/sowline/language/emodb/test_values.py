"""Which values are the same, how they sort, and what text they have."""

from typing import Any

import pytest

from sowline.language.emodb.json_text import json_text
from sowline.language.emodb.text_order import key_order
from sowline.language.emodb.values import UNDEFINED, as_set, compare_numbers, same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (True, 1),
        (0.0, -0.0),
        ([1], [1.0]),
        ({"a": [0]}, {"a": [False]}),
        (None, UNDEFINED),
        ("1", 1),
    ],
)
def test_what_python_holds_equal_may_differ(one: Any, other: Any) -> None:
    """The kind counts, at any depth."""
    assert same(one, one)
    assert not same(one, other)
    assert not same(other, one)


def test_the_order_of_keys_does_not_count() -> None:
    """The order of elements does."""
    assert same({"a": 1, "b": [1, 2]}, {"b": [1, 2], "a": 1})
    assert not same([1, 2], [2, 1])


def test_text_sorts_by_utf16_code_units() -> None:
    """A character beyond U+FFFF comes before one at its end."""
    assert as_set(["\uffff", "\U0001f600", "a", "Z"]) == ["Z", "a", "\U0001f600", "\uffff"]
    assert sorted(["\uffff", "\U0001f600", "~z", "a"], key=key_order) == ["~z", "a", "\U0001f600", "\uffff"]


def test_numbers_compare_as_doubles_if_one_is() -> None:
    """Two integers compare exactly, an integer and a double only as far as a double can tell."""
    assert compare_numbers(9007199254740993, 9007199254740992) > 0
    assert compare_numbers(9007199254740993, 9007199254740992.0) == 0
    assert compare_numbers(-0.0, 0) < 0


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (100.0, "100.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (-3.2e14, "-3.2E14"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (5e-324, "5.0E-324"),
        (2**63 - 1, "9223372036854775807"),
    ],
)
def test_a_number_keeps_its_kind(number: int | float, text: str) -> None:
    """A double has a point, so that it reads back as one."""
    assert json_text(number) == text
    assert type(number)(text) == number


def test_only_what_must_be_is_escaped() -> None:
    """Control characters in capitals; all else as it is."""
    assert json_text('"\\/\b\t\x1f\x7fé\u2028') == '"\\"\\\\/\\b\\t\\u001F\x7fé\u2028"'


def test_a_value_nests_as_deep_as_it_likes() -> None:
    """Its text takes no stack."""
    value: Any = []
    for _ in range(100_000):
        value = [value]
    assert json_text(value) == "[" * 100_001 + "]" * 100_001
