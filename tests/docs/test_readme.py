"""The README's example does what it says, on a real Kafka and with real services."""

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sowline import Client

README = (Path(__file__).parents[2] / "README.md").read_text()
TOPICS = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)[0]
CONSOLE = re.findall(r"```console\n(.*?)```", README, re.DOTALL)[0]


@pytest.fixture(scope="module")
def url(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Everything up, on the README's own topics.yaml."""
    directory = tmp_path_factory.mktemp("readme")
    (directory / "topics.yaml").write_text(TOPICS)
    command = [
        sys.executable,
        "-m",
        "sowline",
        "up",
        "--config",
        "topics.yaml",
        "--port",
        "0",
        "--kafka",
        kafka,
    ]
    process = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE)
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())["url"]
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    process.stdout.close()


def steps() -> Iterator[tuple[str, str]]:
    """Yield each command of the README with the output that it shows, but for the one that starts everything."""
    for part in CONSOLE.split("$ ")[1:]:
        command, _, output = part.partition("\n")
        if not command.startswith("sowline up"):
            yield command, output.strip()


def test_the_commands_print_what_the_readme_shows(url: str) -> None:
    """Publishing, merging a delta and querying by content work as written."""
    for command, expected in steps():
        _, *arguments = shlex.split(command)
        ask = [sys.executable, "-m", "sowline", *arguments, "--url", url]
        if expected:
            with Client(url) as client:
                wait_for_quantity(client, json.loads(expected)["qty"])
        done = subprocess.run(ask, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected


def wait_for_quantity(client: Client, quantity: int) -> None:
    """Wait until the subscription shows the record with this quantity."""
    for message in client.sow_and_subscribe("orders"):
        if message.command in ("sow", "publish") and message.data.get("qty") == quantity:
            return
