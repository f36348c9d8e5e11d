"""The terms of a filter that an index can use."""

from math import inf, nextafter
from typing import Any

import pytest

from sowline.language.filter import compile_filter
from sowline.model.path import Value, parse_path
from sowline.subscriptions.engine.matching.terms import (
    EXACT_INTEGER_MAX,
    KEYS_MAX,
    common,
    keys_of,
    point,
    terms_of,
)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("/a = 'x'", {"x"}),
        ("'x' = /a", {"x"}),
        ("/a = 5", {5, (5,)}),
        ("/a = '5'", {"5", 5}),
        ("/a IN ('x', 5)", {"x", 5, (5,)}),
        ("/a IN ('x', NULL)", {"x"}),
        ("/a = 10 / 2", {5, (5,)}),
    ],
)
def test_an_equality_has_the_keys_of_what_it_equals(text: str, keys: set[Any]) -> None:
    """A number equals texts that spell it; a text equals letter by letter."""
    terms = terms_of(compile_filter(text))
    (equality,) = terms.equalities
    assert (str(equality.path), equality.keys, terms.whole) == ("/a", keys, True)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("/a > 5", (nextafter(5, inf), inf)),
        ("/a >= 5", (5, inf)),
        ("5 > /a", (-inf, nextafter(5, -inf))),
        ("/a <= 5", (-inf, 5)),
        ("/a BETWEEN 1 AND 5", (1, 5)),
        ("/a > 1 AND /a <= 5", (nextafter(1, inf), 5)),
    ],
)
def test_a_range_has_closed_ends(text: str, ends: tuple[float, float]) -> None:
    """The next double makes an open end a closed one."""
    terms = terms_of(compile_filter(text))
    assert (terms.ranges, terms.equalities, terms.whole) == ({parse_path("/a"): ends}, (), True)


@pytest.mark.parametrize(
    "text",
    [
        "/a LIKE 'x'",
        "/a = 1 OR /b = 1",
        "/a != 1",
        "/a = /b",
        "/a IN (1, /b)",
        "/a > 9007199254740993",
        "/a BETWEEN 1 AND 9007199254740993",
        "/a = NULL",
        "MESSAGE_SIZE() > 5",
        f"/a IN ({', '.join(map(str, range(KEYS_MAX)))})",
    ],
)
def test_any_other_term_is_for_the_filter(text: str) -> None:
    """It is not whole without it."""
    terms = terms_of(compile_filter(text))
    assert (terms.equalities, terms.ranges, terms.whole) == ((), {}, False)


@pytest.mark.parametrize(
    ("value", "keys"),
    [
        ("x", ["x"]),
        ("5.0", ["5.0", (5,)]),
        (5, [5]),
        (None, []),
        (["x", "y", "x"], ["x", "y"]),
        ([], []),
    ],
)
def test_a_value_has_the_keys_that_lead_to_filters(value: Value, keys: list[Any]) -> None:
    """Each element of an array has its own."""
    assert list(keys_of(value)) == keys


def test_ranges_can_be_joined_and_be_points() -> None:
    """An integer that doubles can't tell from its neighbors is none."""
    assert common((0, 5), (3, inf)) == (3, 5)
    assert point(5) == (5, 5)
    assert (point(EXACT_INTEGER_MAX + 1), point(inf)) == (None, None)
