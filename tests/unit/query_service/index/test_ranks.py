"""Ranks: numbers that sort as values do, and the first few rows."""

from typing import Any

import numpy as np
import pytest

from sowline.model.path import parse_path
from sowline_query_service.index.column import Column
from sowline_query_service.index.ranks import Ranks, Sorting, ranks, top


def column_of(*values: Any) -> Column:
    """A column that holds these."""
    column = Column(parse_path("/a"))
    column.put_rows(slice(0, len(values)), values)
    return column


def in_order(*values: Any) -> list[Any]:
    """The values sorted by their ranks."""
    ranked = ranks(column_of(*values), len(values))
    assert ranked is not None
    assert ranked.hard is None
    return [values[row] for row in np.argsort(ranked.values, kind="stable")]


def test_null_comes_first_then_numbers_then_strings() -> None:
    """Booleans are numbers; nothing is converted."""
    assert in_order("b", 10, None, "10", 9, True, "a", -1.5) == [None, -1.5, True, 9, 10, "10", "a", "b"]
    assert in_order(3, None, 1, 1e300, -1e300) == [None, -1e300, 1, 3, 1e300]
    assert in_order("b", None, "é", "Z", "a") == [None, "Z", "a", "b", "é"]


def test_a_column_of_numbers_is_its_own_ranks() -> None:
    """No copy is made."""
    column = column_of(3, 1, 2)
    ranked = ranks(column, 3)
    assert ranked is not None
    assert np.shares_memory(ranked.values, column.numbers)


def test_texts_rank_as_texts_and_numbers_do_not() -> None:
    """`10` comes before `9` as a text: a column of numbers can't tell."""
    ranked = ranks(column_of("b", None, "a"), 3, text=True)
    assert ranked is not None
    assert ranked.values.tolist() == [2, 0, 1]
    assert ranks(column_of(1, 2), 2, text=True) is None


def test_hard_rows_are_named() -> None:
    """Their rank means nothing."""
    ranked = ranks(column_of(1, [2], 3), 3)
    assert ranked is not None
    assert ranked.hard is not None
    assert ranked.hard.tolist() == [False, True, False]


@pytest.mark.parametrize("count", [2, 100])
def test_new_strings_are_ranked(count: int) -> None:
    """A few or many, also after the dictionary was sorted once."""
    values = ["m", "z", *(f"{'n' if number % 2 else 'a'}{number}" for number in range(count))]
    column = column_of(*values[:2])
    ranks(column, 2)
    column.put_rows(slice(2, len(values)), values[2:])
    ranked = ranks(column, len(values))
    assert ranked is not None
    assert [values[row] for row in np.argsort(ranked.values)] == sorted(values)


ROWS = np.arange(6, dtype=np.intp)
FIRST = np.array([1.0, 0.0, 1.0, 2.0, 1.0, 0.0])
SECOND = np.array([5.0, 9.0, 3.0, 0.0, 4.0, 9.0])


def chosen(rows: Any, terms: list[Any], descending: list[bool], count: int) -> list[int]:
    """What `top` gives, sorted."""
    return sorted(top(rows, terms, descending, count).tolist())


def test_ties_at_the_end_are_all_there() -> None:
    """So that the caller can tell them apart by what ranks don't know."""
    assert chosen(ROWS, [FIRST], [False], 1) == [1, 5]
    assert chosen(ROWS, [FIRST], [False], 2) == [1, 5]
    assert chosen(ROWS, [FIRST], [False], 3) == [0, 1, 2, 4, 5]
    assert chosen(ROWS, [FIRST], [True], 1) == [3]


def test_later_terms_decide_among_ties() -> None:
    """Each in its own direction."""
    assert chosen(ROWS, [FIRST, SECOND], [False, False], 3) == [1, 2, 5]
    assert chosen(ROWS, [FIRST, SECOND], [False, True], 3) == [0, 1, 5]
    assert chosen(ROWS, [FIRST, SECOND], [True, False], 3) == [2, 3, 4]


def test_only_the_rows_given_count() -> None:
    """Whatever the others rank."""
    assert chosen(np.array([0, 2, 3], np.intp), [FIRST, SECOND], [False, False], 1) == [2]


def test_none_and_all() -> None:
    """Without terms, rows are all equal."""
    assert chosen(ROWS, [FIRST], [False], 0) == []
    assert chosen(ROWS, [FIRST], [False], 6) == list(range(6))
    assert chosen(ROWS, [], [], 2) == list(range(6))


def sorting(*hard: bool) -> Sorting:
    """An order that rises by the first term and falls by the second, with rows whose first rank means nothing."""
    first = Ranks(FIRST, np.array(hard) if hard else None)
    return Sorting((first, Ranks(SECOND, None)), (False, True))


def test_an_order_cannot_tell_hard_rows() -> None:
    """If none of the rows is one, it can."""
    assert sorting().can_tell(ROWS)
    some = sorting(False, True, False, False, False, False)
    assert not some.can_tell(ROWS)
    assert not some.can_tell(ROWS[1:2])
    assert some.can_tell(ROWS[2:])
    assert Sorting().can_tell(ROWS)


def test_an_order_has_first_rows() -> None:
    """By its terms, each in its direction; without terms all rows are equal."""
    assert sorted(sorting().first(ROWS, 3).tolist()) == [0, 1, 5]
    assert Sorting().first(ROWS, 1).tolist() == ROWS.tolist()


def test_numbers_rise_as_the_order_goes() -> None:
    """Those of a term that falls are turned round."""
    first, second = sorting().of(np.array([3, 0], np.intp))
    assert first.tolist() == [2.0, 1.0]
    assert second.tolist() == [0.0, -5.0]
