"""Which values are the same, and how they sort."""

from typing import Any

import pytest

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
