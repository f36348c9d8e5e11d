"""The option `--options` of the reading commands: what they refuse before they connect."""

import pytest
from click.testing import CliRunner

from sowline.cli import main

NOWHERE = ("--url", "http://127.0.0.1:1")


@pytest.mark.parametrize("command", ["sow", "subscribe", "sow-and-subscribe", "explain"])
def test_native_records_are_refused(command: str) -> None:
    """Commands print JSON: bytes of a message type have no lines, so a pipe could not tell records apart."""
    result = CliRunner().invoke(main, [command, "orders", *NOWHERE, "--options", "oof,format=native"])
    assert result.exit_code == 1
    assert result.stderr.startswith("invalid options: expected options without format=native")


def test_json_is_accepted() -> None:
    """The format that commands print."""
    result = CliRunner().invoke(main, ["sow", "orders", *NOWHERE, "--options", "format=json"])
    assert result.stderr.startswith("not connected: ")
