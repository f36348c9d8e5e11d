"""`sowline dead`: lists the dead letters of a topic, shows one, and publishes them again."""

import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import click
import orjson

from sowline.cli.columns import columns, number
from sowline.cli.completion import topic_argument
from sowline.cli.connection import ConnectionOptions, url_option, with_connection
from sowline.cli.help import HelpGroup
from sowline.cli.http import get_json
from sowline.client.client import Client
from sowline.commands.command import DELTA, DELTA_PUBLISH, PUBLISH
from sowline.errors import SowlineError

PAGE = 1000
LETTERS_MAX = 50
RETRIED = (PUBLISH, DELTA_PUBLISH, DELTA)
"""The commands that can be published again. A deletion that was refused has a selector to correct first."""

Letter = dict[str, Any]

_reason = click.option("--reason", "-r", default="", help='Only those with this reason, e.g. "key missing".')


@click.group(cls=HelpGroup)
def dead() -> None:
    """Dead letters: list them, show one, publish them again."""


@dead.command("list", examples=('sowline dead list orders --reason "key missing"',))
@topic_argument
@_reason
@click.option(
    "--limit",
    "-n",
    default=LETTERS_MAX,
    show_default=True,
    type=click.IntRange(1),
    help="List at most this many.",
)
@url_option
@with_connection
def list_(topic: str, reason: str, limit: int, url: str, connection: ConnectionOptions) -> None:
    """List the newest dead letters of TOPIC: a table on a terminal, else a line of JSON each."""
    letters = [
        letter for letter, _ in zip(_newest(url, connection, topic, reason), range(limit), strict=False)
    ]
    if sys.stdout.isatty():
        click.echo("\n".join(_table(letters)))
        return
    for letter in letters:
        click.echo(orjson.dumps(letter))


@dead.command(examples=("sowline dead show orders 6 --body | sed s/1.5/1/ | sowline publish orders",))
@topic_argument
@click.argument("offset", type=click.IntRange(0))
@click.option("--body", is_flag=True, help="Only the bytes that were refused, e.g. to edit them.")
@url_option
@with_connection
def show(topic: str, offset: int, body: bool, url: str, connection: ConnectionOptions) -> None:
    """Show the dead letter of TOPIC at an OFFSET of the dead letters."""
    letter = _at(url, connection, topic, offset)
    click.echo(letter["value"] if body else orjson.dumps(letter, option=orjson.OPT_INDENT_2))


@dead.command(examples=('sowline dead retry orders --reason "unknown topic"',))
@topic_argument
@click.argument("offsets", type=click.IntRange(0), nargs=-1)
@_reason
@url_option
@with_connection
def retry(topic: str, offsets: tuple[int, ...], reason: str, url: str, connection: ConnectionOptions) -> None:
    """Publish dead letters of TOPIC again as they are: those at OFFSETS, or all with a --reason, oldest first.

    Prints a line for each with its outcome, and exits with 1 if one was refused again. A dead letter stays after it
    was published again; a second run publishes it once more.
    """
    if bool(offsets) == bool(reason):
        raise click.UsageError(
            f"expected either offsets or a --reason, got {'both' if reason else 'neither'}"
        )
    # The oldest first: of two commands for one record, the later one must count in the end.
    letters = (
        [_at(url, connection, topic, offset) for offset in sorted(offsets)]
        if offsets
        else list(_newest(url, connection, topic, reason))[::-1]
    )
    refused = 0
    with Client(**connection.for_client(url)) as client:
        for letter in letters:
            outcome = _publish_again(client, topic, letter)
            refused += "reason" in outcome
            click.echo(orjson.dumps({"offset": letter["offset"], **outcome}))
    if refused:
        sys.exit(1)


def _publish_again(client: Client, topic: str, letter: Letter) -> dict[str, Any]:
    """Publish a dead letter; return its outcome, or the reason and message of a refusal."""
    headers, value = letter["headers"], letter["value"]
    command = headers.get("sow.command", PUBLISH)
    try:
        _check(letter, command)
        writing: dict[str, Any] = {"correlation": headers.get("sow.correlation")}
        if "sow.expiration" in headers:
            writing["expiration"] = float(headers["sow.expiration"])
        for name in ("tags", "change_id"):
            if f"sow.{name}" in headers:
                writing[name] = headers[f"sow.{name}"]
        key = headers.get("sow.key") or headers.get("sow.original_key")
        if command == DELTA:
            return {"outcome": client.delta(topic, key or "", value, wait=True, **writing)}
        if "sow.key" in headers or _keys_come_from_kafka(client, topic):
            writing["key"] = key
        write = client.publish if command == PUBLISH else client.delta_publish
        return {"outcome": "applied", "effect": write(topic, value, wait=True, **writing)}
    except SowlineError as error:
        return {"reason": error.reason, "message": error.message}


def _check(letter: Letter, command: str) -> None:
    if command not in RETRIED or letter["value"] is None:
        raise SowlineError(
            "bad request",
            f"expected a {', '.join(RETRIED)} with a body, got a {command}; send a corrected command instead",
        )
    if letter.get("cut") or letter["value"].startswith("base64:"):
        raise SowlineError(
            "bad request",
            "expected a body of at most 64 KiB in UTF-8; read the dead letter with a Kafka client instead",
        )


def _keys_come_from_kafka(client: Client, topic: str) -> bool:
    """Whether publishers supply the keys of the topic's records."""
    keys = {one["name"]: one["key"] for one in client.topics()["topics"]}
    return isinstance(keys.get(topic), dict) and "from" in keys[topic]


def _newest(url: str, connection: ConnectionOptions, topic: str, reason: str) -> Iterator[Letter]:
    """Yield the dead letters, the newest first, page by page."""
    before: int | None = None
    while True:
        given = {"limit": PAGE, **({"reason": reason} if reason else {})}
        answer = _ask(url, connection, topic, given | ({} if before is None else {"before": before}))
        yield from answer["messages"]
        (searched,) = answer["searched"]
        # A request searches only a part of the dead letters: stop when one makes no progress.
        if searched["complete"] or searched["begin"] == before:
            return
        before = searched["begin"]


def _at(url: str, connection: ConnectionOptions, topic: str, offset: int) -> Letter:
    messages: list[Letter] = _ask(url, connection, topic, {"limit": 1, "before": offset + 1})["messages"]
    if not messages or messages[0]["offset"] != offset:
        raise SowlineError("bad request", f"expected the offset of a dead letter of {topic}, got {offset}")
    return messages[0]


def _ask(url: str, connection: ConnectionOptions, topic: str, given: dict[str, Any]) -> dict[str, Any]:
    asked = f"{url.rstrip('/')}/v1/topics/{quote(topic)}/dead?{urlencode(given)}"
    answer: dict[str, Any] = get_json(asked, connection)
    return answer


def _table(letters: list[Letter]) -> list[str]:
    heads = ("OFFSET", "TIME", "REASON", "COMMAND", "BYTES", "MESSAGE")
    rows = [
        (
            str(letter["offset"]),
            letter["timestamp"][:19].replace("T", " "),
            letter["headers"].get("sow.reason", "-"),
            letter["headers"].get("sow.command", PUBLISH),
            number(letter["bytes"]),
            letter["headers"].get("sow.message", "-"),
        )
        for letter in letters
    ]
    return columns(heads, rows, "<<<<><")
