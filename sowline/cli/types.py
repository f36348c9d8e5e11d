"""`sowline types`: the TypeScript interface of a topic's records, from their schema, or from a sample of them."""

import re
from typing import Any

import click

from sowline.cli.completion import topic_argument
from sowline.cli.connection import through_connection
from sowline.cli.help import cli_command
from sowline.cli.reading import connected
from sowline.cli.schema_typescript import typescript_of_schema
from sowline.cli.typescript import typescript_of
from sowline.client.client import Client
from sowline.codecs.codec import codec_of
from sowline.codecs.schema import Schema
from sowline.errors import SowlineError

_NAME = re.compile(r"[A-Z][A-Za-z0-9_]*")
"""No keyword and no type of TypeScript begins with a capital letter."""


@cli_command(examples=("sowline types orders --name Order",))
@topic_argument
@click.option("--name", help="The interface's name. Without it, the topic's: SalesEu for sales.eu.")
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="Read at most this many records, if there is no schema.",
)
@through_connection
def types(topic: str, name: str | None, limit: int, connection: dict[str, Any]) -> None:
    """Print a TypeScript interface for the records of TOPIC: from their schema, or else from the first by SOW key.

    With a schema, every record has the interface. A sample has only fields that you may see, and other records may
    differ from it.
    """
    if topic.startswith("^"):
        raise SowlineError(
            "regex topic not supported", f"expected the name of one topic: types cover one topic, got {topic}"
        )
    name = _checked_name(topic, name)
    with connected(connection) as client:
        schema = _reader_schema(client, topic)
        text = (
            _from_sample(client, topic, name, limit) if schema is None else _from_schema(topic, name, schema)
        )
    click.echo(text.encode(), nl=False)


def _reader_schema(client: Client, topic: str) -> Schema | None:
    """Return the schema of a topic's records; None if there is none, or none that the user may see."""
    for one in client.topics()["topics"]:
        if one["name"] == topic and (found := one.get("reader_schema")):
            return Schema(
                one["message_type"], found["text"], tuple(found["references"].items()), found["message"]
            )
    return None


def _from_schema(topic: str, name: str, schema: Schema) -> str:
    return typescript_of_schema(topic, name, codec_of(schema).described())


def _from_sample(client: Client, topic: str, name: str, records_max: int) -> str:
    messages = client.sow(topic, top_n=records_max, batch_size=100)
    bodies = [message.body for message in messages if message.command == "sow"]
    if not bodies:
        raise SowlineError(
            "not supported", f"expected records in {topic} to infer types from, got none: publish some first"
        )
    return typescript_of(topic, name, bodies)


def _checked_name(topic: str, name: str | None) -> str:
    """Return the given name, or one made of the topic's; raise `bad request` if it can't name an interface."""
    words = re.findall(r"[A-Za-z0-9]+", topic)
    made = "".join(word[0].upper() + word[1:] for word in words) if name is None else name
    if not _NAME.fullmatch(made):
        raise SowlineError(
            "bad request",
            f"expected a --name such as Order: a capital letter, then letters, digits and _, got {made!r}",
        )
    return made
