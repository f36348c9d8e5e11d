"""The departures board: the flights of one airport that are late and not yet landed, from a subscription."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sowline import Message

AIRPORTS = ("EWR", "JFK", "LGA")
OPTIONS = "oof"

Flight = dict[str, Any]


def board_filter(airport: str) -> str:
    """Return the filter of the board's subscription."""
    return f"/origin = '{airport}' AND /status IN ('late', 'departed late')"


class Board:
    """The flights in focus by SOW key, and the numbers of those that entered, changed and left."""

    def __init__(self, airport: str) -> None:
        self.airport = airport
        self.flights: dict[str, Flight] = {}
        self.entered = 0
        self.changed = 0
        self.left = 0
        self.complete = False

    def take(self, message: Message) -> str | None:
        """Apply a message and return a sentence about it for a person, if there is anything to say."""
        if message.command == "group_begin":
            self.flights.clear()
        elif message.command == "group_end":
            self.complete = True
        elif message.command == "oof":
            return self._lose(message)
        else:
            return self._show(message)
        return None

    def _show(self, message: Message) -> str:
        key = message.sow_key or ""
        known = key in self.flights
        self.entered += not known
        self.changed += known
        self.flights[key] = message.data
        return sentence("changes" if known else "enters", self.flights[key])

    def _lose(self, message: Message) -> str:
        self.left += 1
        self.flights.pop(message.sow_key or "", None)
        flight = message.data
        return sentence(
            "leaves", {**flight, "status": "cancelled"} if message.reason == "deleted" else flight
        )


def sentence(verb: str, flight: Flight) -> str:
    """Return a plain line about a flight."""
    due = clock_face(flight.get("sched_dep_local"))
    return f"{verb:<8} {name(flight)}  to {flight.get('dest', '???')}  due {due}  {news(flight)}"


def name(flight: Flight) -> str:
    """Return a flight's name in a fixed width."""
    return f"{flight['carrier']} {flight['flight']:>4}"


def news(flight: Flight) -> str:
    """Return where a flight is, with its delay in minutes if it is known."""
    delay = flight.get("arr_delay_min", flight.get("dep_delay_min"))
    status = str(flight.get("status"))
    return f"{status} {delay:+} min" if isinstance(delay, int) else status


def clock_face(time: object) -> str:
    """Return a time of day; a visitor may write a record without it, or with something else."""
    return time if isinstance(time, str) and re.fullmatch(r"\d\d:\d\d", time) else "--:--"


def new_york() -> tzinfo:
    """Return the time zone of the airports, or UTC if the system does not know it."""
    try:
        return ZoneInfo("America/New_York")
    except ZoneInfoNotFoundError:
        return UTC


def date_line(moment: int, zone: tzinfo) -> str:
    """Write a simulated moment (seconds since 1970) for a person."""
    return datetime.fromtimestamp(moment, zone).strftime("%a %d %b %Y %H:%M %Z")


def picture(board: Board, clock: str, footer: str, rows_max: int) -> RenderableType:
    """Return the board for a terminal, with at most this many flights."""
    table = Table()
    table.add_column("due")
    table.add_column("flight")
    table.add_column("to")
    table.add_column("status", min_width=14)
    table.add_column("delay", justify="right")
    flights = by_departure(board.flights.values())
    for flight in flights[:rows_max]:
        table.add_row(*row(flight))
    more = [Text(f"… and {len(flights) - rows_max} more")] if len(flights) > rows_max else []
    counts = (
        f"{len(flights)} on the board: {board.entered} came, {board.changed} changed, {board.left} left (OOF)"
    )
    title = Text(f"{board.airport}: late and not yet landed    {clock}", style="bold")
    return Group(title, table, *more, Text(counts), Text(footer, style="dim"))


def by_departure(flights: Iterable[Flight]) -> list[Flight]:
    """Return flights in the order in which they were due."""
    return sorted(
        flights,
        key=lambda flight: (
            str(flight["time_hour"]),
            clock_face(flight.get("sched_dep_local")),
            name(flight),
        ),
    )


def row(flight: Flight) -> tuple[str, str, str, Text, str]:
    """Return a flight's line of the board."""
    status = str(flight.get("status"))
    delay = flight.get("dep_delay_min")
    shown = Text(status, style="red" if status == "late" else "yellow")
    late = f"{delay:+} min" if isinstance(delay, int) else ""
    return (
        clock_face(flight.get("sched_dep_local")),
        name(flight),
        str(flight.get("dest", "???")),
        shown,
        late,
    )
