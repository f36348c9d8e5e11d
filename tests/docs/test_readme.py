"""The README's example does what it says, on a real Kafka and with real services."""

import json
import shlex
import subprocess
import sys

from sowline import Client
from tests.docs.pages import page, sections_of

CONSOLE = [example for examples in sections_of(page("README.md")).values() for example in examples]


def test_the_commands_print_what_the_readme_shows(url: str) -> None:
    """Publishing, merging a delta and querying by content work as written."""
    up, *steps = CONSOLE
    assert up.text.startswith("sowline up")
    assert steps
    for step in steps:
        _, *arguments = shlex.split(step.text)
        ask = [sys.executable, "-m", "sowline", *arguments, "--url", url]
        if step.output:
            with Client(url) as client:
                wait_for_quantity(client, json.loads(step.output)["qty"])
        done = subprocess.run(ask, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == step.output


def wait_for_quantity(client: Client, quantity: int) -> None:
    """Wait until the subscription shows the record with this quantity."""
    for message in client.sow_and_subscribe("orders"):
        if message.command in ("sow", "publish") and message.data.get("qty") == quantity:
            return
