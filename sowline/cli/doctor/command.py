"""`sowline doctor`: examines a set-up, and reports what is wrong and what to do."""

import os
import sys
from pathlib import Path
from typing import Any

import click
import orjson

from sowline.cli.connection import STACK_SETTINGS, ConnectionOptions, report, with_connection
from sowline.cli.doctor.finding import Finding, count
from sowline.cli.help import cli_command
from sowline.runtime.running_stack import chosen_stack

PATH = click.Path(path_type=Path)
_COLORS = {"ok": "green", "note": "cyan", "warning": "yellow", "error": "red"}


@cli_command(examples=("sowline doctor", "sowline doctor --config topics.yaml --kafka 127.0.0.1:9092"))
@click.option("--config", type=PATH, help="The file of topics (SOWLINE_CONFIG).")
@click.option("--kafka", "-k", help="Kafka's bootstrap servers (SOWLINE_KAFKA).")
@click.option("--data-dir", type=PATH, help="Where the materializer keeps state (SOWLINE_DATA_DIR).")
@click.option("--access", help="The access file of the query services (SOWLINE_ACCESS).")
@click.option("--url", "-u", "urls", multiple=True, help="The URL of a service of any kind; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each finding.")
@with_connection
def doctor(
    urls: tuple[str, ...], connection: ConnectionOptions, as_json: bool, access: str | None, **given: Any
) -> None:
    """Examine a set-up: its topics, Kafka, state and services; report what is wrong, and what to do.

    Nothing is written, and services may run meanwhile. Exits with 1 if there is an error.
    """
    # Imported here, so that other commands do not wait for it.
    from sowline.cli.doctor.examination import examined

    given = {name: value for name, value in given.items() if value is not None}
    if not given and not urls and not STACK_SETTINGS & os.environ.keys():
        stack = chosen_stack()
        if stack is None:
            click.echo("sowline: no `sowline up` runs here; examining the usual addresses", err=True)
        else:
            report(stack)
            given, urls = (
                {"config": stack.config, "kafka": stack.kafka, "data_dir": stack.data_dir},
                stack.urls,
            )
    if access is not None:
        given["access"] = access
    counted = dict.fromkeys(_COLORS, 0)
    for finding in examined(given, urls, connection):
        counted[finding.severity] += 1
        click.echo(orjson.dumps(finding.fields()) if as_json else _line(finding))
    if not as_json:
        click.echo(", ".join(count(counted[severity], severity) for severity in ("error", "warning", "note")))
    sys.exit(1 if counted["error"] else 0)


def _line(finding: Finding) -> str:
    severity = click.style(f"{finding.severity:8}", fg=_COLORS[finding.severity])
    advice = f"\n{'':8}{finding.advice}" if finding.advice else ""
    return f"{severity}{finding.code}: {finding.sentence()}{advice}"
