"""Commands are imported at first use."""

import subprocess
import sys

import click
import pytest

from sowline.cli import main
from sowline.cli.lazy_commands import LazyCommands


@pytest.fixture
def commands() -> LazyCommands:
    """One of another module, whose name there has an underscore."""
    return LazyCommands({"sow-and-subscribe": "sowline.cli.reading"})


def test_a_command_is_what_its_module_has(commands: LazyCommands) -> None:
    """And the same one each time."""
    command = commands["sow-and-subscribe"]
    assert command.name == "sow-and-subscribe"
    assert commands["sow-and-subscribe"] is command


def test_every_command_of_sowline_is_there() -> None:
    """Under the name by which the help lists it."""
    assert [command.name for command in main.commands.values()] == list(main.commands)


def test_commands_come_and_go(commands: LazyCommands) -> None:
    """As in any mapping."""
    command = click.Command("own")
    commands["own"] = command
    assert (list(commands), len(commands), commands["own"]) == (["sow-and-subscribe", "own"], 2, command)
    del commands["own"], commands["sow-and-subscribe"]
    assert list(commands) == []
    with pytest.raises(KeyError):
        commands["own"]


@pytest.mark.parametrize("words", [["--version"], ["up", "--help"]], ids=" ".join)
def test_a_command_imports_nothing_of_others(words: list[str]) -> None:
    """Those that send requests need a client, whose import takes most of a second on a slow machine."""
    program = (
        "import sys\nfrom sowline.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print(*sys.modules.keys() & {'sowline.client.client', 'sowline.language', 'lark'})"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr, done.stdout.splitlines()[-1]) == (0, "", "")
