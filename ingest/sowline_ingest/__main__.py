"""`python -m sowline_ingest`, which `sowline pipeline` is: run a declared pipeline, or look at its file."""

import dataclasses
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from sowline.cli import CliGroup
from sowline.cli.connection import (
    CONNECTION_OPTIONS,
    ConnectionOptions,
    through_connection,
    url_option,
    with_connection,
)
from sowline.cli.help import CONTEXT
from sowline.config.yaml_file import YamlFileError
from sowline.errors import SowlineError
from sowline_ingest.against_system import checked_against, found_system
from sowline_ingest.submit import submit
from sowline_ingest.syntax import checked_pipeline

FILE = click.Path(path_type=Path)


@click.group(cls=CliGroup, connection=CONNECTION_OPTIONS, context_settings=CONTEXT)
def main() -> None:
    """Pipelines with Spark, each declared by one YAML file."""


@main.command(
    examples=("sowline pipeline validate orders.yaml", "sowline pipeline validate orders.yaml --offline")
)
@click.argument("file", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Print problems as a JSON list.")
@click.option("--offline", is_flag=True, help="Check only the file, even if there is a running system.")
@click.option("--kafka", help="Kafka's bootstrap servers (SOWLINE_KAFKA).")
@url_option
@with_connection
@click.pass_context
def validate(
    context: click.Context,
    file: Path,
    as_json: bool,
    offline: bool,
    kafka: str | None,
    url: str,
    connection: ConnectionOptions,
) -> None:
    """Check the FILE of a pipeline: fields, variables and SQL; with a running system, also the result of a sample.

    A running system is a `sowline up` on this machine, or one that --kafka, --url or their variables name. Then the
    topic, its key, the Kafka topics and the columns are checked, and a sample of the rows is shown. Nothing is
    written. Exits with 1 if there is a problem.
    """
    _kafka_is(kafka)
    asked = url if context.get_parameter_source("url") is not ParameterSource.DEFAULT else None
    try:
        if offline or (found := found_system(asked)) is None:
            checked_pipeline(file, os.environ)
            lines = [f"{file}: ok"]
        else:
            lines = [f"{file}: ok", *checked_against(found, file, connection)]
    except YamlFileError as error:
        if not as_json:
            raise
        click.echo(
            json.dumps([dataclasses.asdict(problem) for problem in error.problems], ensure_ascii=False)
        )
        sys.exit(1)
    click.echo("[]" if as_json else "\n".join(lines))


@main.command(examples=("sowline pipeline run orders.yaml", "sowline pipeline run orders.yaml --once --wait"))
@click.argument("file", type=FILE)
@click.option("--once", is_flag=True, help="Stop after writing the available input.")
@click.option("--rows-per-second", type=float, help="Maximum rows per second; overrides FILE.")
@click.option("--kafka", help="Kafka's bootstrap servers (SOWLINE_KAFKA).")
@click.option(
    "--wait",
    is_flag=True,
    help="With --once: wait until queries see the rows; count those applied and dead.",
)
@through_connection
def run(
    file: Path,
    once: bool,
    rows_per_second: float | None,
    kafka: str | None,
    wait: bool,
    connection: Mapping[str, Any],
) -> None:
    """Run the pipeline of a FILE until stopped; after a kill, run it again to continue from its checkpoint.

    Prints a line of JSON when it runs, and one with the sums of all its runs when it ends. Reports progress on
    standard error.
    """
    from sowline_ingest.run import run as run_pipeline

    if wait and not once:
        raise SowlineError("bad request", "expected --wait together with --once, got it alone")
    _kafka_is(kafka)
    found_system(None)
    wait_at = connection if wait else None
    outcome = run_pipeline(
        file, once=once, rows_per_second=rows_per_second, on_running=_print, wait_at=wait_at
    )
    _print(outcome)


@main.command(examples=("sowline pipeline explain orders.yaml",))
@click.argument("file", type=FILE)
@click.option("--plan", is_flag=True, help="Show Spark's plan as well.")
@click.option("--json", "as_json", is_flag=True, help="Print it as a line of JSON.")
@click.option("--kafka", help="Kafka's bootstrap servers (SOWLINE_KAFKA).")
def explain(file: Path, plan: bool, as_json: bool, kafka: str | None) -> None:
    """Show what the pipeline of a FILE does: publisher, topics and columns. Nothing is written."""
    from sowline_ingest.explain import explain as explain_pipeline
    from sowline_ingest.explain import text_of

    _kafka_is(kafka)
    found_system(None)
    explanation = explain_pipeline(file, with_plan=plan)
    click.echo(json.dumps(explanation, ensure_ascii=False) if as_json else text_of(explanation))


main.add_command(submit)


def _print(line: Mapping[str, object]) -> None:
    click.echo(json.dumps(line))


def _kafka_is(kafka: str | None) -> None:
    if kafka is not None:
        os.environ["SOWLINE_KAFKA"] = kafka


if __name__ == "__main__":
    main(prog_name="sowline pipeline")
