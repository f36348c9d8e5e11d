"""Shortcuts for conditions on one field: they answer as the judge of the condition does."""

from typing import Any

import pytest

from sowline.language.filter.parse import parse
from sowline.language.filter.predicates import judged
from sowline.language.filter.shortcuts import Test, shortcut
from sowline.model.path import value_of

VALUES: list[Any] = [
    "x", "xy", "", "5", 5, 5.5, 6, True, False, None, [], ["x", 1], [7], {"b": 1}, float("nan"),
]  # fmt: skip
"""Values of a field, of each kind."""

CONDITIONS = [
    "{} = 'x'",
    "{} < 'y'",
    "5 < {}",
    "{} = 5",
    "{} = NULL",
    "{} LIKE '^x'",
    "{} LIKE 'x+'",
    "{} BETWEEN 5 AND 6",
    "{} BETWEEN 'a' AND 'z'",
    "{} BEGINS WITH ('x', 1)",
    "{} IN ('x', '5')",
    "{} IN ('x', 5)",
    "{} IS NULL",
    "{} IS NAN",
]


def made(text: str) -> Test | None:
    """Return the shortcut for a condition."""
    node = parse(text)
    one = judged(node)
    assert one is not None
    return shortcut(node, *one)


def verdict_of_judge(text: str, value: Any) -> bool:
    """Return whether the judge says TRUE of the value that a path reads."""
    one = judged(parse(text))
    assert one is not None
    return one[1](value_of(value)) is True


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_shortcut_answers_like_the_judge(condition: str) -> None:
    """Whatever the kind of the field's value, also if it is missing."""
    test = made(condition.format("/a"))
    assert test is not None
    text = condition.format("/a")
    for value in VALUES:
        assert test({"a": value}) is verdict_of_judge(text, value), value
    assert test({}) is verdict_of_judge(text, None)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_field_further_down(condition: str) -> None:
    """An object on the way is passed, and anything else has no such field."""
    test = made(condition.format("/a/b/c"))
    assert test is not None
    text = condition.format("/a/b/c")
    for value in VALUES:
        assert test({"a": {"b": {"c": value}}}) is verdict_of_judge(text, value), value
    for document in ({}, {"a": None}, {"a": {"b": 5}}, {"a": "x"}):
        assert test(document) is verdict_of_judge(text, None)


def test_a_path_through_an_array_gives_all_its_elements() -> None:
    """The shortcut leaves that to the path."""
    test = made("/a/b = 2")
    assert test is not None
    assert test({"a": [{"b": 1}, {"b": 2}]})
    assert not test({"a": [{"b": 1}]})


@pytest.mark.parametrize("text", ["/a[0] = 1", "UPPER(/a) = 'X'", "/a + 1 = 2"])
def test_other_operands_have_no_shortcut(text: str) -> None:
    """Only a path of names has one."""
    assert made(text) is None
