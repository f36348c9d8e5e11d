"""Ranks: the order of values, and values that come and go."""

import math
from itertools import pairwise

import pytest

from sowline.language.groups.ranks import CONCAT_CHARS_MAX, CUT, Distinct, OrderedValues, Texts, rank, ranked
from sowline.model.path import Scalar

IN_ORDER: list[Scalar] = [
    -math.inf, -1, -0.5, 0, 0.0, False, "0", 1, 1.0, True, "1", "1.0", 2, 2**53 + 1, math.inf, "", "a", "b", "é",
]  # fmt: skip


def test_the_order() -> None:
    """Numbers by number; of equal ones integers, doubles, booleans, strings; then strings by code point."""
    assert all(rank(one) < rank(other) for one, other in pairwise(IN_ORDER))


def test_a_rank_tells_its_value() -> None:
    """With its type; -0.0 is 0.0."""
    assert [repr(ranked(rank(value))) for value in IN_ORDER] == [repr(value) for value in IN_ORDER]
    assert repr(ranked(rank(-0.0))) == "0.0"


def test_equal_values_are_held_once_for_each() -> None:
    """A value is there until the last that equals it has gone; NULL and NaN are never there."""
    values = OrderedValues()
    assert (values.smallest(), values.largest()) == (None, None)
    for value in (2, 2, 1, 3, None, math.nan):
        values.add(value)
    assert (values.smallest(), values.largest(), len(values.order)) == (1, 3, 3)
    for value in (1, 2, None, math.nan):
        values.remove(value)
    assert (values.smallest(), values.largest()) == (2, 3)
    values.remove(2)
    assert (values.smallest(), values.largest()) == (3, 3)
    values.remove(3)
    assert (values.smallest(), values.largest()) == (None, None)


def test_texts_are_joined_in_order() -> None:
    """Each once, though it came twice, or as a number and as what spells it."""
    texts = Texts()
    assert texts.joined(",") is None
    for value in ("b", "a", 10, "10", "a", None, math.nan):
        texts.add(value)
    assert texts.joined("; ") == "10; a; b"
    texts.remove("a")
    texts.remove(10)
    assert texts.joined("; ") == "10; a; b"
    texts.remove("a")
    texts.remove("10")
    assert texts.joined("") == "b"


@pytest.mark.parametrize("delimiter", ["", ",", "; "])
def test_a_joined_text_is_cut(delimiter: str) -> None:
    """At the first text that would make it longer than it may be."""
    first = "a" * 10
    rest = "b" * (CONCAT_CHARS_MAX - len(first) - len(delimiter))
    texts = Texts()
    texts.add(first)
    texts.add(rest)
    assert texts.joined(delimiter) == first + delimiter + rest
    texts.remove(rest)
    texts.add(rest + "b")
    assert texts.joined(delimiter) == first + delimiter + CUT


def test_distinct_values_are_counted() -> None:
    """What spells a number stands for it, each spelling for itself."""
    distinct = Distinct()
    counts = []
    for value in (1, 1.0, True, "1", "01", "x", "x", None, math.nan, 2):
        distinct.add(value)
        counts.append(distinct.count)
    assert counts == [1, 1, 1, 1, 2, 3, 3, 3, 3, 4]
    counts = []
    for value in (2, "x", "x", "01", 1, 1.0, "1", None, True):
        distinct.remove(value)
        counts.append(distinct.count)
    assert counts == [3, 3, 2, 1, 1, 1, 1, 1, 0]


def test_the_one_value() -> None:
    """The first in order of those that equal each other; none where two differ."""
    distinct = Distinct()
    assert distinct.unique() is None
    distinct.add("1")
    distinct.add(True)
    assert distinct.unique() is True
    distinct.add("01")
    assert distinct.unique() is None
    distinct.remove("01")
    distinct.remove(True)
    assert distinct.unique() == "1"


def test_only_the_ends_are_exported_of_ordered_values() -> None:
    """No other value can be the first or last of more."""
    values, others = OrderedValues(), OrderedValues()
    assert values.exported() == []
    for value in (2, 3, 1):
        values.add(value)
    others.merge(values.exported())
    others.merge([0])
    assert (values.exported(), others.exported()) == ([1, 3], [0, 3])


def test_texts_and_different_values_are_exported_whole() -> None:
    """Another state with them has the same result."""
    texts, distinct = Texts(), Distinct()
    for value in ("b", 1, "b", "01"):
        texts.add(value)
        distinct.add(value)
    other_texts, other_distinct = Texts(), Distinct()
    other_texts.merge(texts.exported())
    other_distinct.merge(distinct.exported())
    assert other_texts.joined(",") == texts.joined(",") == "01,1,b"
    assert other_distinct.count == distinct.count == 2
    assert (other_texts.nbytes, other_distinct.nbytes) == (texts.nbytes, distinct.nbytes)
