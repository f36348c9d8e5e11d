"""The last words of the demo: what went in, what came out, and what was lost."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from examples.flights.view import percentile


class Summary(NamedTuple):
    """The numbers of one run; None is a number that was not taken."""

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
    groups: Mapping[str, int | None] = MappingProxyType({})
    """By view, how many records a query of it returns."""

    def rows(self) -> list[tuple[str, str]]:
        """Return the name of each number, and the number as text."""
        return [
            ("facts fed", _count(self.facts)),
            ("records in", _count(self.records_in)),
            ("  of them deltas", _count(self.deltas)),
            ("dead letters", _count(self.dead_letters)),
            *([("commands of visitors", _count(self.by_visitors))] if self.by_visitors else []),
            ("SOW size", _count(self.sow_size)),
            *((f"groups in {view}", _count(number)) for view, number in self.groups.items()),
            ("changes out", _count(self.changes_out)),
            ("OOFs, board", _count(self.board_oofs)),
            ("OOFs, subscriber of all", _count(self.oofs)),
            ("end to end p50", _time(percentile(self.latencies_ms, 0.5))),
            ("end to end p99", _time(percentile(self.latencies_ms, 0.99))),
        ]

    def lines(self) -> list[str]:
        """Return the numbers as an aligned table."""
        return [f"{name:<24}{value:>12}" for name, value in self.rows()]


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _time(ms: float | None) -> str:
    return "-" if ms is None else f"{ms:,.0f} ms"
