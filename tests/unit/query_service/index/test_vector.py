"""Filters over columns: which parts are taken, and what is decided."""

from typing import Any

import numpy as np
import pytest

from sowline.language.filter import compile_filter
from sowline.language.filter.printer import text_of
from sowline.model.path import Path, parse_path
from sowline_query_service.index import masks, vector, verdicts
from sowline_query_service.index.column import Column
from sowline_query_service.index.vector import evaluate, needed_paths, prepare, split
from sowline_query_service.index.verdicts import CHARS_PER_TEXT
from tests.columns import put_many


def columns_of(*documents: dict[str, Any] | None) -> dict[Path, Column]:
    """Columns of `/a` and `/b`."""
    columns = {path: Column(path) for path in (parse_path("/a"), parse_path("/b"))}
    for column in columns.values():
        put_many(column, 0, documents)
    return columns


def found(text: str, *documents: dict[str, Any] | None) -> tuple[list[int], list[int] | None]:
    """The rows that match for certain, and those undecided."""
    terms, rest = split(compile_filter(text).tree)
    assert rest is None
    matches = evaluate(terms, columns_of(*documents), len(documents))
    undecided = None if matches.undecided is None else np.flatnonzero(matches.undecided).tolist()
    return np.flatnonzero(matches.certain).tolist(), undecided


TAKEN = [
    "/a = 'x'",
    "5 < /a",
    "/a BETWEEN 1 AND 2",
    "/a IN (1, 'x', NULL)",
    "/a LIKE '^x'",
    "/a IS NOT NULL",
    "/a IS NAN",
    "/a BEGINS WITH ('x', 'y')",
    "/a",
    "NOT (/a = 1 OR /b = 2 AND /a > 3)",
    "/a > 2 * 3",
    "/a = 9007199254740993",
]

LEFT = ["/a + 1 = 2", "/a = /b", "/a IN (1, /b)", "/a = 1 OR /b = /a", "UPPER(/a) = 'X'", "1 = 1"]


@pytest.mark.parametrize("text", TAKEN)
def test_fields_and_constants_are_taken(text: str) -> None:
    """Whatever joins them."""
    terms, rest = split(compile_filter(text).tree)
    assert len(terms) == 1
    assert rest is None


@pytest.mark.parametrize("text", LEFT)
def test_all_else_is_left(text: str) -> None:
    """To the closure."""
    terms, rest = split(compile_filter(text).tree)
    assert terms == []
    assert rest is not None


def test_conjuncts_are_distinguished() -> None:
    """Those taken narrow the rows for the rest."""
    terms, rest = split(compile_filter("/a = 1 AND /b + 1 = 2 AND /b IS NULL AND /a = /b").tree)
    assert [text_of(term) for term in terms] == ["/a = 1", "/b IS NULL"]
    assert rest is not None
    assert text_of(rest) == "/b + 1 = 2 AND /a = /b"
    assert needed_paths(terms) == {parse_path("/a"), parse_path("/b")}


def test_rows_without_a_record_never_match() -> None:
    """Not even where everything does."""
    assert found("/a IS NULL OR TRUE", {"a": 1}, None, {}) == ([0, 2], None)
    assert found("NOT /a IS NAN", {"a": 1}, None, {}) == ([0, 2], None)


def test_rows_that_no_column_has_seen_never_match() -> None:
    """Columns grow to as many rows as are asked for."""
    terms, _ = split(compile_filter("/a IS NULL").tree)
    certain = evaluate(terms, columns_of({}), 100_000).certain
    assert np.flatnonzero(certain).tolist() == [0]


def test_what_a_column_cannot_hold_is_undecided() -> None:
    """But where another term fails: there no answer could match."""
    documents: list[dict[str, Any]] = [
        {"a": [1, 2], "b": 1},
        {"a": [1, 2], "b": 0},
        {"a": 1, "b": 1},
        {"a": 1, "b": [1]},
    ]
    assert found("/a = 1 AND /b = 1", *documents) == ([2], [0, 3])


def test_conversions_are_the_filter_languages() -> None:
    """A string constant asks numbers too, a number asks strings; LIKE sees what JSON would show."""
    documents: list[dict[str, Any]] = [{"a": 5}, {"a": "5"}, {"a": "05"}, {"a": 5.0}, {"a": True}, {"a": "x"}]
    assert found("/a = '5'", *documents) == ([0, 1, 3], None)
    assert found("/a = 5", *documents) == ([0, 1, 2, 3], None)
    assert found("/a > 5", *documents) == ([5], None)
    assert found("/a < 'a'", *documents) == ([0, 1, 2, 3, 4], None)
    assert found("/a LIKE '^(5|true)$'", *documents) == ([0, 1, 4], None)
    assert found("/a LIKE '0'", *documents) == ([2, 3], None)


def test_more_rows_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last block is shorter than the others."""
    monkeypatch.setattr(vector, "BLOCK_ROWS", 4)
    documents = [{"a": number % 3, "b": [number] if number == 9 else number} for number in range(11)]
    assert found("/a = 0 AND /b > 2", *documents) == ([3, 6], [9])
    assert found("/a = 0 AND /b > 2", *documents[:9]) == ([3, 6], None)


def test_no_term_is_refused() -> None:
    """Every row would match, and no column tells which rows hold a record."""
    with pytest.raises(ValueError, match="at least one term"):
        evaluate([], {}, 5)


class CountingJudge:
    """Judges strings, and counts them."""

    def __init__(self) -> None:
        self.judged: list[Any] = []

    def __call__(self, value: Any) -> bool | None:
        """TRUE of `x`, NULL of `?`."""
        self.judged.append(value)
        return None if value == "?" else bool(value == "x")


def test_each_string_is_judged_once() -> None:
    """Those that come later are judged when the predicate is asked for again."""
    column, judge = Column(parse_path("/a")), CountingJudge()
    column.put_rows(slice(0, 4), ["x", "y", "?", "x"])
    assert column.verdicts.table("predicate", judge).tolist() == [-1, 1, 0, -1]
    column.put(4, "z")
    assert column.verdicts.table("predicate", judge).tolist() == [-1, 1, 0, -1, 0]
    assert judge.judged == ["x", "y", "?", "z"]


def test_verdicts_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The predicate that wasn't asked for longest is forgotten; the newest stays."""
    monkeypatch.setattr(verdicts, "BYTES_MAX", 8)
    column, judge = Column(parse_path("/a")), CountingJudge()
    column.put_rows(slice(0, 3), ["x", "y", "z"])
    for predicate in ("first", "second", "first", "third"):
        column.verdicts.table(predicate, judge)
    assert column.verdicts.nbytes == 8
    judge.judged.clear()
    column.verdicts.table("first", judge)
    assert judge.judged == []
    column.verdicts.table("second", judge)
    assert judge.judged == ["x", "y", "z"]


def test_texts_of_many_numbers_are_left_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judging each would take long, and can't be done in steps; strings and booleans are decided."""
    monkeypatch.setattr(masks, "NUMBERS_JUDGED_MAX", 1)
    documents: list[dict[str, Any]] = [{"a": 5}, {"a": 1.5}, {"a": True}, {"a": "5"}, {"a": "x"}, {"a": [5]}]
    assert found("/a LIKE '5'", *documents) == ([3], [0, 1, 5])
    assert found("NOT /a BEGINS WITH ('5')", *documents) == ([2, 4], [0, 1, 5])
    assert found("/a LIKE '5'", *documents[1:4]) == ([0, 2], None)


def test_strings_are_judged_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing is left to judge, but of equalities, which look their strings up."""
    monkeypatch.setattr(masks, "CHARS_JUDGED_AT_ONCE", 2 * CHARS_PER_TEXT)
    columns = columns_of(*({"a": f"text {number}"} for number in range(7)))
    terms, _ = split(compile_filter("NOT (/a LIKE '[3-9]' OR /a = 'text 1') AND /b IS NULL").tree)
    assert len(list(prepare(terms, columns))) == 3
    assert list(prepare(terms, columns)) == []
    assert np.flatnonzero(evaluate(terms, columns, 7).certain).tolist() == [0, 2]
