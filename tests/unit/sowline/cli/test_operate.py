"""The commands on a topic's state: how they find the running `sowline up`."""

import os
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from sowline.cli import main
from sowline.cli.operate import VALUED_OPTIONS
from sowline.runtime.running_stack import RunningStack, announced, start_of
from sowline_materializer.admin.commands import operate

STACK = RunningStack(
    pid=os.getpid(),
    started=start_of(os.getpid()) or "",
    directory="/elsewhere",
    kafka="kafka:9092",
    url="http://127.0.0.1:8080",
    services={},
    config="topics.yaml",
    data_dir="state",
)


@pytest.mark.parametrize(
    ("arguments", "is_reported"),
    [
        (["verify", "orders"], True),
        (["verify", "--partition", "0", "orders", "--json"], True),
        (["backup", "orders", "directory"], True),
        (["verify"], False),
        (["verify", "--partition", "0"], False),
        (["dump", "--from", "log"], False),
        (["backup", "orders"], False),
        (["verify", "orders", "--help"], False),
        (["verify", "orders", "--kafka", "other:9092"], False),
    ],
)
def test_the_found_system_is_reported_by_a_command_that_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], is_reported: bool
) -> None:
    """Not before a usage error, nor before a help text."""
    started: list[dict[str, str]] = []

    def execute(program: str, command: list[str], environment: dict[str, Any]) -> None:
        started.append(environment)

    monkeypatch.setattr("os.execve", execute)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name in ("SOWLINE_CONFIG", "SOWLINE_KAFKA", "SOWLINE_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    with announced(STACK):
        done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, "sowline: using " in done.stderr) == (0, is_reported)
    [environment] = started
    assert environment.get("SOWLINE_KAFKA") == ("kafka:9092" if is_reported else None)


def test_all_options_with_a_value_are_known() -> None:
    """Otherwise a value would be taken for the topic."""
    options = [
        option
        for command in operate.commands.values()
        for option in command.params
        if isinstance(option, click.Option) and not option.is_flag
    ]
    theirs = {name for option in options for name in option.opts if option.name in ("partition", "source")}
    assert theirs == set(VALUED_OPTIONS)
    assert {option.name for option in options} == {"partition", "source", "kafka", "config", "data_dir"}
