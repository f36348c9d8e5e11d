"""The help of the commands: their groups, their examples, and the connection options."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from sowline.cli import main
from sowline.cli.help import HelpCommand
from sowline_ingest.__main__ import main as pipeline
from sowline_materializer.admin.commands import operate

PASSED_ON = {"pipeline", "dump", "verify", "backup", "restore", "rebuild"}
"""Commands of `sowline` that another program carries out, which also prints their help."""


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command that prints help, with its name."""
    for group, path in ((main, ""), (operate, ""), (pipeline, "pipeline ")):
        for name, command in group.commands.items():
            if isinstance(command, click.Group):
                yield from ((f"{path}{name} {sub}", one) for sub, one in command.commands.items())
            elif group is not main or name not in PASSED_ON:
                yield f"{path}{name}", command


@pytest.mark.parametrize(("name", "command"), [pytest.param(*one, id=one[0]) for one in commands()])
def test_every_command_has_an_example(
    name: str, command: click.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is that command, with options that the command has."""
    for name_of_file in ("topics.yaml", "run.jsonl"):  # files that commands want to exist
        (tmp_path / name_of_file).touch()
    monkeypatch.chdir(tmp_path)
    assert isinstance(command, HelpCommand)
    assert command.examples
    for example in command.examples:
        parts = shlex.split(example.split(" | ")[0].split(" < ")[0])
        assert parts[: 1 + len(name.split())] == ["sowline", *name.split()]
        given = parts[1 + len(name.split()) :]
        command.make_context(name, given).close()  # raises a usage error for an unknown option
    shown = command.get_help(click.Context(command, info_name=f"sowline {name}")).splitlines()
    assert {f"  {example}" for example in command.examples} <= set(shown)


def test_every_command_has_a_heading() -> None:
    """The help of `sowline` lists each command once, with its whole first sentence."""
    shown = CliRunner().invoke(main, ["--help"], terminal_width=200).output
    headings = [line for line in shown.splitlines() if line in ("Run:", "Read:", "Write:", "Operate:")]
    assert headings == ["Run:", "Read:", "Write:", "Operate:"]
    listed = [line.split()[0] for line in shown.splitlines() if line[:2] == "  " and line[2:3].isalpha()]
    assert [name for name in listed if name in main.commands] == list(main.commands)
    assert "..." not in shown.partition("Options:")[2]


def test_connection_options_are_described_once() -> None:
    """The help of `sowline` describes them; that of a command names them."""
    described = "A file that holds the token."
    assert described in " ".join(CliRunner().invoke(main, ["--help"]).output.split())
    shown = CliRunner().invoke(main, ["sow", "--help"]).output
    assert described not in " ".join(shown.split())
    assert "--url, --token, --token-file, --ca-file, --cert-file, --key-file" in shown
