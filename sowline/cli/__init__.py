"""The `sowline` command."""

import sys

import click

from sowline import __version__
from sowline.cli.data import (
    delete,
    delta_publish,
    explain,
    publish,
    sow,
    sow_and_subscribe,
    subscribe,
    topics,
)
from sowline.cli.services import fanout, materializer, query_service, up
from sowline.errors import SowlineError


class _Group(click.Group):
    """Says in one sentence what went wrong, and exits with 1."""

    def invoke(self, context: click.Context) -> object:
        try:
            return super().invoke(context)
        except SowlineError as error:
            click.echo(f"{error.reason}: {error.message}", err=True)
            sys.exit(1)
        except BrokenPipeError:
            sys.stderr.close()
            sys.exit(0)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sowline")
def main() -> None:
    """Keep and query the State of the World of Kafka topics."""


for command in (
    up,
    materializer,
    query_service,
    fanout,
    topics,
    publish,
    delta_publish,
    delete,
    sow,
    subscribe,
    sow_and_subscribe,
    explain,
):
    main.add_command(command)
