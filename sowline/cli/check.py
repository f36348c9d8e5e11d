"""The command `sowline check`: it runs a workload against a system and judges its history, or a recorded one."""

import asyncio
import random
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from sowline.check.history import Event, HistoryBegin, event_line, read_history
from sowline.check.judge.judging import judge
from sowline.check.judge.shrinking import shrunk
from sowline.check.judge.verdict import Judgment
from sowline.check.recorder import Recorder
from sowline.check.topics import WorkloadTopics
from sowline.check.workload import WorkloadOptions, run_workload
from sowline.cli.check_topics import checked_topics
from sowline.cli.columns import columns, number
from sowline.cli.connection import USUAL_URL, ConnectionOptions, url_option, with_connection
from sowline.cli.help import cli_command
from sowline.cli.writing import with_kafka

SHOWN_MAX = 20
"""The violations that are printed."""

_option = partial(click.option, show_default=True)
_FILE = click.Path(path_type=Path, dir_okay=False)


def _without_system(context: click.Context, parameter: click.Parameter, value: object) -> object:
    # Looking for a running `sowline up` would fail without one, and nothing is asked of it.
    if value:
        context.default_map = {**(context.default_map or {}), "url": USUAL_URL}
    return value


@cli_command(
    examples=(
        "sowline check --seconds 60 --history run.jsonl",
        "sowline check --definitions",
        "sowline check --judge run.jsonl",
    )
)
@_option("--seconds", type=click.FloatRange(0.1), default=30.0, help="How long to write and read.")
@_option("--rate", "writes_per_second", type=click.FloatRange(1), default=100.0, help="Writes per second.")
@click.option("--seed", type=int, help="The number that decides all choices; chosen by chance by default.")
@_option(
    "--timeout",
    "answer_seconds",
    type=click.FloatRange(1),
    default=120.0,
    help="Seconds to wait for an answer.",
)
@_option("--prefix", default="sowline-check", help="The first part of the names of the topics.")
@click.option("--history", type=_FILE, help="The file to write the history to.")
@click.option(
    "--faults",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A file with a shell command a line, to run one after the other while the workload runs.",
)
@click.option(
    "--definitions",
    is_flag=True,
    is_eager=True,
    callback=_without_system,
    help="Print the definitions of the topics that the system needs.",
)
@click.option(
    "--judge",
    "judged",
    is_eager=True,
    callback=_without_system,
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Judge this history; run nothing.",
)
@url_option
@with_connection
@with_kafka
def check(
    seconds: float,
    writes_per_second: float,
    seed: int | None,
    answer_seconds: float,
    prefix: str,
    url: str,
    connection: ConnectionOptions,
    **given: Any,
) -> None:
    """Check the guarantees of a running system: write and read its own topics at random, and judge the history.

    A running `sowline up` has these topics during the check. For another system, --definitions prints what to add.

    The exit code is 0 if every guarantee that was checked was kept, and 1 if one was broken.
    """
    topics = WorkloadTopics.below(prefix)
    if given["definitions"]:
        click.echo(topics.definitions, nl=False)
        return
    if (judged := given["judged"]) is not None:
        with judged.open("rb") as lines:
            events: Sequence[Event] = list(read_history(lines))
    else:
        faults = given["faults"]
        options = WorkloadOptions(
            connection.for_client(url) | {name: given[name] for name in ("kafka", "kafka_options")},
            topics,
            seconds,
            writes_per_second,
            random.randrange(1 << 32) if seed is None else seed,  # noqa: S311 - a seed is no secret
            () if faults is None else tuple(filter(None, map(str.strip, faults.read_text().splitlines()))),
            answer_seconds,
        )
        with checked_topics(topics, url, connection):
            events = _run(options, given["history"])
    verdict = judge(events)
    report(verdict, click.echo)
    begin = events[0]
    if isinstance(begin, HistoryBegin) and begin.unchecked_fanouts:
        click.echo(f"fanouts were not checked: {begin.unchecked_fanouts}")
    history = judged or given["history"]
    if verdict.violations and history is not None:
        short = history.with_suffix(".short.jsonl")
        short.write_bytes(
            b"".join(event_line(event) + b"\n" for event in shrunk(events, verdict.violations[0]))
        )
        click.echo(f"the events of the first violation are in {short}")
    sys.exit(1 if verdict.violations else 0)


def _run(options: WorkloadOptions, history: Path | None) -> Sequence[Event]:
    if history is None:
        recorder = Recorder(time.monotonic)
        asyncio.run(run_workload(options, recorder))
    else:
        with history.open("wb") as file:
            recorder = Recorder(time.monotonic, file)
            asyncio.run(run_workload(options, recorder))
    return recorder.events


def report(verdict: Judgment, say: Callable[[str], object]) -> None:
    """Print a table of the guarantees, then the violations."""
    rows = [
        (str(guarantee), number(checked), number(broken), _state(checked, broken))
        for guarantee, checked, broken in verdict.rows()
    ]
    say("\n".join(columns(("GUARANTEE", "CHECKED", "BROKEN", "VERDICT"), rows, "<>><")))
    for violation in verdict.violations[:SHOWN_MAX]:
        say(str(violation))
    if len(verdict.violations) > SHOWN_MAX:
        say(f"… and {len(verdict.violations) - SHOWN_MAX:,} more")


def _state(checked: int, broken: int) -> str:
    if broken:
        return "broken"
    return "kept" if checked else "nothing checked"
