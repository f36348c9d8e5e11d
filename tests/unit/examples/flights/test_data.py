"""The flights of the demo as facts: what becomes known of a flight, and when."""

from datetime import datetime

import pytest

from examples.flights.data import (
    MISSING,
    Flight,
    clock_text,
    facts_of,
    feed_of,
    flights_csv,
    key_text,
    line_of,
    read_flights,
)

PUNCTUAL = Flight(
    carrier="UA",
    flight="1545",
    time_hour="2013-01-01T10:00:00Z",
    minute="15",
    tailnum="N14228",
    origin="EWR",
    dest="IAH",
    distance="1400",
    sched_dep_time="515",
    sched_arr_time="819",
    dep_time="517",
    dep_delay="2",
    arr_time="830",
    arr_delay="11",
    air_time="227",
)
DELAYED = PUNCTUAL._replace(dep_time="535", dep_delay="20")
NEVER_LEFT = PUNCTUAL._replace(
    dep_time=MISSING, dep_delay=MISSING, arr_time=MISSING, arr_delay=MISSING, air_time=MISSING
)


def story(flight: Flight) -> list[tuple[str, str]]:
    """Return the kinds and times of a flight's facts."""
    return [(fact.kind, clock_text(fact.moment)[11:16]) for fact in facts_of(flight)]


def test_punctual_flight() -> None:
    """A flight is known three hours ahead, departs with its delay, and has landed when it is at the gate."""
    assert story(PUNCTUAL) == [("scheduled", "07:15"), ("departed", "10:17"), ("landed", "14:30")]


@pytest.mark.parametrize(
    ("dest", "time_hour", "gate"),
    [
        ("IAH", "2013-07-01T09:00:00Z", "13:30"),
        ("PHX", "2013-07-01T09:00:00Z", "15:30"),
        ("PHX", "2013-01-01T10:00:00Z", "15:30"),
        ("SJU", "2013-07-01T09:00:00Z", "12:30"),
    ],
    ids=["summer", "no summer time", "winter", "no row among the airports"],
)
def test_the_clock_of_the_destination(dest: str, time_hour: str, gate: str) -> None:
    """A landing is known at its `arr_time`, which the clock at the destination shows."""
    flight = PUNCTUAL._replace(dest=dest, time_hour=time_hour, air_time="60")
    assert story(flight)[-1] == ("landed", gate)


def test_late_flight() -> None:
    """A flight still at the gate a quarter of an hour after its time is late before it departs."""
    assert story(DELAYED)[1:3] == [("late", "10:30"), ("departed", "10:35")]


def test_departure_at_the_quarter() -> None:
    """A flight that leaves exactly a quarter of an hour behind its time was never late at the gate."""
    left = PUNCTUAL._replace(dep_delay="15")
    assert [kind for kind, _ in story(left)] == ["scheduled", "departed", "landed"]


def test_cancelled_flight() -> None:
    """A flight that never left is late, and cancelled an hour after its time."""
    assert story(NEVER_LEFT) == [("scheduled", "07:15"), ("late", "10:30"), ("cancelled", "11:15")]


def test_flight_without_air_time() -> None:
    """A flight without an air time was diverted, which is known when a usual one of its distance has landed."""
    facts = story(PUNCTUAL._replace(air_time=MISSING, distance="800", dep_delay="0"))
    assert [kind for kind, _ in facts] == ["scheduled", "departed", "diverted"]
    (left, over) = (datetime.strptime(clock, "%H:%M") for _, clock in facts[1:])
    assert (over - left).seconds == (30 + 800 // 8) * 60


def test_feed_is_in_order_of_time() -> None:
    """The feed merges the facts of all flights by time, and keeps one flight's facts in their order."""
    at_once = PUNCTUAL._replace(flight="2", dep_delay="-180", air_time="0")
    feed = feed_of([DELAYED, at_once])
    assert [fact.moment for fact in feed] == sorted(fact.moment for fact in feed)
    assert [fact.kind for fact in feed if fact.flight is at_once] == ["scheduled", "departed", "landed"]


@pytest.mark.parametrize(
    ("kind", "known", "unknown"),
    [
        ("scheduled", {"sched_dep_time"}, {"dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"}),
        ("departed", {"dep_time", "dep_delay"}, {"arr_time", "arr_delay", "air_time"}),
        ("landed", {"dep_delay", "arr_delay", "air_time"}, set()),
    ],
)
def test_feed_does_not_foretell(kind: str, known: set[str], unknown: set[str]) -> None:
    """A line of the feed has only what could be known at its moment; the rest is missing."""
    fact = next(fact for fact in facts_of(PUNCTUAL) if fact.kind == kind)
    columns = dict(zip(Flight._fields, line_of(fact)[2:], strict=True))
    assert {columns[name] for name in unknown} <= {MISSING}
    assert MISSING not in {columns[name] for name in known}


def test_key_text() -> None:
    """The key text of a flight is a JSON array of strings without spaces."""
    assert key_text("UA", 15, "2013-01-01T10:00:00Z") == '["UA","15","2013-01-01T10:00:00Z"]'


def test_whole_data_set() -> None:
    """Carrier, flight number and scheduled hour name each of the 336,776 flights."""
    keys = {(row.carrier, row.flight, row.time_hour) for row in read_flights(flights_csv())}
    assert len(keys) == 336_776
