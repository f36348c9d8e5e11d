"""Commands that read and write records. All of them pipe: JSON in, JSON out, a record a line."""

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any

import click
import msgspec
import orjson

from sowline.cli.columns import columns, number, table_of, tenths
from sowline.cli.completion import topic_argument
from sowline.cli.connection import through_connection
from sowline.cli.help import cli_command
from sowline.cli.marks import Marks
from sowline.cli.output import Output
from sowline.cli.progress import ProgressLine
from sowline.client.client import Client
from sowline.config.kafka_options import read_options
from sowline.errors import SowlineError
from sowline.model.body import write_body
from sowline.model.printable import printable
from sowline.protocol.client_message import Message
from sowline.protocol.options import parse_options

Command = Callable[..., None]

TIMELINE_COLUMNS = ("timestamp", "command", "outcome", "version", "publisher", "correlation_id", "data")
TABLE_ROWS = 1000
"""Records that a terminal's table takes together; more are a table of their own."""


def _check_options(context: click.Context, parameter: click.Parameter, text: str) -> str:
    # Bytes of a message type have no lines, so a pipe could not tell one record from the next.
    if parse_options(text).is_native:
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


_kafka = click.option("--kafka", "-k", help="Kafka's bootstrap servers, if not those the service names.")


def _read_options(context: click.Context, parameter: click.Parameter, text: str) -> dict[str, str]:
    try:
        return read_options(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


_kafka_options = click.option(
    "--kafka-options",
    envvar="SOWLINE_KAFKA_OPTIONS",
    default="",
    callback=_read_options,
    help="Kafka client options for TLS and SASL, as comma-separated name=value. Prefer SOWLINE_KAFKA_OPTIONS.",
)
_count = click.option("--count", "-n", type=click.IntRange(1), help="Stop after this many messages.")
_expiration = click.option(
    "--expiration",
    type=click.FloatRange(0),
    help="The records' lifetime in seconds, 0 for none; without it, the topic's.",
)
_wait = click.option(
    "--wait",
    "-w",
    is_flag=True,
    help="Wait until queries see the records; print the outcomes, and the bookmark from which they are visible.",
)
_tags = click.option(
    "--tag", "tags", multiple=True, help="A tag of the write, on a topic of documents; repeatable."
)
_delta = click.option(
    "--delta", is_flag=True, help="Of records known already, only keys and what has changed."
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


def through_kafka(command: Command) -> Command:
    """Add the options of a command that writes to Kafka; pass them on as `connection`, the arguments of a client."""

    @wraps(command)
    def run(
        connection: dict[str, Any], kafka: str | None, kafka_options: dict[str, str], **given: Any
    ) -> None:
        command(connection={**connection, "kafka": kafka, "kafka_options": kafka_options}, **given)

    return through_connection(_kafka(_kafka_options(run)))


def _writing(command: Command) -> Command:
    command = through_kafka(command)
    arguments = (topic_argument, click.argument("data", nargs=-1))
    for option in reversed((*arguments, _expiration, _tags, _wait)):
        command = option(command)
    return command


def _keyed(command: Command) -> Command:
    """Add the options that give records their keys, for topics whose publishers give keys."""
    options = (
        click.option("--key", help="The record's SOW key, on a topic whose keys publishers give."),
        click.option(
            "--keyed",
            is_flag=True,
            help='Each DATA is {"sow_key": …, "data": …}, as `sowline sow --full` prints it.',
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


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
        _print(client.sow(topic, **reading), full, {"sow"})


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
        _print(read(topic, **reading), full, {"publish", "oof"}, count)


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
        _print(messages, full, {"sow", "publish", "oof"}, count)


@cli_command(examples=("sowline explain orders --filter \"/status = 'open'\"",))
@_selecting
@_time
def explain(topic: str, connection: dict[str, Any], **reading: Any) -> None:
    """Print the access path and the counts of a query of TOPIC, as a line of JSON."""
    with connected(connection) as client:
        print_all([client.explain(topic, **reading)])


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


@cli_command(
    examples=(
        'sowline publish orders \'{"id": 17, "status": "open", "qty": 100}\' --wait',
        "sowline publish orders < orders.jsonl",
    )
)
@_writing
@_keyed
def publish(
    topic: str, data: tuple[str, ...], wait: bool, connection: dict[str, Any], **writing: Any
) -> None:
    """Insert or replace records of TOPIC: each DATA is one as JSON, or each line of standard input."""
    (_write_and_wait if wait else _write)(topic, data, connection, Client.publish, writing)


@cli_command("delta-publish", examples=('sowline delta-publish orders \'{"id": 17, "qty": 80}\' --wait',))
@_writing
@_keyed
def delta_publish(
    topic: str, data: tuple[str, ...], wait: bool, connection: dict[str, Any], **writing: Any
) -> None:
    """Merge fields into records of TOPIC: each DATA is one delta as JSON, or each line of standard input."""
    (_write_and_wait if wait else _write)(topic, data, connection, Client.delta_publish, writing)


@cli_command(examples=("sowline delta reviews r1 '{..,\"rating\":5}' --wait",))
@topic_argument
@click.argument("key")
@click.argument("delta", nargs=-1)
@_expiration
@_tags
@click.option("--change-id", help="Your own id of the change, of one delta: a UUID, or any text.")
@click.option("--wait", "-w", is_flag=True, help="Wait until they are applied; print the outcome of each.")
@through_kafka
def delta(
    topic: str, key: str, delta: tuple[str, ...], wait: bool, connection: dict[str, Any], **writing: Any
) -> None:
    """Write each DELTA to the document KEY of TOPIC, or those on standard input, as [d,d] or with blanks between."""
    stream = delta[0] if len(delta) == 1 else f"[{','.join(delta)}]" if delta else sys.stdin.read()
    with Client(**connection) as client:
        outcomes = client.deltas(topic, key, stream, wait=wait, **writing)
        print_all({"outcome": outcome} for outcome in outcomes)


@cli_command(
    examples=("sowline delete orders --filter \"/status = 'done'\"", "sowline delete orders --key 17")
)
@topic_argument
@click.option("--filter", "-f", help="Delete all records that match; 1=1 deletes every one.")
@click.option("--key", "keys", multiple=True, help="Delete the record with this SOW key; may be repeated.")
@click.option("--data", "-d", help="Delete the record that the key fields in this JSON name.")
@_tags
@through_connection
def delete(
    topic: str,
    filter: str | None,
    keys: tuple[str, ...],
    data: str | None,
    tags: tuple[str, ...],
    connection: dict[str, Any],
) -> None:
    """Delete records of TOPIC by filter, by SOW key, or by data: exactly one of them. Prints how many are gone."""
    with Client(**connection) as client:
        gone = client.sow_delete(topic, filter=filter, keys=list(keys) or None, data=data, tags=tags)
        print_all([{"deleted": gone}])


def _write(
    topic: str,
    data: tuple[str, ...],
    connection: dict[str, Any],
    write: Callable[..., str | None],
    writing: dict[str, Any],
) -> None:
    keyed, key = writing.pop("keyed"), writing.pop("key")
    if keyed and key is not None:
        raise SowlineError("bad request", "expected --key or --keyed, got both")
    with Client(**connection) as client:
        tell = ProgressLine()
        for number, line in enumerate(data or _input(), 1):
            tell("published", number)
            if number > 1 and key is not None and not keyed:
                raise SowlineError("bad request", "expected one record with a --key; use --keyed for several")
            try:
                if keyed:
                    read = _of_keyed(line)
                    if read is None:
                        continue
                    line, key = read
                write(client, topic, line, key=key, **writing)
            except SowlineError as error:
                raise SowlineError(error.reason, f"record {number}: {error.message}") from error


def _write_and_wait(
    topic: str,
    data: tuple[str, ...],
    connection: dict[str, Any],
    write: Callable[..., str | None],
    writing: dict[str, Any],
) -> None:
    """Have the service write records; print their outcomes once queries see all of them."""
    keyed, key = writing.pop("keyed"), writing.pop("key")
    if keyed and key is not None:
        raise SowlineError("bad request", "expected --key or --keyed, got both")
    with Client(**connection) as client:
        lines: Iterable[str] = data or _input()
        if keyed:
            lines = _keyed_lines(lines)
        if key is not None:
            lines = list(lines)
            if len(lines) != 1:
                raise SowlineError("bad request", "expected one record with a --key; use --keyed for several")
        is_delta = write is Client.delta_publish
        written = client.publish_all(topic, lines, delta=is_delta, key=key, **writing)
        print_all([written._asdict()])


def _keyed_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield what the service takes of the lines of `--keyed`: it refuses their other fields."""
    for line in lines:
        if (read := _of_keyed(line)) is not None:
            body, key = read
            yield f'{{"sow_key":{orjson.dumps(key).decode()},"data":{body}}}'


def _of_keyed(line: str) -> tuple[str, str] | None:
    """Return the body and the SOW key of a line that has both; None for the begin or end of a group."""
    try:
        read = _read_keyed(line)
    except msgspec.DecodeError as error:
        raise SowlineError("bad request", f"expected an object with sow_key and data: {error}") from error
    if read.command in ("group_begin", "group_end"):
        return None
    if read.sow_key is None or not read.data:
        raise SowlineError("bad request", f"expected an object with sow_key and data, got {line[:60]}")
    return bytes(read.data).decode(), read.sow_key


class _Keyed(msgspec.Struct):
    command: str = ""
    sow_key: str | None = None
    data: msgspec.Raw = msgspec.Raw(b"")


_read_keyed = msgspec.json.Decoder(_Keyed).decode


def _input() -> Iterator[str]:
    return (line.strip() for line in sys.stdin if line.strip())


@contextmanager
def connected(connection: dict[str, Any]) -> Iterator[Client]:
    """Lend a client for reading; Ctrl-C ends the command silently, connected or not."""
    try:
        with Client(**connection) as client:
            yield client
    except KeyboardInterrupt:
        sys.exit(0)


def _fields(message: Message) -> dict[str, Any]:
    names = (
        "command",
        "topic",
        "sow_key",
        "bookmark",
        "updated_at",
        "reason",
        "timestamp",
        "correlation_id",
        "intrinsics",
        "records",
        "hash",
    )
    fields = {name: value for name in names if (value := getattr(message, name)) not in (None, "")}
    flags = {name: True for name in ("reset", "more", "delta") if getattr(message, name)}
    if message.removed:
        fields["removed"] = message.removed
    return fields | flags | ({"data": orjson.Fragment(message.body)} if message.body else {})


def _line(message: Message, *, full: bool) -> bytes:
    """Return a message as a line of a pipe: its body; an `oof` whole, so that it can't be taken for a record."""
    return orjson.dumps(_fields(message)) if full or message.command == "oof" else message.body


def _print(messages: Iterable[Message], full: bool, commands: set[str], count: int | None = None) -> None:
    """Print messages with these commands, each as it arrives; records of a group are printed many at a time.

    On a terminal records are a table, and changes are marked.
    """
    output, left = Output(sys.stdout.fileno()), count
    is_table = sys.stdout.isatty() and not full and commands == {"sow"}
    marks = Marks() if sys.stdout.isatty() and not full and not is_table else None
    rows: list[dict[str, Any]] = []
    try:
        for message in messages:
            for warning in message.warnings:
                click.echo(f"sowline: warning: {printable(warning)}", err=True)
            if full or message.command in commands:
                if is_table:
                    rows.append(message.data)
                else:
                    output.put(_line(message, full=full) if marks is None else marks.line(message))
                left = None if left is None else left - 1
            if is_table and (len(rows) >= TABLE_ROWS or message.command == "group_end"):
                _print_table(rows)
                rows.clear()
            elif message.command != "sow" or left == 0:
                output.write()
            if left == 0:
                return
    except SowlineError:
        output.write()
        raise


def _print_table(rows: list[dict[str, Any]]) -> None:
    if rows:
        click.echo("\n".join(table_of(rows, shutil.get_terminal_size().columns)))


def print_all(answers: Iterable[Any]) -> None:
    """Print answers: a line of JSON each, on a terminal a table."""
    if sys.stdout.isatty():
        _print_table(list(answers))
        return
    output = Output(sys.stdout.fileno())
    for answer in answers:
        output.put(write_body(answer))
    output.write()
