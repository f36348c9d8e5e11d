"""The State of the World by hand: what a feed of facts must end in."""

import pytest

from examples.flights.data import MISSING, Fact, Flight, facts_of, key_text
from examples.flights.recompute import recompute
from tests.unit.examples.flights.test_data import DELAYED, NEVER_LEFT, PUNCTUAL

KEY = key_text("UA", "1545", "2013-01-01T10:00:00Z")
SCHEDULE = {
    "carrier": "UA",
    "flight": 1545,
    "time_hour": "2013-01-01T10:00:00Z",
    "tailnum": "N14228",
    "origin": "EWR",
    "dest": "IAH",
    "distance_miles": 1400,
    "hour_local": 5,
    "sched_dep_local": "05:15",
    "sched_arr_local": "08:19",
}


def after(flight: Flight, facts: int) -> dict[str, object] | None:
    """Return the record of a flight after its first facts."""
    return recompute(list(facts_of(flight))[:facts]).get(KEY)


def test_scheduled() -> None:
    """A scheduled flight is its schedule; numbers are numbers."""
    assert after(PUNCTUAL, 1) == {**SCHEDULE, "status": "scheduled", "moment": "2013-01-01T07:15:00Z"}


def test_missing_value_is_absent() -> None:
    """A value that the data does not have is not in the record."""
    record = after(PUNCTUAL._replace(tailnum=MISSING), 1)
    assert record is not None
    assert "tailnum" not in record


def test_landed() -> None:
    """A departure and an arrival add to the record, and change its status and moment."""
    record = after(PUNCTUAL, 3)
    arrival = {
        "arr_local": "08:30",
        "arr_delay_min": 11,
        "air_time_min": 227,
        "moment": "2013-01-01T14:30:00Z",
    }
    assert record == {**SCHEDULE, "dep_local": "05:17", "dep_delay_min": 2, **arrival, "status": "landed"}


def test_late() -> None:
    """A late flight is late at the gate, and departs late."""
    assert [(after(DELAYED, facts) or {})["status"] for facts in (2, 3)] == ["late", "departed late"]


def test_cancelled() -> None:
    """A cancelled flight has no record."""
    assert after(NEVER_LEFT, 2) is not None
    assert after(NEVER_LEFT, 3) is None


def test_unknown_kind() -> None:
    """A fact of an unknown kind is refused, not skipped."""
    with pytest.raises(ValueError, match="kind of fact, got 'lost'"):
        recompute([Fact(0, "lost", PUNCTUAL)])
