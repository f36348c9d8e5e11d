"""The command `sowline`: its subcommands, and how each reports errors and ends."""

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import click

from sowline.cli.connection import CONNECTION_OPTIONS
from sowline.cli.help import CONTEXT, HelpGroup, not_utf8
from sowline.cli.lazy_commands import LazyCommands
from sowline.config.yaml_file import YamlFileError
from sowline.errors import SowlineError
from sowline.model.printable import printable
from sowline.runtime.interrupt import end_on_interrupt, ended_by_interrupt
from sowline.version import __version__

_COMMANDS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "Run": {
        "services": ("up", "materializer", "query-service", "gateway", "views", "fanout", "pipeline"),
        "kafka": ("kafka",),
        "mcp": ("mcp",),
    },
    "Read": {
        "reading": ("topics", "sow", "subscribe", "sow-and-subscribe", "timeline", "explain"),
        "types": ("types",),
    },
    "Write": {"writing": ("publish", "delta-publish", "delta", "delete")},
    "Define": {"definitions": ("plan", "apply", "status"), "drop": ("drop",)},
    "Operate": {
        "top.command": ("top",),
        "doctor.command": ("doctor",),
        "check": ("check",),
        "bench": ("bench",),
        "dead": ("dead",),
        "schema_commands": ("schemas",),
        "operate": ("dump", "verify", "backup", "restore", "rebuild"),
        "token": ("token",),
    },
}
"""The commands by heading, and by the module below `sowline.cli` that has them."""

_MODULES = {
    name: f"sowline.cli.{module}"
    for modules in _COMMANDS.values()
    for module, names in modules.items()
    for name in names
}
_HEADINGS = {heading: tuple(chain(*modules.values())) for heading, modules in _COMMANDS.items()}

_HINTS = {
    "logon required": "; give the command a token with --token-file or --token, or in SOWLINE_TOKEN",
}
"""Advice for the user of a command, by the reason of an error whose message is written for programs."""


class CliGroup(HelpGroup):
    """Prints errors and exits with 1: one sentence, or one for each problem of a file."""

    def main(self, *given: Any, **named: Any) -> Any:
        """Run the command of the arguments, and end the process with its exit code."""
        try:
            try:
                return super().main(*given, **named)
            finally:
                # An error of the flush at the interpreter's end would not change the exit code
                # (test_an_output_that_is_full).
                sys.stdout.flush()
        except OSError as error:
            _give_up_output()
            file = f": {error.filename}" if error.filename else ""
            click.echo(f"failed: {error.strerror or error}{file}", err=True)
            sys.exit(1)

    def invoke(self, context: click.Context) -> object:
        """Run the command of the context."""
        end_on_interrupt()
        try:
            with ended_by_interrupt():
                return super().invoke(context)
        except YamlFileError as error:
            click.echo("\n".join(map(str, error.problems)), err=True)
            sys.exit(1)
        except SowlineError as error:
            # The message may quote a text of another user, which must not steer this terminal.
            message = "\n".join(map(printable, error.message.split("\n")))
            click.echo(f"{error.reason}: {message}{_HINTS.get(error.reason, '')}", err=True)
            sys.exit(1)
        except UnicodeError as error:
            found = getattr(error, "object", "")[getattr(error, "start", 0) :]
            found = found if isinstance(found, bytes) else found.encode(errors="surrogateescape")
            click.echo(f"bad request: {not_utf8(found)}", err=True)
            sys.exit(1)
        except BrokenPipeError:
            # The reader has ended, as `head` does. The interpreter flushes the output once more at its end, and would
            # print that error.
            sys.stderr.close()
            sys.exit(0)


def _give_up_output() -> None:
    """Discard what could not be written: the interpreter tries again when it ends, and would print that error."""
    with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


@click.group(
    cls=CliGroup,
    commands=LazyCommands(_MODULES),
    headings=_HEADINGS,
    connection=CONNECTION_OPTIONS,
    context_settings=CONTEXT,
)
@click.version_option(__version__, prog_name="sowline")
def main() -> None:
    """Keep and query the State of the World of Kafka topics.

    `sowline COMMAND --help` describes a command, with an example.
    """
