"""Commands that write records. They take JSON as arguments, or one record per line on standard input."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple

import click
import msgspec
import orjson

from sowline.cli.completion import topic_argument
from sowline.cli.connection import Command, through_connection
from sowline.cli.help import cli_command
from sowline.cli.printing import print_all
from sowline.cli.progress import ProgressLine, reported_if_slow
from sowline.client.client import Client
from sowline.config.kafka_options import read_options
from sowline.errors import SowlineError

WAITING = "waiting until queries see them"

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


def through_kafka(command: Command) -> Command:
    """Add the options of a command that writes to Kafka; pass them on as `connection`, the arguments of a client."""

    @wraps(command)
    def run(
        connection: dict[str, Any], kafka: str | None, kafka_options: dict[str, str], **given: Any
    ) -> None:
        command(connection={**connection, "kafka": kafka, "kafka_options": kafka_options}, **given)

    return through_connection(with_kafka(run))


def with_kafka(command: Command) -> Command:
    """Add the options `kafka` and `kafka_options`."""
    return _kafka(_kafka_options(command))


def _writing(command: Command) -> Command:
    command = through_kafka(command)
    arguments = (topic_argument, click.argument("data", nargs=-1))
    for option in reversed((*arguments, _expiration, _tags, _wait)):
        command = option(command)
    return command


def _keyed(command: Command) -> Command:
    """Add the options that give records their keys, for topics whose publishers supply the keys."""
    options = (
        click.option("--key", help="The record's SOW key, on a topic whose publishers supply the keys."),
        click.option(
            "--keyed",
            is_flag=True,
            help='Each DATA is {"sow_key": …, "data": …}, as `sowline sow --full` prints it.',
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


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
    _write(topic, data, wait, connection, Client.publish, writing)


@cli_command("delta-publish", examples=('sowline delta-publish orders \'{"id": 17, "qty": 80}\' --wait',))
@_writing
@_keyed
def delta_publish(
    topic: str, data: tuple[str, ...], wait: bool, connection: dict[str, Any], **writing: Any
) -> None:
    """Merge fields into records of TOPIC: each DATA is one delta as JSON, or each line of standard input."""
    _write(topic, data, wait, connection, Client.delta_publish, writing)


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
        with reported_if_slow(WAITING) as begin_to_wait:
            begin_to_wait()
            outcomes = client.deltas(topic, key, stream, wait=wait, **writing)
        print_all({"outcome": outcome} for outcome in outcomes)


@cli_command(
    examples=(
        "sowline delete orders --filter \"/status = 'done'\"",
        "sowline delete orders --data '{\"id\": 17}'",
    )
)
@topic_argument
@click.option("--filter", "-f", help="Delete all records that match; 1=1 deletes every one.")
@click.option(
    "--key",
    "keys",
    multiple=True,
    help="Delete the record with this SOW key, as --full prints it; repeatable.",
)
@click.option("--data", "-d", help="Delete the record that the key fields in this JSON name.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask first; without a terminal, nothing is asked.")
@_tags
@through_connection
def delete(
    topic: str,
    filter: str | None,
    keys: tuple[str, ...],
    data: str | None,
    yes: bool,
    tags: tuple[str, ...],
    connection: dict[str, Any],
) -> None:
    """Delete records of TOPIC by filter, by SOW key, or by data: exactly one of them. Prints how many are gone.

    On a terminal, it asks first.
    """
    if (given := sum(bool(one) for one in (filter, keys, data))) != 1:
        raise SowlineError("bad request", f"expected exactly one of --filter, --key and --data, got {given}")
    if not yes and sys.stdin.isatty() and sys.stderr.isatty():
        what = _selected(filter, keys, data)
        click.confirm(f"Delete from {topic} at {connection['url']} {what}?", abort=True, err=True)  # noqa: S608 - no SQL
    with Client(**connection) as client:
        gone = client.sow_delete(topic, filter=filter, keys=list(keys) or None, data=data, tags=tags)
        print_all([{"deleted": gone}])


def _selected(filter: str | None, keys: tuple[str, ...], data: str | None) -> str:
    """Return what a delete selects, in words."""
    named = {
        "every record that matches": filter,
        "the records with the SOW keys" if keys[1:] else "the record with the SOW key": ", ".join(keys),
        "the record with the key of": data,
    }
    return next(f"{what} {text}" for what, text in named.items() if text)


class _Record(NamedTuple):
    """A record to write: the number of its line, its body, and its SOW key if the command or the line names it."""

    number: int
    body: str
    key: str | None


def _write(
    topic: str,
    data: tuple[str, ...],
    wait: bool,
    connection: dict[str, Any],
    write: Callable[..., str | None],
    writing: dict[str, Any],
) -> None:
    """Write records to Kafka; with `wait` through the service, and print their outcomes once all are visible."""
    keyed = writing.pop("keyed")
    records = _records(data or _input(), keyed, writing["key"])
    waiting = WAITING if wait else "waiting until Kafka has the records"
    with Client(**connection) as client, reported_if_slow(waiting) as begin_to_wait:
        read = _with_progress(records, begin_to_wait)
        if wait:
            lines = map(_keyed_line, read) if keyed else (record.body for record in read)
            written = client.publish_all(topic, lines, delta=write is Client.delta_publish, **writing)
            print_all([written._asdict()])
            return
        for number, body, key in read:
            with _numbered(number), _flushed(client):
                write(client, topic, body, **{**writing, "key": key})
        client.flush()


def _with_progress(records: Iterable[_Record], at_end: Callable[[], None]) -> Iterator[_Record]:
    """Yield the records, and report on a terminal how many there were; call `at_end` after the last one."""
    tell = ProgressLine()
    for record in records:
        yield record
        tell("published", record.number)
    at_end()


def _records(lines: Iterable[str], keyed: bool, key: str | None) -> Iterable[_Record]:
    """Return the records of lines; raise `bad request` if --keyed or --key do not fit them."""
    if keyed and key is not None:
        raise SowlineError("bad request", "expected --key or --keyed, got both")
    if keyed:
        return _keyed_records(lines)
    if key is not None and (count := len(lines := list(lines))) != 1:
        raise SowlineError(
            "bad request", f"expected one record with a --key, got {count}; use --keyed for several"
        )
    return (_Record(number, line, key) for number, line in enumerate(lines, 1))


@contextmanager
def _numbered(number: int) -> Iterator[None]:
    """Name the record in an error of the block."""
    try:
        yield
    except SowlineError as error:
        raise SowlineError(error.reason, f"record {number}: {error.message}") from error


@contextmanager
def _flushed(client: Client) -> Iterator[None]:
    """Write the records before a refused one, and say so in the error."""
    try:
        yield
    except SowlineError as error:
        client.flush()
        known = "the records before it are written, those after it are not"
        raise SowlineError(error.reason, f"{error.message}; {known}") from error


def _keyed_records(lines: Iterable[str]) -> Iterator[_Record]:
    """Yield the records of lines that have their SOW keys, without the begin and the end of a group."""
    for number, line in enumerate(lines, 1):
        with _numbered(number):
            try:
                read = _read_keyed(line)
            except msgspec.DecodeError as error:
                wrong = f"expected an object with sow_key and data: {error}"
                raise SowlineError("bad request", wrong) from error
            if read.command in ("group_begin", "group_end"):
                continue
            if read.sow_key is None or not read.data:
                raise SowlineError(
                    "bad request", f"expected an object with sow_key and data, got {line[:60]}"
                )
        yield _Record(number, bytes(read.data).decode(), read.sow_key)


def _keyed_line(record: _Record) -> str:
    """Return the fields of a `--keyed` line that the service accepts: it refuses all others."""
    return f'{{"sow_key":{orjson.dumps(record.key).decode()},"data":{record.body}}}'


class _Keyed(msgspec.Struct):
    command: str = ""
    sow_key: str | None = None
    data: msgspec.Raw = msgspec.Raw(b"")


_read_keyed = msgspec.json.Decoder(_Keyed).decode


def _input() -> Iterator[str]:
    if sys.stdin.isatty() and sys.stderr.isatty():
        click.echo("sowline: reading records as JSON, one per line; Ctrl-D ends", err=True)
    return (line.strip() for line in sys.stdin if line.strip())
