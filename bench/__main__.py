"""`python -m bench [NAME …]`: run measurements and print each as a ratio to another one in the same run."""

import os
import platform
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import click

from bench.table import write_into

BENCHMARKS = (
    "materialize",
    "kinds",
    "filters",
    "queries",
    "matching",
    "deltas",
    "history",
    "message_types",
    "gateway",
    "connections",
    "keyed",
    "delivery",
    "handoff",
    "slow_reader",
    "one_write",
    "shards",
    "subscribers",
    "overload",
    "greedy",
    "pipeline",
    "recovery",
    "starts",
    "moves",
    "expiry",
    "emodb",
    "peers",
    "random_keys",
    "views",
    "relay",
    "redefine",
    "growth",
    "idle",
    "keys",
    "level",
    "fanout",
    "turns",
    "records",
    "tables",
    "console",
    "trading_desk",
    "grids",
    "typescript",
    "demo",
)
"""Modules of this package; each has `run(records, runs)`, which prints as it goes and may return a table."""


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(BENCHMARKS))
@click.option("--records", default=1_000_000, show_default=True, help="Records of the load.")
@click.option("--runs", default=3, show_default=True, help="How often each is measured, in turn.")
@click.option(
    "--page",
    "pages",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Write each table into the page that has the marker lines of its name; may be given again.",
)
def main(names: tuple[str, ...], records: int, runs: int, pages: tuple[Path, ...]) -> None:
    """Measure, on this machine and in one run."""
    here = (
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}"
    )
    for name in names or BENCHMARKS:
        text: str | None = import_module(f"bench.{name}").run(records, runs)
        if text is not None:
            print(f"\n{text}\n", flush=True)
        if text is not None and pages:
            write_into(pages, name, f"{text}\n\n{datetime.now(UTC):%Y-%m-%d}; {here}.")


if __name__ == "__main__":
    main()
