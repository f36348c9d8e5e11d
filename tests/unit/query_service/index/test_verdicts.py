"""Verdicts: the result of a predicate for each distinct string."""

from typing import Any

import pytest

from sowline_query_service.index import verdicts
from sowline_query_service.index.dictionary import Dictionary
from sowline_query_service.index.verdicts import CHARS_PER_TEXT, Verdicts


class Judge:
    """A predicate that notes what it has judged."""

    def __init__(self) -> None:
        self.judged: list[Any] = []

    def __call__(self, text: Any) -> bool | None:
        """Say whether a text begins with a; nothing of the text `?`."""
        self.judged.append(text)
        return None if text == "?" else str(text).startswith("a")


@pytest.fixture
def dictionary() -> Dictionary:
    """Three strings."""
    made = Dictionary((None,))
    for text in ("a1", "b", "?"):
        made.codes[text]
    return made


def test_each_string_is_judged_once(dictionary: Dictionary) -> None:
    """Those that are added later are judged then."""
    made, judge = Verdicts(dictionary), Judge()
    assert made.table("p", judge).tolist() == [-1, 1, 0, -1]
    dictionary.codes["a2"]
    assert made.table("p", judge).tolist() == [-1, 1, 0, -1, 1]
    assert judge.judged == ["a1", "b", "?", "a2"]


def test_strings_may_be_judged_some_at_a_time(dictionary: Dictionary) -> None:
    """At least one, so that it ends."""
    made, judge = Verdicts(dictionary), Judge()
    assert made.judge_some("p", judge, 0)
    assert judge.judged == ["a1"]
    assert made.judge_some("p", judge, CHARS_PER_TEXT)
    assert not made.judge_some("p", judge, 10 * CHARS_PER_TEXT)
    assert not made.judge_some("p", judge, 0)
    assert judge.judged == ["a1", "b", "?"]


def test_a_rebuilt_dictionary_has_other_codes(dictionary: Dictionary) -> None:
    """What was judged before is judged again."""
    made, judge = Verdicts(dictionary), Judge()
    made.table("p", judge)
    dictionary.rebuild(["b", "a1"])
    assert made.table("p", judge).tolist() == [-1, 0, 1]


def test_the_oldest_tables_make_room(dictionary: Dictionary, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest stays, whatever its size."""
    monkeypatch.setattr(verdicts, "BYTES_MAX", 6)
    made, judge = Verdicts(dictionary), Judge()
    made.table("p", judge)
    made.table("q", judge)
    assert made.nbytes == 4
    made.table("q", judge)
    assert len(judge.judged) == 6
    made.table("p", judge)
    assert len(judge.judged) == 9


def test_what_was_used_least_recently_goes_first(
    dictionary: Dictionary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three predicates, those that were used last stay; the newest does even without room."""
    made, size = Verdicts(dictionary), len(dictionary)
    monkeypatch.setattr(verdicts, "BYTES_MAX", 2 * size)
    for name in ("p", "q", "p", "r"):
        made.table(name, Judge())
    again = Judge()
    made.table("p", again)
    assert not again.judged
    monkeypatch.setattr(verdicts, "BYTES_MAX", 0)
    made.table("q", again)
    made.table("q", again)
    assert again.judged == ["a1", "b", "?"]
