"""Compiled filters: what they tell of themselves, and what they match. (What filters mean: test_filter_docs.)"""

import pickle
import sys
import threading
from typing import Any

import pytest

from sowline.language.filter.compiled import ALL, Filter, compile_filter
from sowline.language.filter.parse import NESTING_MAX
from sowline.model.path import parse_path


@pytest.mark.parametrize("text", ["", "  \n", "TRUE"])
def test_the_empty_filter_matches_everything(text: str) -> None:
    """A filter of nothing but blanks is ALL, which matches every document."""
    assert compile_filter(text) == ALL
    assert ALL.matches({})
    assert ALL.paths == frozenset()


def test_a_match_is_a_boolean() -> None:
    """`matches` gives True or False, never another value that counts as one."""
    for text in (
        "/a = 'x'",
        "/a AND /b",
        "/a OR /b",
        "/a LIKE 'x'",
        "/a",
        "/a + 1",
        "NOT /a",
        "/a < 'y' OR /b",
    ):
        values: list[Any] = ["x", "", 0, 1, None, [], ["x"], {}, 0.0]
        for value in values:
            assert compile_filter(text).matches({"a": value, "b": value}).__class__ is bool


def test_paths_are_those_mentioned() -> None:
    """A filter tells the paths it mentions, each once, wherever they stand."""
    text = "/a = 1 AND (/b/c + /a > 2 OR NOT /d[0] IN (/e, 3)) AND /f LIKE 'x' AND /g IS NULL"
    paths = {parse_path(path) for path in ("/a", "/b/c", "/d[0]", "/e", "/f", "/g")}
    assert compile_filter(text).paths == paths


def test_the_text_is_canonical() -> None:
    """A filter prints one way, however it was written."""
    text = ' ( (/a==1) ) and  not /b<>2.50 AND (/c in(1,"it\'s") or /d not null) AND /e not like "\'" '
    canonical = (
        r"/a = 1 AND NOT /b != 2.5 AND (/c IN (1, 'it\'s') OR /d IS NOT NULL) AND " + '/e NOT LIKE "\'"'
    )
    assert str(compile_filter(text)) == canonical
    assert repr(compile_filter("1=1")) == "Filter('1 = 1')"


def test_equal_filters_are_compiled_once() -> None:
    """The same text gives the same filter again, from a cache that long texts stay out of."""
    assert compile_filter("/cached = 1") is compile_filter("/cached = 1")
    long = " OR ".join(f"/a = {number}" for number in range(1000))
    assert compile_filter(long) is not compile_filter(long)
    assert compile_filter(long) == compile_filter(long)


def test_filters_travel_between_processes() -> None:
    """A filter can be pickled: its text says it all."""
    again = pickle.loads(pickle.dumps(compile_filter("/a = 1")))
    assert isinstance(again, Filter)
    assert again.matches({"a": 1})


def test_several_threads_compile_at_once() -> None:
    """Threads that compile at the same time don't disturb each other."""
    wrong: list[int] = []

    def work(number: int) -> None:
        for step in range(50):
            expected = number * 1000 + step
            if not compile_filter(f"/a = {expected} AND /b").matches({"a": expected, "b": 1}):
                wrong.append(expected)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_condition_in_a_condition_is_asked_once() -> None:
    """Conditions used as values, nested as deep as goes, take no more calls than there are levels."""
    calls = 0

    class Counting(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            nonlocal calls
            calls += 1
            return super().get(key, default)

    depth = NESTING_MAX // 2 - 3
    text = "(" * depth + "/a = 1" + ") = TRUE" * depth
    assert compile_filter(text).matches(Counting(a=1))
    assert compile_filter(f"NOT ({text} AND /a)").matches(Counting(a=0))
    assert calls <= 4


def test_long_sums_and_lists_work() -> None:
    """A sum of 15,000 numbers, or a list of as many, is one level, and works."""
    assert compile_filter("+".join(["1"] * 15_000) + " = 15000").matches({})
    assert compile_filter("+".join(["/a"] * 15_000) + " = 15000").matches({"a": 1})
    assert compile_filter(f"/a IN ({','.join(map(str, range(10_000)))})").matches({"a": 9_999})


def test_matching_needs_little_stack() -> None:
    """The deepest filter can be matched from deep within a program."""
    levels = NESTING_MAX // 2 - 1
    deepest = [
        compile_filter("(/a + " * levels + "1" + ")" * levels + " > 0"),
        compile_filter("COALESCE(/b, /c, " * 98 + "/a" + ")" * 98 + " > 0"),
        compile_filter("IF(/a, " * 98 + "1" + ", 0)" * 98 + " > 0"),
    ]

    def descend(levels: int) -> bool:
        return descend(levels - 1) if levels else all(filter_.matches({"a": 1}) for filter_ in deepest)

    assert descend(sys.getrecursionlimit() // 2)


def test_integers_of_any_size_in_a_document() -> None:
    """An integer beyond 64 bits compares exactly, and is a double in arithmetic and LIKE."""
    document = {"a": 10**400, "b": -(10**400), "c": 2**70}
    assert compile_filter("/a > 1 AND /b < 1").matches(document)
    assert compile_filter("/a - 1 = /a * 2 AND -/a = /b * 1").matches(document)
    assert compile_filter("/c LIKE 'e[+]21$' AND /a LIKE 'inf'").matches(document)
