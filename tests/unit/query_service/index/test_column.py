"""Columns: what each row holds, in arrays no larger than needed."""

from typing import Any

import numpy as np
import pytest

from sowline.model.path import parse_path
from sowline_query_service.index.cells import ABSENT, BOOLEAN, DOUBLE, HARD, INTEGER, NO_ROW, NULL, TEXT
from sowline_query_service.index.column import SPARE_TEXTS, Column
from tests.columns import put_many


@pytest.fixture
def column() -> Column:
    """A column of `/a` without a row."""
    return Column(parse_path("/a"))


def texts_of(column: Column, rows: int) -> list[str]:
    """The strings of the first rows."""
    assert column.codes is not None
    return [column.dictionary.texts[code] for code in column.codes[:rows]]


EVERY_KIND: list[tuple[Any, Any]] = [
    (ABSENT, NO_ROW),
    (None, NULL),
    ("", NULL),
    ([], NULL),
    ({"b": 1}, NULL),
    ([{}], NULL),
    (7, INTEGER),
    (2**53, INTEGER),
    (2**53 + 1, HARD),
    (-(2**53) - 1, HARD),
    (1.5, DOUBLE),
    (1e300, DOUBLE),
    (float("inf"), HARD),
    (float("nan"), HARD),
    (True, BOOLEAN),
    ("x", TEXT),
    ([1], HARD),
    ([None], HARD),
]


@pytest.mark.parametrize(("value", "kind"), EVERY_KIND)
def test_each_value_has_its_kind_however_it_is_put(column: Column, value: Any, kind: int) -> None:
    """Alone, in a batch of its like, and in a batch of everything."""
    column.put(0, value)
    column.put_rows(slice(1, 4), [value] * 3)
    column.put_rows(slice(4, 8), [value, "text", 5, [1, 2]])
    assert column.kinds[:5].tolist() == [kind] * 5
    assert column.kinds[5:8].tolist() == [TEXT, INTEGER, HARD]


def test_a_column_of_strings_has_no_numbers(column: Column) -> None:
    """And its codes take a byte each."""
    put_many(column, 0, [{"a": "x"}, {"a": "y"}, {}, None, {"a": "x"}, {"a": ""}])
    assert column.numbers is None
    assert column.codes is not None
    assert column.codes.dtype == np.uint8
    assert column.kinds[:6].tolist() == [TEXT, TEXT, NULL, NO_ROW, TEXT, NULL]
    assert texts_of(column, 6) == ["x", "y", "", "", "x", ""]


def test_a_column_of_numbers_has_no_codes(column: Column) -> None:
    """Booleans are numbers here, and what is missing is NaN."""
    put_many(column, 0, [{"a": 1}, {"a": 2.5}, {"a": True}, {}, None])
    assert column.codes is None
    assert column.numbers is not None
    assert np.array_equal(column.numbers[:5], [1, 2.5, 1, np.nan, np.nan], equal_nan=True)
    assert column.kinds[:5].tolist() == [INTEGER, DOUBLE, BOOLEAN, NULL, NO_ROW]


def test_codes_grow_wider_with_the_dictionary(column: Column) -> None:
    """Strings put before keep theirs."""
    texts = [f"text {number}" for number in range(70_000)]
    for start, stop in ((0, 200), (200, 300), (300, 70_000)):
        column.put_rows(slice(start, stop), texts[start:stop])
    assert column.codes is not None
    assert column.codes.dtype == np.uint32
    assert texts_of(column, 70_000) == texts


def test_a_row_that_is_reused_holds_only_its_last_value(column: Column) -> None:
    """Neither the number nor the string of an earlier one is left."""
    column.put(0, 5)
    column.put(0, "x")
    assert column.numbers is not None
    assert np.isnan(column.numbers[0])
    column.put(0, None)
    assert texts_of(column, 1) == [""]
    column.put(0, "y")
    column.clear(0)
    assert column.kinds[0] == NO_ROW
    assert texts_of(column, 1) == [""]


def test_clearing_a_row_never_put_changes_nothing(column: Column) -> None:
    """However high its number."""
    before = len(column.kinds)
    column.clear(10**9)
    assert len(column.kinds) == before


def test_of_a_row_named_twice_the_last_value_counts(column: Column) -> None:
    """A batch may hold two changes of one record."""
    column.put_rows(np.array([3, 1, 3], np.intp), ["old", "x", "new"])
    assert texts_of(column, 4) == ["", "x", "", "new"]


def test_strings_that_left_every_row_are_forgotten(column: Column) -> None:
    """A field that is new in every change doesn't fill the memory."""
    column.put(1, "kept")
    for number in range(10 * SPARE_TEXTS):
        column.put(0, f"passing {number}")
        assert len(column.dictionary) <= 3 * SPARE_TEXTS
    assert texts_of(column, 2) == [f"passing {10 * SPARE_TEXTS - 1}", "kept"]


def test_memory_counts_arrays_and_strings(column: Column) -> None:
    """Twice the strings take about twice the memory."""
    column.put_rows(slice(0, 1000), [f"{number:0100}" for number in range(1000)])
    half = column.nbytes
    assert half > 1000 * 200
    column.put_rows(slice(1000, 2000), [f"{number:0100}" for number in range(1000, 2000)])
    assert 1.8 * half < column.nbytes < 2.2 * half
