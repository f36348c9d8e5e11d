"""Commands that read and write records. All of them pipe: JSON in, JSON out, a record a line."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import click
import orjson

from sowline.cli.output import Output
from sowline.client import Client
from sowline.errors import SowlineError
from sowline.message import Message

Command = Callable[..., None]


def _selecting(command: Command) -> Command:
    options = (
        click.argument("topic"),
        click.option(
            "--filter", "-f", default="", help="Only records that match, e.g. \"/status = 'open'\"."
        ),
        click.option(
            "--options", "-o", default="", help="Options as on the wire, e.g. oof,select=[-/,+/id]."
        ),
        click.option("--order-by", default="", help='The order of the records, e.g. "/qty DESC, /id".'),
        click.option("--top-n", type=click.IntRange(0), help="Only the first so many records."),
        click.option(
            "--skip-n",
            type=click.IntRange(0),
            help="Leave out so many records before them; live, this asks for a page.",
        ),
        click.option(
            "--key", "sow_keys", multiple=True, help="Only the record with this SOW key; repeatable."
        ),
        _url,
    )
    for option in reversed(options):
        command = option(command)
    return command


def _reading(command: Command) -> Command:
    full = click.option("--full", is_flag=True, help="Whole messages instead of bodies only.")
    return _selecting(full(command))


_url = click.option(
    "--url",
    "-u",
    envvar="SOWLINE_URL",
    default="http://127.0.0.1:8080",
    show_default=True,
    help="The query service.",
)
_kafka = click.option("--kafka", "-k", help="Kafka's bootstrap servers, if not those the service names.")
_count = click.option("--count", "-n", type=click.IntRange(1), help="Stop after so many messages.")
_expiration = click.option(
    "--expiration",
    type=click.FloatRange(0),
    help="The records' lifetime in seconds, 0 for none; without it, the topic's.",
)
_delta = click.option(
    "--delta", is_flag=True, help="Of records known already, only keys and what has changed."
)
_bookmark = click.option(
    "--bookmark", "-b", default="", help="Where to begin: a place, a time like 20261121T120000Z, or a range."
)
_up_to = click.option("--up-to", default="", help="Where to end: a place, a time, or now.")
_time = click.option("--bookmark", "-b", default="", help="The records of a time: 20261121T120000Z.")


@click.command()
@_url
def topics(url: str) -> None:
    """List the topics, a line of JSON each."""
    with _connected(url) as client:
        _print_all(client.topics()["topics"])


@click.command()
@_reading
@_time
@click.option("--batch-size", default=100, show_default=True, help="Records a message on the wire.")
def sow(topic: str, full: bool, url: str, **reading: Any) -> None:
    """Print the records of TOPIC that match, as they are, or were, at one instant; `^…` is a pattern of topics."""
    with _connected(url) as client:
        _print(client.sow(topic, **reading), full, {"sow"})


@click.command()
@_reading
@_bookmark
@_up_to
@_count
@_delta
def subscribe(topic: str, full: bool, url: str, count: int | None, delta: bool, **reading: Any) -> None:
    """Print the changes of TOPIC as they happen, from now or from a bookmark on, to the end if there is one."""
    with _connected(url) as client:
        read = client.delta_subscribe if delta else client.subscribe
        _print(read(topic, **reading), full, {"publish", "oof"}, count)


@click.command("sow-and-subscribe")
@_reading
@_bookmark
@_up_to
@_count
@_delta
def sow_and_subscribe(
    topic: str, full: bool, url: str, count: int | None, delta: bool, **reading: Any
) -> None:
    """Print the records of TOPIC that match, then every change after that instant."""
    with _connected(url) as client:
        read = client.sow_and_delta_subscribe if delta else client.sow_and_subscribe
        messages = read(topic, batch_size=100, **reading)
        _print(messages, full, {"sow", "publish", "oof"}, count)


@click.command()
@_selecting
@_time
def explain(topic: str, url: str, **reading: Any) -> None:
    """Print which road a query of TOPIC takes over its indexes, and what it counts, as a line of JSON."""
    with _connected(url) as client:
        _print_all([client.explain(topic, **reading)])


@click.command()
@click.argument("topic")
@click.argument("data", nargs=-1)
@_expiration
@_url
@_kafka
def publish(topic: str, data: tuple[str, ...], expiration: float | None, url: str, kafka: str | None) -> None:
    """Insert or replace records of TOPIC: each DATA is one as JSON, or each line of standard input."""
    _write(topic, data, url, kafka, Client.publish, expiration)


@click.command("delta-publish")
@click.argument("topic")
@click.argument("data", nargs=-1)
@_expiration
@_url
@_kafka
def delta_publish(
    topic: str, data: tuple[str, ...], expiration: float | None, url: str, kafka: str | None
) -> None:
    """Merge fields into records of TOPIC: each DATA is one delta as JSON, or each line of standard input."""
    _write(topic, data, url, kafka, Client.delta_publish, expiration)


@click.command()
@click.argument("topic")
@click.option("--filter", "-f", help="Delete all records that match; 1=1 deletes every one.")
@click.option("--key", "keys", multiple=True, help="Delete the record with this SOW key; may be repeated.")
@click.option("--data", "-d", help="Delete the record that the key fields in this JSON name.")
@_url
def delete(topic: str, filter: str | None, keys: tuple[str, ...], data: str | None, url: str) -> None:
    """Delete records of TOPIC by filter, by SOW key, or by data: exactly one of them. Prints how many are gone."""
    with Client(url) as client:
        _print_all([{"deleted": client.sow_delete(topic, filter=filter, keys=list(keys) or None, data=data)}])


def _write(
    topic: str,
    data: tuple[str, ...],
    url: str,
    kafka: str | None,
    write: Callable[..., None],
    expiration: float | None,
) -> None:
    with Client(url, kafka=kafka) as client:
        for number, line in enumerate(data or _input(), 1):
            try:
                write(client, topic, line, expiration=expiration)
            except SowlineError as error:
                raise SowlineError(error.reason, f"record {number}: {error.message}") from error


def _input() -> Iterator[str]:
    return (line.strip() for line in sys.stdin if line.strip())


@contextmanager
def _connected(url: str) -> Iterator[Client]:
    """Lend a client for reading; Ctrl-C ends the command without a word, connected or not."""
    try:
        with Client(url) as client:
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
        "records",
        "hash",
    )
    fields = {name: value for name in names if (value := getattr(message, name)) not in (None, "")}
    flags = {name: True for name in ("reset", "more", "delta") if getattr(message, name)}
    if message.removed:
        fields["removed"] = message.removed
    return fields | flags | ({"data": orjson.Fragment(message.body)} if message.body else {})


def _print(messages: Iterable[Message], full: bool, commands: set[str], count: int | None = None) -> None:
    """Print the messages of these commands, each as soon as it is there; records of a group wait for each other."""
    output, left = Output(sys.stdout.fileno()), count
    try:
        for message in messages:
            if full or message.command in commands:
                output.put(orjson.dumps(_fields(message)) if full else message.body)
                left = None if left is None else left - 1
            if message.command != "sow" or left == 0:
                output.write()
            if left == 0:
                return
    except SowlineError:
        output.write()
        raise


def _print_all(answers: Iterable[Any]) -> None:
    output = Output(sys.stdout.fileno())
    for answer in answers:
        output.put(orjson.dumps(answer))
    output.write()
