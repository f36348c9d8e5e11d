"""`sowline kafka`: a local broker."""

import json
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from sowline.cli.help import cli_command


@cli_command(examples=("sowline kafka", "sowline kafka --data-dir /tmp/kafka --port 9092"))
@click.option(
    "--data-dir",
    default="var/kafka",
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where topics and offsets are kept.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="The port for clients. Without it, the first start chooses a free one and later starts use it again.",
)
def kafka(data_dir: Path, port: int | None) -> None:
    """Run one Kafka broker on this machine, until SIGINT or SIGTERM.

    Once it answers, it prints its address and process id as a line of JSON. It listens on loopback only, and needs
    Java.
    """
    from sowline.runtime.local_kafka import LocalKafka

    # Before the broker starts: a signal that ends this process in between would leave the broker running.
    signal.signal(signal.SIGINT, _leave)
    signal.signal(signal.SIGTERM, _leave)
    broker = LocalKafka(data_dir, port)
    try:
        broker.start()
        click.echo(json.dumps({"kafka": broker.bootstrap, "pid": broker.pid}))
        code = broker.wait()
    finally:
        broker.stop()
    sys.exit(f"the broker ended by itself with code {code}; see {broker.log_path}")


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)
