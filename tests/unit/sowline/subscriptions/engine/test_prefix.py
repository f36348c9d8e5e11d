"""The first records of an order; those behind are only counted."""

from typing import Any

import pytest

from sowline.subscriptions.engine.page import Entered, Left, Page
from sowline.subscriptions.engine.prefix import SortedPrefix

PAGE = Page(0, 2)


def entry(number: int) -> tuple[tuple[Any, ...], int]:
    """Return a record that is sorted by its number."""
    return (number, b"%d" % number), number


def prefix(held: int, matches: int) -> SortedPrefix[int]:
    """Return the first of records that are numbered from 1 on."""
    made: SortedPrefix[int] = SortedPrefix(map(entry, range(1, held + 1)), matches)
    made.open(PAGE)
    return made


def not_asked() -> bool:
    """Fail: the record before the change is not to be read."""
    pytest.fail("it was read")


def test_records_behind_are_counted() -> None:
    """Enough are held for the page; more would be read."""
    made = prefix(4, 10)
    assert (len(made), made.matches) == (4, 10)
    assert (made.reaches(4), made.reaches(5)) == (True, False)
    assert prefix(4, 4).reaches(5)


def test_a_record_within_the_bound_is_held() -> None:
    """The page changes as that of all records would."""
    made = prefix(4, 10)
    events = made.change(b"0", entry(0), lambda: False)
    assert events == {PAGE: [Left(b"2", 2), Entered(b"0", 0)]}
    assert (len(made), made.matches) == (5, 11)


def test_a_record_behind_the_bound_is_counted() -> None:
    """Where it was before decides whether there is one more."""
    made = prefix(4, 10)
    assert made.change(b"20", entry(20), lambda: False) == {}
    assert made.matches == 11
    made.change(b"20", entry(21), lambda: True)
    assert made.matches == 11
    made.change(b"20", None, lambda: True)
    assert made.matches == 10


def test_a_held_record_may_leave() -> None:
    """Behind the bound, or altogether; its previous state is not read."""
    made = prefix(5, 10)
    assert made.change(b"1", ((30, b"1"), 1), not_asked) == {PAGE: [Left(b"1", 1), Entered(b"3", 3)]}
    assert (len(made), made.matches) == (4, 10)
    made.change(b"4", None, not_asked)
    assert (len(made), made.matches) == (3, 9)


def test_a_prefix_of_all_has_no_bound() -> None:
    """A record at the end is held, too."""
    made = prefix(4, 4)
    made.change(b"20", entry(20), not_asked)
    assert (len(made), made.matches) == (5, 5)


def test_a_prefix_can_be_cut() -> None:
    """To what its pages need; its memory is less then."""
    made = prefix(6, 10)
    before = made.nbytes
    made.cut(3)
    assert (len(made), made.matches, made.reaches(4)) == (3, 10, False)
    assert made.nbytes < before
    made.cut(3)
    made.change(b"5", entry(5), lambda: True)
    assert (len(made), made.matches) == (3, 10)
