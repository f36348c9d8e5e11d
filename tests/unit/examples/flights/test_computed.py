"""The demo's views by hand: what they must be for given flights, and that their definitions have these groups."""

from typing import Any

import orjson

from examples.flights.computed import GROUPED_BY, group_text, recompute_views, view_difference
from examples.flights.data import Airport, flights_csv, read_airports, read_flights
from examples.flights.demo import TOPICS_FILE
from sowline.config.topics import load_topics

HOUSTON = Airport("IAH", "George Bush Intercontinental", 29.98, -95.34)
MOMENT = "2013-01-01T10:05:00Z"
LATER = "2013-01-01T12:00:00Z"
SCHEDULED = {"carrier": "UA", "hour_local": 5, "dest": "IAH", "status": "scheduled", "moment": MOMENT}


def landed(dest: str, departure: int, arrival: int) -> dict[str, Any]:
    """Return a flight that has landed, with its delays in minutes."""
    return {
        **SCHEDULED,
        "dest": dest,
        "status": "landed",
        "dep_delay_min": departure,
        "arr_delay_min": arrival,
    }


def test_delays() -> None:
    """Flights that have departed, by carrier and hour; those that have not are in no group."""
    flights = [
        landed("IAH", 4, 0) | {"moment": LATER},
        landed("SJU", 7, 0),
        landed("IAH", 1, 0) | {"hour_local": 6},
    ]
    flights.append(SCHEDULED)
    assert list(recompute_views(flights, [])["delays"].values()) == [
        {"carrier": "UA", "hour_local": 5, "flights": 2, "delay_min": 5.5, "worst_min": 7, "moment": LATER},
        {"carrier": "UA", "hour_local": 6, "flights": 1, "delay_min": 1, "worst_min": 1, "moment": MOMENT},
    ]


def test_arrivals() -> None:
    """Flights that have landed, by destination; without an airport, a group has no name and no coordinates."""
    flights = [landed("IAH", 0, -3), landed("SJU", 0, 9), landed("IAH", 0, 4), SCHEDULED]
    counts = {"flights": 2, "delay_min": 0.5, "lat": 29.98, "lon": -95.34, "moment": MOMENT}
    unknown = {"flights": 1, "delay_min": 9, "lat": None, "lon": None, "moment": MOMENT}
    assert list(recompute_views(flights, [HOUSTON])["arrivals"].values()) == [
        {"dest": "IAH", "airport": {"name": HOUSTON.name}, **counts},
        {"dest": "SJU", "airport": {"name": None}, **unknown},
    ]


def test_a_flight_and_its_group_have_one_text() -> None:
    """A flight that lacks a field is in a group of its own."""
    flight = landed("IAH", 4, 0)
    for view, groups in recompute_views([flight], []).items():
        assert [group_text(view, body) for body in groups.values()] == list(groups)
        assert [group_text(view, flight)] == list(groups)
    assert group_text("delays", {"carrier": "UA"}) != group_text(
        "delays", {"carrier": "UA", "hour_local": "None"}
    )


def test_difference_of_a_view() -> None:
    """A wrong record is a difference, unless its group has a flight that a visitor has written."""
    expected = recompute_views([landed("IAH", 4, 0), landed("SJU", 7, 9)], [])["arrivals"]
    records = [orjson.dumps(body) for body in expected.values()]
    assert view_difference("arrivals", expected, records, []) is None
    wrong = [records[0], orjson.dumps(expected['["SJU"]'] | {"flights": 2})]
    sentence = 'the view arrivals differs from a recomputation: 1 different (such as ["SJU"])'
    assert view_difference("arrivals", expected, wrong, [landed("IAH", 1, 1)]) == sentence
    assert view_difference("arrivals", expected, wrong, [{"dest": "SJU"}]) is None


def test_views_of_the_topics_file() -> None:
    """The recomputation has the views that the file defines; each groups by its fields first."""
    views = {
        view.name: [path.lstrip("/") for path in view.grouping] for view in load_topics(TOPICS_FILE).views
    }
    assert list(views) == list(GROUPED_BY)
    for view, names in GROUPED_BY.items():
        assert views[view][: len(names)] == list(names)


def test_the_flights_have_one_order() -> None:
    """In two partitions, one could be ahead: the board would say a moment that half of its rows have not reached."""
    (flights,) = (topic for topic in load_topics(TOPICS_FILE).topics if topic.name == "flights")
    assert flights.partitions == 1


def test_each_destination_has_a_name() -> None:
    """Also those that the data set has no row for; each airport has a code of its own."""
    airports = read_airports()
    names = {airport.faa: airport.name for airport in airports}
    assert len(names) == len(airports) == 1462
    assert all(names[flight.dest] for flight in read_flights(flights_csv()))
