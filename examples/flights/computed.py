"""The views of the demo by hand: the records of `delays` and `arrivals` for given flights, in plain Python."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from statistics import fmean
from typing import Any

import orjson

from examples.flights.data import LANDED, Airport
from examples.flights.view import differences

Body = dict[str, Any]

GROUPED_BY = {"delays": ("carrier", "hour_local"), "arrivals": ("dest",)}
"""The views, and the fields of a flight that decide in which of its groups the flight is."""


def group_text(view: str, body: Body) -> str:
    """Return the group of a flight, or of a record of the view, as text."""
    values = [body.get(name) for name in GROUPED_BY[view]]
    return json.dumps([None if value is None else str(value) for value in values])


def recompute_views(flights: Iterable[Body], airports: Iterable[Airport]) -> dict[str, dict[str, Body]]:
    """Return the records of each view, by the text of their group."""
    groups: dict[str, dict[str, list[Body]]] = {view: defaultdict(list) for view in GROUPED_BY}
    for flight in flights:
        if flight.get("dep_delay_min") is not None:
            groups["delays"][group_text("delays", flight)].append(flight)
        if flight.get("status") == LANDED:
            groups["arrivals"][group_text("arrivals", flight)].append(flight)
    known = {airport.faa: airport for airport in airports}
    return {
        "delays": {text: _delays(group) for text, group in groups["delays"].items()},
        "arrivals": {text: _arrivals(group, known) for text, group in groups["arrivals"].items()},
    }


def view_difference(
    view: str, expected: Mapping[str, Body], bodies: Iterable[bytes], visited: Iterable[Body]
) -> str | None:
    """Return how the records of a view differ from those expected, as a sentence, or None if they are equal.

    The groups of the flights `visited` do not count.
    """
    text_of = partial(group_text, view)
    left_out = {text_of(flight) for flight in visited}
    wanted = {text: body for text, body in expected.items() if text not in left_out}
    found = [body for body in bodies if text_of(orjson.loads(body)) not in left_out]
    return differences(wanted, found, text_of).sentence(f"the view {view}")


def _delays(flights: list[Body]) -> Body:
    delays = [flight["dep_delay_min"] for flight in flights]
    counts = {"flights": len(delays), "delay_min": _mean(delays), "worst_min": max(delays)}
    counts["moment"] = _newest(flights)
    return {"carrier": flights[0]["carrier"], "hour_local": flights[0]["hour_local"], **counts}


def _arrivals(flights: list[Body], airports: dict[str, Airport]) -> Body:
    airport = airports.get(flights[0]["dest"])
    delays = [flight["arr_delay_min"] for flight in flights if flight.get("arr_delay_min") is not None]
    return {
        "dest": flights[0]["dest"],
        "airport": {"name": airport and airport.name},
        "flights": len(flights),
        "delay_min": _mean(delays),
        "lat": airport and airport.lat,
        "lon": airport and airport.lon,
        "moment": _newest(flights),
    }


def _newest(flights: list[Body]) -> str | None:
    """Return the moment of the newest news of these flights; a text of the year and so on has its order."""
    return max((flight["moment"] for flight in flights if "moment" in flight), default=None)


def _mean(delays: list[int]) -> float | None:
    return fmean(delays) if delays else None
