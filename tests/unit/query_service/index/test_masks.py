"""Masks: the rows of a column for which a predicate is true, or false."""

from math import nan
from typing import Any

import numpy as np
import pytest

from sowline.language.filter import compile_filter
from sowline.language.filter.tree import Node
from sowline.model.path import parse_path
from sowline_query_service.index import masks
from sowline_query_service.index.column import Column
from sowline_query_service.index.masks import all_of, any_of, judge_texts, nowhere, row_test, undecided_test
from tests.columns import put_many

TEXTS = ["x", "y", "", "xyz", "5", "X", "zz"]
NUMBERS = [0, 1, -1, 5, 5.0, 1.5, -0.0, 7, 2**53]
MIXED = [*TEXTS, *NUMBERS, None, True, False, [1], ["x"], {"b": 1}, 2**53 + 1, nan]

PREDICATES = [
    "/a",
    "/a = 'x'",
    "/a != 'x'",
    "'x' < /a",
    "/a >= 'x'",
    "/a = 5",
    "/a != 5",
    "5 > /a",
    "/a <= 1.5",
    "/a > 9007199254740993",
    "/a BETWEEN 1 AND 5",
    "/a BETWEEN 1 AND 'x'",
    "/a IN ('x', 'y')",
    "/a IN ('x', 'y', 'xyz', 'zz', 'X')",
    "/a IN ('x', 5, 1.5)",
    "/a IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)",
    "/a IN ('x', NULL)",
    "/a IN (5, NULL)",
    "/a IN ('none')",
    "/a IS NULL",
    "/a IS NAN",
    "/a LIKE '^x'",
    "/a LIKE '5'",
    "/a BEGINS WITH ('x')",
    "/a ENDS WITH ('z')",
]


def column_of(values: list[Any]) -> Column:
    """Return a column with these values."""
    column = Column(parse_path("/a"))
    column.reserve(len(values))
    put_many(column, 0, [{"a": value} for value in values])
    return column


def node_of(text: str) -> Node:
    """Return the tree of a predicate."""
    return compile_filter(text).tree


@pytest.mark.parametrize(
    "values", [TEXTS, NUMBERS, MIXED, [None, {}]], ids=["texts", "numbers", "mixed", "null"]
)
@pytest.mark.parametrize("text", PREDICATES)
def test_rows_are_those_for_which_the_filter_is_true(text: str, values: list[Any]) -> None:
    """Or false, if those are wanted; rows that the column can't decide are marked."""
    column, node = column_of(values), node_of(text)
    every = slice(0, len(values))
    undecided = undecided_test(node, column)
    still_open = np.zeros(len(values), np.bool_) if undecided is None else undecided(every)
    filters = [compile_filter(text), compile_filter(f"NOT ({text})")]
    for filter, wanted in zip(filters, (True, False), strict=True):
        found = row_test(node, column, wanted)(every)
        expected = [filter.matches({"a": value}) for value in values]
        assert found[~still_open].tolist() == np.array(expected, np.bool_)[~still_open].tolist()
        some = np.array([0, len(values) - 1])
        assert row_test(node, column, wanted)(some).tolist() == found[some].tolist()


def test_many_numbers_are_not_judged_by_their_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The filter is asked for them."""
    monkeypatch.setattr(masks, "NUMBERS_JUDGED_MAX", 2)
    column = column_of(MIXED)
    undecided = undecided_test(node_of("/a LIKE '5'"), column)
    assert undecided is not None
    found = undecided(slice(0, len(MIXED)))
    assert [type(value) for value, is_open in zip(MIXED, found, strict=True) if is_open and value in NUMBERS]
    assert not row_test(node_of("/a LIKE '5'"), column, True)(np.array([MIXED.index(7)])).any()


def test_texts_can_be_judged_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    """In steps; an equality needs none."""
    monkeypatch.setattr(masks, "CHARS_JUDGED_AT_ONCE", 1)
    assert len(list(judge_texts(node_of("/a LIKE 'x'"), column_of(TEXTS)))) > 1
    assert list(judge_texts(node_of("/a = 'x'"), column_of(TEXTS))) == []
    assert list(judge_texts(node_of("/a LIKE 'x'"), column_of(NUMBERS))) == []


def test_tests_are_joined() -> None:
    """Rows of any, of all, or of none."""
    column, every = column_of(NUMBERS), slice(0, len(NUMBERS))
    one, other = (row_test(node_of(text), column, True) for text in ("/a > 0", "/a < 5"))
    assert any_of([one, other])(every).all()
    assert all_of([one, other])(every).tolist() == [0 < number < 5 for number in NUMBERS]
    assert not any_of([])(every).any()
    assert nowhere(np.array([1, 2])).tolist() == [False, False]


def test_another_node_is_no_predicate_of_a_field() -> None:
    """The caller has told them apart."""
    with pytest.raises(AssertionError, match="not a predicate of one field"):
        row_test(node_of("/a = /b"), column_of([1]), True)
