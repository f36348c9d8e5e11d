"""The State of the World by hand: what a feed of facts must leave, in plain Python, without Spark or Kafka."""

from collections.abc import Iterable
from typing import Any

from examples.flights.data import (
    CANCELLED,
    DEPARTED,
    DIVERTED,
    LANDED,
    LATE,
    LATE_MIN,
    MISSING,
    SCHEDULED,
    Fact,
    Flight,
    clock_text,
    key_text,
)

Body = dict[str, Any]


def recompute(facts: Iterable[Fact]) -> dict[str, Body]:
    """Return the records that the facts leave, by key text."""
    world: dict[str, Body] = {}
    for fact in facts:
        key = key_text(fact.flight.carrier, fact.flight.flight, fact.flight.time_hour)
        if fact.kind == CANCELLED:
            world.pop(key, None)
        elif fact.kind == SCHEDULED:
            world[key] = {**_schedule(fact.flight), "moment": clock_text(fact.moment)}
        else:
            news = {**_news(fact.kind, fact.flight), "moment": clock_text(fact.moment)}
            world.setdefault(key, _identity(fact.flight)).update(news)
    return world


def _identity(flight: Flight) -> Body:
    return {"carrier": flight.carrier, "flight": int(flight.flight), "time_hour": flight.time_hour}


def _schedule(flight: Flight) -> Body:
    sent = _known(
        tailnum=_text(flight.tailnum),
        origin=_text(flight.origin),
        dest=_text(flight.dest),
        distance_miles=_number(flight.distance),
        hour_local=_hour(flight.sched_dep_time),
        sched_dep_local=_face(flight.sched_dep_time),
        sched_arr_local=_face(flight.sched_arr_time),
    )
    return {**_identity(flight), **sent, "status": "scheduled"}


def _news(kind: str, flight: Flight) -> Body:
    if kind in (LATE, DIVERTED):
        return {"status": kind}
    if kind == DEPARTED:
        delay = _number(flight.dep_delay)
        status = "departed" if delay is None or delay < LATE_MIN else "departed late"
        return _known(dep_local=_face(flight.dep_time), dep_delay_min=delay, status=status)
    if kind == LANDED:
        return _known(
            arr_local=_face(flight.arr_time),
            arr_delay_min=_number(flight.arr_delay),
            air_time_min=_number(flight.air_time),
            status="landed",
        )
    raise ValueError(f"expected a kind of fact, got {kind!r}")


def _known(**fields: str | int | None) -> Body:
    return {name: value for name, value in fields.items() if value is not None}


def _number(text: str) -> int | None:
    return None if text == MISSING else int(text)


def _hour(digits: str) -> int | None:
    """Return the hour of a time of day that the data has as the digits 515 or 1340."""
    number = _number(digits)
    return None if number is None else number // 100


def _face(digits: str) -> str | None:
    """Return a time of day that the data has as the digits 515 or 1340 as a clock shows it."""
    number = _number(digits)
    return None if number is None else f"{number // 100:02}:{number % 100:02}"


def _text(text: str) -> str | None:
    return None if text == MISSING else text
