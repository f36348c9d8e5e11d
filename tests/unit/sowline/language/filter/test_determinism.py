"""Filters whose result depends on more than the record are recognized, and never computed in advance."""

import pytest

from sowline.language.filter import FilterError, compile_expression, compile_filter, require_deterministic
from sowline.language.filter.determinism import nondeterministic
from sowline.language.filter.functions import FUNCTIONS, clock
from sowline.language.filter.parse import parse

UNSTEADY = ["LAST_READ", "TODAY", "TODAY_UTC", "UNIX_TIMESTAMP", "UUID7"]


def test_which_functions_the_record_does_not_determine() -> None:
    """The clock's, chance's, and the one that tells who read the record; no other."""
    assert sorted(name for name, function in FUNCTIONS.items() if not function.deterministic) == UNSTEADY


@pytest.mark.parametrize("name", UNSTEADY)
def test_refused_where_only_the_record_counts(name: str) -> None:
    """The refusal says which function, where it stands, and where it can't be used."""
    filter_ = compile_filter(f"/a = 1 AND NOT CONCAT('x', {name}()) = /b")
    with pytest.raises(FilterError) as error:
        require_deterministic(filter_, "the filter of an oof subscription")
    assert error.value.column == 28
    assert str(error.value).startswith(
        f"{name} at column 28 can't be used in the filter of an oof subscription; expected"
    )


@pytest.mark.parametrize("text", ["", "/a = 1", "LAST_UPDATED() > 1 AND MD5(/a) = 'x'", "SOW_KEY() = 'x'"])
def test_welcome_where_only_the_record_counts(text: str) -> None:
    """A function of the record, or of what is known about it, is deterministic."""
    require_deterministic(compile_filter(text), "a page")
    assert compile_filter(text).nondeterministic == ()


def test_expressions_too() -> None:
    """An expression is told apart as a filter is."""
    with pytest.raises(FilterError, match="UUID7 at column 4"):
        require_deterministic(compile_expression("1 +UUID7()"), "an aggregate")


def test_functions_of_others_do_not_count() -> None:
    """A tree may be asked before its aggregates are taken out of it."""
    assert nondeterministic(parse("SUM(UNIX_TIMESTAMP())")) == ("UNIX_TIMESTAMP",)
    assert nondeterministic(parse("SUM(/a)")) == ()


def test_the_clock_is_asked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the clock says isn't worked out when the filter is compiled."""
    now = 1_000_000_000.25
    monkeypatch.setattr(clock, "clock", lambda: now)
    filter_ = compile_filter("UNIX_TIMESTAMP() = /now AND TODAY() = /day AND TODAY('+02:00') = /there")
    assert filter_.matches({"now": now, "day": "2001-09-09", "there": "2001-09-09"})
    now = 1_000_079_999.5
    assert filter_.matches({"now": now, "day": "2001-09-09", "there": "2001-09-10"})
    assert compile_expression("TODAY_UTC()").value({}) == "2001-09-09"


def test_a_filter_at_one_time() -> None:
    """The clock's functions have its time; nothing else changes, and a filter without them is the same."""
    now = 1_000_079_999.5
    fixed = compile_filter("UNIX_TIMESTAMP() = /now AND TODAY() = /day AND TODAY('+02:00') = /there").at(now)
    assert fixed.nondeterministic == ()
    assert compile_filter(fixed.text) == fixed
    assert fixed.matches({"now": now, "day": "2001-09-09", "there": "2001-09-10"})
    assert compile_filter("TODAY('no zone') IS NULL").at(now).matches({})
    assert compile_filter("/id = UUID7() OR TODAY_UTC() = /day").at(now).nondeterministic == ("UUID7",)
    steady = compile_filter("/a = 1")
    assert steady.at(now) is steady


def test_uuids(monkeypatch: pytest.MonkeyPatch) -> None:
    """UUID7 is of version 7 and RFC 9562's variant, begins with the milliseconds, and differs each time."""
    one = compile_expression("CONCAT(UUID7(), ' ', UUID7())").value({})
    assert isinstance(one, str)
    left, right = one.split()
    assert left != right
    monkeypatch.setattr(clock, "clock", lambda: 0x0123456789AB / 1000)
    for size, expected in (
        (0, "01234567-89ab-7000-8000-000000000000"),
        (255, "01234567-89ab-7fff-bfff-ffffffffffff"),
    ):
        monkeypatch.setattr(clock, "entropy", lambda count, byte=size: bytes([byte] * count))
        assert compile_expression("UUID7()").value({}) == expected
