"""Hash indexes: the rows for strings, and when they have no say."""

from typing import Any

import pytest

from sowline.language.filter import compile_filter
from sowline.model.path import parse_path
from sowline_query_service.index import hash_index
from sowline_query_service.index.hash_index import HashIndex


def index_of(*rows: Any) -> HashIndex:
    """An index of `/a`."""
    index = HashIndex([parse_path("/a")])
    for row, value in enumerate(rows):
        index.put(row, [value])
    return index


def found(index: HashIndex, text: str) -> list[int] | None:
    """The candidates in ascending order."""
    rows = index.lookup(compile_filter(text).tree)
    return None if rows is None else sorted(rows)


def test_a_string_finds_itself_and_the_numbers_it_spells() -> None:
    """But no other string that spells the same number."""
    index = index_of("5", "05", 5, 5.0, 6, True, "x", None)
    assert found(index, "/a = '5'") == [0, 2, 3]
    assert found(index, "'05' = /a") == [1, 2, 3]
    assert found(index, "/a = '1'") == [5]
    assert found(index, "/a IN ('x', '6', 'nowhere')") == [4, 6]


def test_arrays_are_candidates_always() -> None:
    """Until the row holds something else."""
    index = index_of(["x", "y"], "x")
    assert found(index, "/a = 'x'") == [0, 1]
    assert found(index, "/a = 'z'") == [0]
    index.put(0, ["z"])
    assert found(index, "/a = 'z'") == [0]


def test_other_conjuncts_narrow_later() -> None:
    """They are the filter's business; of two for one field the shorter is used."""
    index = index_of("x", "y", "z")
    assert found(index, "/a IN ('x', 'y') AND /b > 5 AND /a LIKE 'x'") == [0, 1]
    assert found(index, "/a IN ('x', 'y') AND /a = 'y'") == [1]


@pytest.mark.parametrize(
    "text",
    [
        "/a = 5",
        "/a IN ('x', 5)",
        "/a = ''",
        "/a != 'x'",
        "/a > 'x'",
        "/a LIKE '^x$'",
        "/a = 'x' OR /b = 'y'",
        "NOT /a = 'x'",
        "/b = 'x'",
        "/a = /b",
        "",
    ],
)
def test_what_is_no_equality_with_strings_is_not_answered(text: str) -> None:
    """Numbers would find strings that no table lists: `5` equals `'5'`, `'05'`, `'5.0'`."""
    assert found(index_of("x"), text) is None


def test_all_fields_must_be_asked_for() -> None:
    """A record with a NULL in one of them is never a candidate."""
    index = HashIndex([parse_path("/a"), parse_path("/b")])
    index.put(0, ["x", "1"])
    index.put(1, ["x", 1])
    index.put(2, ["y", None])
    assert found(index, "/a = 'x'") is None
    assert found(index, "/a = 'x' AND /b = '1'") == [0, 1]
    assert found(index, "/b IN ('1', '2') AND /a IN ('x', 'y')") == [0, 1]


def test_too_many_combinations_are_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trying them all could take longer than a scan."""
    monkeypatch.setattr(hash_index, "COMBINATIONS_MAX", 4)
    index = HashIndex([parse_path("/a"), parse_path("/b")])
    index.put(0, ["x", "u"])
    assert found(index, "/a IN ('x', 'y') AND /b IN ('u', 'v')") == [0]
    assert found(index, "/a IN ('x', 'y', 'z') AND /b IN ('u', 'v')") is None


def test_rows_move_and_leave() -> None:
    """A row is posted under its last values only."""
    index = index_of("x", "x", "x")
    index.put(1, ["y"])
    index.clear(2)
    index.clear(99)
    assert found(index, "/a = 'x'") == [0]
    assert found(index, "/a = 'y'") == [1]
    index.put(2, ["y"])
    index.put(0, [None])
    assert found(index, "/a = 'x'") == []
    assert found(index, "/a = 'y'") == [1, 2]


def test_memory_follows_the_rows() -> None:
    """An emptied index holds no keys."""
    index = index_of(*(f"text {number % 10}" for number in range(1000)))
    full = index.nbytes
    assert full > 1000 * 50
    for row in range(1000):
        index.clear(row)
    assert index.nbytes < full / 3
