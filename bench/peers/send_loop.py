"""The cost of sending each message alone: `send_loop.rs`, compiled for the run. It reads no Kafka."""

import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.rates import CLIENTS, Server
from bench.usage import usage
from sowline.runtime.ports import HOST

NAME = "bare send loop in Rust, without Kafka"
SOURCE = Path(__file__).parent / "send_loop.rs"


@contextmanager
def send_loop(keys: int) -> Iterator[Server]:
    """Run it; the publisher sends it the records over a socket."""
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "send_loop"
        subprocess.run(["rustc", "--edition", "2024", "-O", "-o", program, SOURCE], check=True)
        with subprocess.Popen(
            [program, str(CLIENTS), str(keys)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            try:
                port = int(process.stdout.readline())
                yield Server(
                    port,
                    lambda key: b"",
                    (),
                    partial(Lines, port),
                    lambda: usage([process.pid]).cpu_seconds,
                )
            finally:
                process.terminate()


class Lines:
    """A connection of the publisher: a line for each record."""

    def __init__(self, port: int) -> None:
        self._lines = socket.create_connection((HOST, port)).makefile("w")

    def publish(self, key: str, body: str) -> None:
        """Take a record."""
        self._lines.write(f"{key} {body}\n")

    def poll(self, seconds: float) -> None:
        """Send what was taken."""
        self._lines.flush()

    def flush(self) -> None:
        """Send what was taken; the other end takes it at once."""
        self._lines.flush()
