"""The functions that depend on the time or on chance."""

import time
from uuid import UUID

import pytest

from sowline.language.filter.functions import clock
from sowline.language.filter.functions.clock import FUNCTIONS, today, unix_timestamp, uuid7

NOON = 1_764_331_200.123456
"""2025-11-28 at noon, in UTC."""


@pytest.fixture
def at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock, and let chance give the same bits each time."""
    monkeypatch.setattr(clock, "clock", lambda: NOON)
    monkeypatch.setattr(clock, "entropy", lambda size: bytes(range(1, size + 1)))


def test_the_clock_is_that_of_the_machine() -> None:
    """It counts seconds since 1970."""
    before = time.time()
    assert before - 1 <= clock.clock() <= time.time() + 1


def test_entropy_has_the_size_asked_for() -> None:
    """Two draws differ."""
    assert len(clock.entropy(16)) == 16
    assert clock.entropy(16) != clock.entropy(16)


@pytest.mark.usefixtures("at_noon")
def test_the_time_is_in_seconds() -> None:
    """UNIX_TIMESTAMP keeps the microseconds."""
    assert unix_timestamp() == NOON


@pytest.mark.usefixtures("at_noon")
@pytest.mark.parametrize(
    ("zone", "date"), [("Z", "2025-11-28"), ("+13:00", "2025-11-29"), ("-12:30", "2025-11-27"), ("CET", None)]
)
def test_the_date_is_that_of_a_zone(zone: str, date: str | None) -> None:
    """A zone is an offset: names of zones give NULL."""
    assert today(zone) == date
    assert today() == "2025-11-28"


@pytest.mark.usefixtures("at_noon")
def test_a_uuid_has_the_time_before_the_random_bits() -> None:
    """It is one of version 7, so later ones sort after earlier ones."""
    made = UUID(uuid7())
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert made.int >> 80 == int(NOON * 1000)
    assert str(made).endswith("-7102-8304-05060708090a")


def test_none_of_them_is_deterministic() -> None:
    """No result of theirs can be kept for another time."""
    assert {function.name for function in FUNCTIONS if not function.deterministic} == {
        "UNIX_TIMESTAMP",
        "UUID7",
        "TODAY",
        "TODAY_UTC",
    }
