"""Commands that run services: one service each, for production, or all of them on one machine."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import click

from sowline.cli.help import cli_command
from sowline.errors import SowlineError
from sowline.runtime.programs import Program, end_without_server
from sowline.runtime.running_stack import OWN_TOPICS

Command = Callable[..., None]


class Port(click.ParamType[int | None]):
    """The type of the option for a port: a number, or `auto`, which becomes None."""

    name = "port"

    def convert(
        self, value: str | int | None, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | None:
        """Return the port; None for `auto`."""
        if value == "auto" or value is None:
            return None
        try:
            port = int(value)
        except ValueError:
            port = -1
        if not 0 <= port <= 65535:
            self.fail(f"expected a port from 0 to 65535, or auto, got {value!r}", param, ctx)
        return port


def _service(name: str, program: Program, what: str) -> click.Command:
    @cli_command(name, help=what, examples=(f"sowline {name} --config topics.yaml --kafka kafka-1:9092",))
    @click.option("--config", type=click.Path(path_type=Path), help="The file of topics (SOWLINE_CONFIG).")
    @click.option("--kafka", help="Kafka's bootstrap servers (SOWLINE_KAFKA).")
    @click.option(
        "--data-dir", type=click.Path(path_type=Path), help="Where state is kept (SOWLINE_DATA_DIR)."
    )
    @click.option("--host", help="The address to listen on (SOWLINE_HOST).")
    @click.option("--port", type=int, help="The HTTP port (SOWLINE_PORT).")
    @click.option(
        "--accept-loss",
        is_flag=True,
        # Not False, which would be given to the service in place of its own SOWLINE_ACCEPT_LOSS.
        default=None,
        help="Continue although log records are permanently gone.",
    )
    def command(**options: object) -> None:
        end_without_server()
        given = {
            f"SOWLINE_{name.upper()}": str(value) for name, value in options.items() if value is not None
        }
        # In place of this process: the signals that a supervisor sends to its id reach the service.
        os.execve(sys.executable, program.command(), os.environ | given)

    return command


materializer = _service(
    "materializer", Program.MATERIALIZER, "Run a materializer: apply the logs, emit the changes."
)
query_service = _service(
    "query-service", Program.QUERY_SERVICE, "Run a query service: answer queries and subscriptions."
)
gateway = _service(
    "gateway",
    Program.GATEWAY,
    "Run a gateway: answer queries from query services that hold parts of the topics.",
)
views = _service("views", Program.VIEWS, "Run the views: compute them from the changes of other topics.")
fanout = _service("fanout", Program.FANOUT, "Run the fanouts: write configured subscriptions to Kafka.")


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def pipeline(arguments: tuple[str, ...]) -> None:
    """Run a pipeline that a file declares, or inspect the file; `sowline pipeline --help` lists the commands."""
    os.execve(sys.executable, Program.PIPELINE.command(*arguments), os.environ)


@cli_command(examples=("sowline up", "sowline up --port auto --data-dir /tmp/sowline"))
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    default=OWN_TOPICS,
    show_default=True,
    help="The file of topics.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    default="var",
    show_default=True,
    help="Where Kafka's log and the state are kept.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The query service's address.")
@click.option(
    "--port",
    type=Port(),
    default="8080",
    show_default=True,
    help="The query service's port; 0 = any free one, auto = 8080 or the next free one.",
)
@click.option(
    "--origin",
    "origins",
    multiple=True,
    help="The origin of a page that may connect, e.g. http://localhost:5173; repeatable.",
)
@click.option(
    "--shards",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="How many query services share the topics, with a gateway for clients.",
)
@click.option("--kafka", envvar="SOWLINE_KAFKA", help="A running cluster, in place of a local broker.")
@click.option("--accept-loss", is_flag=True, help="Continue although log records are permanently gone.")
@click.option(
    "--access",
    envvar="SOWLINE_ACCESS",
    type=click.Path(path_type=Path, exists=True),
    help="The access file: who may connect, and with which rights. Without it, access is open.",
)
def up(  # noqa: PLR0913, PLR0917 - one for each option
    config: Path,
    data_dir: Path,
    host: str,
    port: int | None,
    origins: tuple[str, ...],
    shards: int,
    kafka: str | None,
    accept_loss: bool,
    access: Path | None,
) -> None:
    """Run everything on this machine: Kafka (unless one is given), materializer, query service, views, fanouts.

    Once the query service is ready, it prints all addresses: a panel on a terminal, one line of JSON in a pipe. Other
    commands find it by themselves.
    """
    end_without_server()
    if not config.exists():
        raise SowlineError(
            "bad configuration",
            f"expected a file of topics at {config}, found none: write one that names a topic and its key, such as"
            " `topics: [{name: orders, key: /id}]`",
        )
    from sowline.runtime.local_stack import LocalStack

    sys.exit(LocalStack(config, data_dir, host, port, kafka, accept_loss, access, origins, shards).run())
