"""`sowline token`: creates a token for a user, and the line of the access file with its hash."""

import json
import secrets
from hashlib import sha256

import click

from sowline.cli.help import cli_command

BYTES = 32


@cli_command(examples=("sowline token maria --role trader",))
@click.argument("user")
@click.option("--role", "roles", multiple=True, help="A role that the token grants; repeatable.")
def token(user: str, roles: tuple[str, ...]) -> None:
    """Create a token for USER: print it, and then the line for `tokens` of the access file, with its hash.

    The token is stored nowhere else: give it only to its user.
    """
    made = f"sow_{secrets.token_urlsafe(BYTES)}"
    # One fast hash is enough: unlike a password, 32 random bytes can't be guessed, so there is nothing to slow down.
    line = {"user": user, "sha256": sha256(made.encode()).hexdigest(), "roles": list(roles)}
    click.echo(made)
    click.echo(f"- {json.dumps(line, ensure_ascii=False)}")
