"""`sowline types`: the TypeScript interface that a sample of a topic's records has."""

import re
from typing import Any

import click

from sowline.cli.completion import topic_argument
from sowline.cli.connection import through_connection
from sowline.cli.data import connected
from sowline.cli.help import cli_command
from sowline.cli.typescript import typescript_of
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
    help="Read at most this many records.",
)
@through_connection
def types(topic: str, name: str | None, limit: int, connection: dict[str, Any]) -> None:
    """Print a TypeScript interface for the records of TOPIC, inferred from a sample: the first by SOW key.

    Records that are not in the sample may differ. Fields that you may not see are left out.
    """
    if topic.startswith("^"):
        raise SowlineError(
            "regex topic not supported", f"expected the name of one topic: types cover one topic, got {topic}"
        )
    name = _checked_name(topic, name)
    with connected(connection) as client:
        messages = client.sow(topic, top_n=limit, batch_size=100)
        bodies = [message.body for message in messages if message.command == "sow"]
    if not bodies:
        raise SowlineError(
            "not supported", f"expected records in {topic} to infer types from, got none: publish some first"
        )
    click.echo(typescript_of(topic, name, bodies).encode(), nl=False)


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
