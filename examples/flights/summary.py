"""The summary of the demo: what went in, what came out, and what was lost."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from examples.flights.view import percentile

SECONDS_FROM_MS = 10_000
"""Longer times are given in seconds."""


class Summary(NamedTuple):
    """The numbers of one run; None is a number that was not taken."""

    airport: str
    facts: int
    records_in: int
    deltas: int
    dead_letters: int
    sow_size: int | None
    changes_out: int
    oofs: int
    board_oofs: int
    latencies_ms: Sequence[float]
    by_visitors: int = 0
    refused_visits: int = 0
    outages: int = 0
    stalls: int = 0
    """How many times nothing came for long although something had been written; an outage may be one."""
    groups: Mapping[str, int | None] = MappingProxyType({})
    """By view, how many records a query of it returns."""

    def rows(self) -> list[tuple[str, str]]:
        """Return the name of each number, and the number as text."""
        had_waits = self.outages or self.stalls
        within = f"99 of 100 within{', stalls included' if had_waits else ''}"
        return [
            ("facts about flights that were fed", _count(self.facts)),
            ("records that Spark wrote to Kafka", _count(self.records_in)),
            ("  changes of some fields among them", _count(self.deltas)),
            ("  records of Spark that Sowline refused", _count(self.dead_letters)),
            *(self._visits() if self.by_visitors else []),
            ("flights that Sowline holds", _count(self.sow_size)),
            *((f"records of the view {view}", _count(number)) for view, number in self.groups.items()),
            ("changes that Sowline sent", _count(self.changes_out)),
            ("flights that were cancelled, and deleted", _count(self.oofs)),
            (f"flights that left the {self.airport} board in the terminal", _count(self.board_oofs)),
            ("from Kafka to a subscriber, median", _time(percentile(self.latencies_ms, 0.5))),
            (f"from Kafka to a subscriber, {within}", _time(percentile(self.latencies_ms, 0.99))),
        ]

    def _visits(self) -> list[tuple[str, str]]:
        return [
            ("commands that visitors wrote", _count(self.by_visitors)),
            ("  commands of visitors that Sowline refused", _count(self.refused_visits)),
        ]

    def latencies(self) -> list[tuple[str, float]]:
        """Return the latencies of the rows, each with a text for the chart and its milliseconds."""
        shares = (("whole run: median", 0.5), ("whole run: 99 of 100 within", 0.99))
        found = ((text, percentile(self.latencies_ms, share)) for text, share in shares)
        return [(f"{text} {_time(ms)}", ms) for text, ms in found if ms is not None]

    def verdict(self) -> str:
        """Return, for a run in which nothing was lost, what was compared."""
        views = "".join(
            f", all {_count(number)} records of the view {view}" for view, number in self.groups.items()
        )
        visits = " (those that visitors wrote are left out)" if self.by_visitors else ""
        return (
            f"nothing was lost: the demo worked out from the {_count(self.facts)} facts about flights, without"
            " Sowline, what every record has to be. These are equal:"
            f" all {_count(self.sow_size)} flights that Sowline holds{visits},"
            f" the copy that a subscriber kept up to date{views}"
        )

    def lines(self) -> list[str]:
        """Return the numbers as an aligned table."""
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return [f"{name:<{width}}{value:>12}" for name, value in rows]


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _time(ms: float | None) -> str:
    if ms is None:
        return "-"
    return f"{ms:,.0f} ms" if ms < SECONDS_FROM_MS else f"{ms / 1000:,.1f} s"
