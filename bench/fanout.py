"""Many subscribers with a filter each, no two the same, compared to one: messages a second, and what a change costs.

The loads and the servers are those of `bench.subscribers`, over loopback: a query service as clients use it, and a
bare `websockets` server that sends the same connections ready-made frames.
"""

import statistics

from bench.subscribers import Case, Figure, measure
from bench.table import medians_of, table

SUBSCRIBERS = 1000
RECORDS = 1000
ASKED = 10

CASES = (
    Case("one subscriber to everything", records=RECORDS),
    Case(f"one subscriber to one record of {RECORDS:,}", asked=1, records=RECORDS),
    Case(f"{SUBSCRIBERS:,}, each to its own record", SUBSCRIBERS, asked=1, records=RECORDS),
    Case(
        f"{SUBSCRIBERS:,}, each to its own range of {ASKED} records",
        SUBSCRIBERS,
        asked=ASKED,
        records=SUBSCRIBERS + ASKED - 1,
    ),
)


def run(records: int, runs: int) -> str:
    """Measure all cases in turn; return a table of medians and ratios."""
    figures = measure(CASES, max(records, 2 * RECORDS), runs)
    one = _micros_a_change(figures[0])
    checkpoint = (
        "subscribers",
        "messages a change",
        "messages/s",
        "relative to the bare server",
        "µs of CPU per change",
        "compared to the first",
    )
    return (
        f"{medians_of(runs).capitalize()}.\n\n{table(checkpoint, [_row(figure, one) for figure in figures])}"
    )


def _row(figure: Figure, one: float) -> tuple[str, ...]:
    rate, bare = (
        statistics.median(taken.messages / taken.seconds for taken in runs)
        for runs in (figure.service, figure.bare)
    )
    micros = _micros_a_change(figure)
    return (
        figure.case.name,
        f"{figure.service[0].messages / figure.changes:g}",
        f"{rate:,.0f}",
        f"{rate / bare:.2f}",
        f"{micros:.1f}",
        f"{micros / one:.2f}",
    )


def _micros_a_change(figure: Figure) -> float:
    return statistics.median(taken.cpu_seconds for taken in figure.service) / figure.changes * 1e6
