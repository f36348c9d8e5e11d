"""The record of a group that changed last, while records come and go."""

import pytest

from sowline.language.groups.latest import ORDER_BYTES, Latest


@pytest.fixture
def latest() -> Latest:
    """Two records, of which `a` changed last."""
    made = Latest()
    made.add((2, 0), b"a", ["new"])
    made.add((1, 0), b"b", ["old"])
    return made


def test_the_fields_are_those_of_the_last_change(latest: Latest) -> None:
    """When its record leaves, the one before is the latest again."""
    assert latest.values() == ["new"]
    latest.remove((2, 0), b"a")
    assert latest.values() == ["old"]


def test_changes_at_one_time_are_ordered_by_sow_key(latest: Latest) -> None:
    """So every process shows the same record."""
    latest.add((2, 0), b"c", ["other"])
    assert latest.values() == ["other"]


def test_memory_is_that_of_the_records_that_are_there(latest: Latest) -> None:
    """A longer text takes more."""
    before = latest.nbytes
    latest.add((3, 0), b"c", ["x" * 1000])
    assert latest.nbytes > before + 1000
    for order, sow_key in (((3, 0), b"c"), ((2, 0), b"a"), ((1, 0), b"b")):
        latest.remove(order, sow_key)
    assert latest.nbytes == ORDER_BYTES


def test_the_latest_of_several_processes(latest: Latest) -> None:
    """Each exports its latest record; lists that JSON makes of tuples are orders again."""
    assert latest.exported() == [(2, 0), "a", ["new"]]
    merged = Latest()
    merged.merge([[2, [0, 1]], "a", ["one"]])
    merged.merge([[2, [0, 2]], "b", ["other"]])
    assert merged.values() == ["other"]
