"""Commands that read records. They print JSON, a record a line; on a terminal, tables."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click
import orjson

from sowline.cli.columns import columns, number, tenths
from sowline.cli.completion import topic_argument
from sowline.cli.connection import Command, through_connection
from sowline.cli.help import cli_command
from sowline.cli.printing import print_all, print_messages
from sowline.client.client import Client
from sowline.errors import SowlineError
from sowline.wire.options import parse_options

TIMELINE_COLUMNS = ("timestamp", "command", "outcome", "version", "publisher", "correlation_id", "data")


def _check_options(context: click.Context, parameter: click.Parameter, text: str) -> str:
    # Bytes of a message type have no lines, so a pipe could not tell one record from the next.
    if parse_options(text).is_typed:
        raise SowlineError(
            "invalid options",
            "expected options without format=native, got it: commands print JSON; use a client to get messages in"
            " the topic's type",
        )
    return text


def _selecting(command: Command) -> Command:
    options = (
        topic_argument,
        click.option(
            "--filter", "-f", default="", help="Only records that match, e.g. \"/status = 'open'\"."
        ),
        click.option(
            "--condition", "-c", default="", help="Only documents that meet it, e.g. '{..,\"rating\":ge(4)}'."
        ),
        click.option(
            "--options",
            "-o",
            default="",
            callback=_check_options,
            help="Options as on the wire, e.g. oof,select=[-/,+/id].",
        ),
        click.option("--order-by", default="", help='The order of the records, e.g. "/qty DESC, /id".'),
        click.option("--top-n", type=click.IntRange(0), help="Return only the first N records."),
        click.option(
            "--skip-n",
            type=click.IntRange(0),
            help="Skip this many records first; in a live subscription, this asks for a page.",
        ),
        click.option(
            "--key", "sow_keys", multiple=True, help="Only the record with this SOW key; repeatable."
        ),
    )
    command = _fresh(through_connection(command))
    for option in reversed(options):
        command = option(command)
    return command


def _fresh(command: Command) -> Command:
    """Add the options of a read that demands a fresh state."""
    at_least = click.option(
        "--at-least",
        default="",
        help="Wait until the service has applied this bookmark; `behind` if it does not.",
    )
    max_staleness = click.option(
        "--max-staleness",
        default="",
        help="Refuse to answer (`stale`) from a state further behind the log than this, e.g. 500ms.",
    )
    return at_least(max_staleness(command))


def _reading(command: Command) -> Command:
    full = click.option("--full", is_flag=True, help="Whole messages instead of bodies only.")
    return _selecting(full(command))


_count = click.option("--count", "-n", type=click.IntRange(1), help="Stop after this many messages.")
_delta = click.option(
    "--delta", is_flag=True, help="For records known already, print only keys and changed fields."
)
_bookmark = click.option(
    "--bookmark",
    "-b",
    default="",
    help="Where to start: a bookmark, a time like 20261121T120000Z, or a range.",
)
_up_to = click.option("--up-to", default="", help="Where to stop: a bookmark, a time, or now.")
_time = click.option(
    "--bookmark", "-b", default="", help="Read records as of a bookmark, or a time like 20261121T120000Z."
)


@cli_command(examples=("sowline topics",))
@through_connection
def topics(connection: dict[str, Any]) -> None:
    """List the topics: a table on a terminal, else a line of JSON each."""
    with connected(connection) as client:
        found = client.topics()["topics"]
    if sys.stdout.isatty():
        click.echo("\n".join(topics_table(found)))
    else:
        print_all(found)


def topics_table(found: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return topics as the lines of a table."""
    heads = ("TOPIC", "STATE", "RECORDS", "LAG", "LAG S", "NEWEST S", "SUBSCRIPTIONS")
    rows = [
        (
            str(topic["name"]),
            "loading" if topic["loading"] else "ready",
            number(topic["records"]) if topic["sow"] else "-",
            number(topic["lag"]),
            tenths(topic["lag_seconds"]),
            tenths(topic["newest_seconds"]),
            number(topic["subscriptions"]),
        )
        for topic in found
    ]
    return columns(heads, rows, "<<>>>>>")


@cli_command(examples=('sowline sow orders --filter "/status = \'open\'" --order-by "/qty DESC" --top-n 10',))
@_reading
@_time
@click.option("--batch-size", default=100, show_default=True, help="Records per message on the wire.")
def sow(topic: str, full: bool, connection: dict[str, Any], **reading: Any) -> None:
    """Print the records of TOPIC that match, as they are, or were, at one instant; `^…` is a pattern of topics."""
    with connected(connection) as client:
        print_messages(client.sow(topic, **reading), full, {"sow"})


@cli_command(examples=('sowline subscribe orders --filter "/qty > 100" --options oof',))
@_reading
@_bookmark
@_up_to
@_count
@_delta
def subscribe(
    topic: str, full: bool, connection: dict[str, Any], count: int | None, delta: bool, **reading: Any
) -> None:
    """Print the changes of TOPIC as they happen, from now or from a bookmark on, to the end if there is one."""
    with connected(connection) as client:
        read = client.delta_subscribe if delta else client.subscribe
        print_messages(read(topic, **reading), full, {"publish", "oof"}, count)


@cli_command(
    "sow-and-subscribe",
    examples=("sowline sow-and-subscribe orders --filter \"/status = 'open'\" --options oof",),
)
@_reading
@_bookmark
@_up_to
@_count
@_delta
def sow_and_subscribe(
    topic: str, full: bool, connection: dict[str, Any], count: int | None, delta: bool, **reading: Any
) -> None:
    """Print the records of TOPIC that match, then every change after that instant."""
    with connected(connection) as client:
        read = client.sow_and_delta_subscribe if delta else client.sow_and_subscribe
        messages = read(topic, batch_size=100, **reading)
        print_messages(messages, full, {"sow", "publish", "oof"}, count)


@cli_command(examples=("sowline explain orders --filter \"/status = 'open'\"",))
@_selecting
@_time
def explain(topic: str, connection: dict[str, Any], **reading: Any) -> None:
    """Print the access path and the counts of a query of TOPIC, as a line of JSON."""
    with connected(connection) as client:
        click.echo(orjson.dumps(client.explain(topic, **reading)))


@cli_command(examples=("sowline timeline orders 17 --limit 10",))
@topic_argument
@click.argument("key")
@click.option("--limit", "-n", default=100, show_default=True, help="Return at most this many writes.")
@click.option("--oldest-first", is_flag=True, help="The oldest first instead of the newest.")
@_bookmark
@_up_to
@_fresh
@through_connection
def timeline(topic: str, key: str, connection: dict[str, Any], oldest_first: bool, **given: Any) -> None:
    """Print the writes to the record of TOPIC with the key text KEY, newest first.

    They are a table on a terminal, and a line of JSON each in a pipe.
    """
    with connected(connection) as client:
        writes = client.timeline(topic, key, reversed=not oldest_first, **given)["writes"]
    if sys.stdout.isatty():
        writes = [{name: write[name] for name in TIMELINE_COLUMNS if name in write} for write in writes]
    print_all(writes)


@contextmanager
def connected(connection: dict[str, Any]) -> Iterator[Client]:
    """Lend a client for reading; Ctrl-C ends the command silently, connected or not."""
    try:
        with Client(**connection) as client:
            yield client
    except KeyboardInterrupt:
        sys.exit(0)
