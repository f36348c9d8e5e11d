"""`python -m bench [NAME …]`: run measurements and print each as a ratio to something in the same run."""

import click

from bench import materialize

BENCHMARKS = {"materialize": materialize.run}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(sorted(BENCHMARKS)))
@click.option("--records", default=300_000, show_default=True, help="Records of the load.")
@click.option("--runs", default=3, show_default=True, help="How often each is measured, by turns.")
def main(names: tuple[str, ...], records: int, runs: int) -> None:
    """Measure, on this machine and in one run."""
    for name in names or tuple(BENCHMARKS):
        BENCHMARKS[name](records, runs)


if __name__ == "__main__":
    main()
