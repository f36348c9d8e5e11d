"""`sowline token`: a new token for somebody, and the line of the access file that knows it."""

import json
import secrets
from hashlib import sha256

import click

BYTES = 32


@click.command()
@click.argument("user")
@click.option("--role", "roles", multiple=True, help="A role that comes with the token; repeatable.")
def token(user: str, roles: tuple[str, ...]) -> None:
    """Make a token for USER: prints it, and then the line for `tokens` of the access file, which holds its hash.

    The token is stored nowhere else: give it to its user only.
    """
    made = f"sow_{secrets.token_urlsafe(BYTES)}"
    line = {"user": user, "sha256": sha256(made.encode()).hexdigest(), "roles": list(roles)}
    click.echo(made)
    click.echo(f"- {json.dumps(line, ensure_ascii=False)}")
