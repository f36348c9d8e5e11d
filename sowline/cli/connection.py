"""The connection options of a command: a query service's URL, a token, and the TLS files."""

import ssl
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import Any

import click

from sowline.cli.help import ConnectionOption
from sowline.config.credentials import Credentials, Token, checked_token
from sowline.errors import SowlineError
from sowline.runtime.running_stack import OWN_TOPICS, RunningStack, chosen_stack, running_stacks

STACK_SETTINGS = {"SOWLINE_CONFIG", "SOWLINE_KAFKA", "SOWLINE_DATA_DIR"}
"""The variables that name a system: with one of them, a command does not look for a running `sowline up`."""

USUAL_URL = "http://127.0.0.1:8080"
_REPORTED = f"{__name__}.reported"

Command = Callable[..., None]

_FILE = click.Path(path_type=Path)


@dataclass(frozen=True)
class ConnectionOptions:
    """The credentials and TLS files of a command. The token is not shown when this is printed."""

    _token: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    def __repr__(self) -> str:
        return "Connection(…)"

    @property
    def token(self) -> Token | None:
        """The token, or a function that reads it from its file each time it is needed."""
        return self._token if self.token_file is None else self.read_token

    def read_token(self) -> str:
        """Return the current token, empty if there is none; raise `bad request` if it can't be a token."""
        if self.token_file is None:
            return checked_token(self._token) if self._token else ""
        try:
            return checked_token(self.token_file.read_text(encoding="ascii"))
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "no ASCII"
            raise SowlineError("bad request", f"expected a token in {self.token_file}: {why}") from None

    def for_client(self, url: str) -> dict[str, Any]:
        """Return the arguments of a client."""
        files = {"ca_file": self.ca_file, "cert_file": self.cert_file, "key_file": self.key_file}
        return {"url": url, "token": self.token, **files}

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """The TLS files: those that verify services, and those that identify this command."""
        return Credentials(None, self.ca_file, self.cert_file, self.key_file).tls()


_option = partial(click.option, cls=ConnectionOption, show_envvar=True)

_OPTIONS = (
    _option(
        "--token",
        "_token",
        envvar="SOWLINE_TOKEN",
        help="A token to log on with. Prefer the environment variable.",
    ),
    _option("--token-file", envvar="SOWLINE_TOKEN_FILE", type=_FILE, help="A file that holds the token."),
    _option("--ca-file", envvar="SOWLINE_CA_FILE", type=_FILE, help="CA certificates to trust, as PEM."),
    _option("--cert-file", envvar="SOWLINE_CERT_FILE", type=_FILE, help="A client certificate, as PEM."),
    _option(
        "--key-file",
        envvar="SOWLINE_KEY_FILE",
        type=_FILE,
        help="The certificate's key, if in a separate file.",
    ),
)


def used_stack() -> RunningStack | None:
    """Return the running `sowline up` that commands use if no URL is given; None if there is none.

    Raise `not connected` if only those of other directories run, and this one has topics of its own: a command that
    was meant for one system must not write to another.
    """
    # None of several is chosen, but one of them may be at the usual URL.
    chosen = chosen_stack(USUAL_URL)
    if chosen is not None or not Path(OWN_TOPICS).exists():
        return chosen
    running = running_stacks()
    if running and running[0].is_elsewhere:
        raise SowlineError(
            "not connected",
            f"expected a running `sowline up` of this directory, which has a {OWN_TOPICS}, found one of"
            f" {running[0].directory}: start `sowline up` here, or name a system, for example with --url"
            f" {running[0].url}",
        )
    return None


def report(stack: RunningStack) -> None:
    """Report on standard error which `sowline up` a command uses.

    An option and the command itself may both find it: in one run of a command it is reported once.
    """
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.setdefault(_REPORTED, stack) is not stack:
        return
    click.echo(f"sowline: {stack.sentence}", err=True)


def found_url() -> str:
    """Return the URL of the running `sowline up`, if there is one, or else the usual URL.

    Report which one it is: in a pipe too, if it runs in another directory. The user may not mean that one.
    """
    context = click.get_current_context(silent=True)
    # While a shell completes a word, a line would stand in the middle of what is typed.
    is_completing = context is not None and context.resilient_parsing
    try:
        stack = used_stack()
    except SowlineError:
        if is_completing:
            return USUAL_URL
        raise
    if stack is None:
        return USUAL_URL
    is_reported = stack.is_elsewhere or (stack.url != USUAL_URL and sys.stderr.isatty())
    if is_reported and not is_completing:
        report(stack)
    return stack.url


url_option = _option(
    "--url",
    "-u",
    envvar="SOWLINE_URL",
    default=found_url,
    show_default=f"that of the running `sowline up`, or {USUAL_URL}",
    help="The query service.",
)


def connection_of(given: Mapping[str, Any]) -> ConnectionOptions:
    """Return the connection that a command's options describe."""
    if given.get("_token") and given.get("token_file"):
        raise click.UsageError("expected a token, or a file that holds it, got both")
    return ConnectionOptions(**{name: given.get(name) for name in ConnectionOptions.__dataclass_fields__})


def with_connection(command: Command) -> Command:
    """Add the options of a command that sends requests to services, and pass them on as `connection`."""

    @wraps(command)
    def run(**given: Any) -> None:
        mine = {name: given.pop(name) for name in ConnectionOptions.__dataclass_fields__}
        command(connection=connection_of(mine), **given)

    wrapped: Command = run
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def through_connection(command: Command) -> Command:
    """Add the options of a command that asks one query service; it gets them as `connection`."""

    def run(url: str, connection: ConnectionOptions, **given: Any) -> None:
        command(connection=connection.for_client(url), **given)

    return url_option(with_connection(wraps(command)(run)))


def _any_command(**_: Any) -> None:
    """Do nothing, with the options of every command that asks a query service."""


CONNECTION_OPTIONS = click.command()(through_connection(_any_command)).params
"""These options, for the help of `sowline`."""
