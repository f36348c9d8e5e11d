"""`python -m bench [NAME …]`: run measurements and print each as a ratio to something in the same run."""

from importlib import import_module

import click

BENCHMARKS = (
    "materialize",
    "filters",
    "queries",
    "matching",
    "deltas",
    "history",
    "subscribers",
    "pipeline",
    "recovery",
    "expiry",
    "emodb",
)
"""Modules of this package; each has `run(records, runs)`."""


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(BENCHMARKS))
@click.option("--records", default=1_000_000, show_default=True, help="Records of the load.")
@click.option("--runs", default=3, show_default=True, help="How often each is measured, by turns.")
def main(names: tuple[str, ...], records: int, runs: int) -> None:
    """Measure, on this machine and in one run."""
    for name in names or BENCHMARKS:
        import_module(f"bench.{name}").run(records, runs)


if __name__ == "__main__":
    main()
