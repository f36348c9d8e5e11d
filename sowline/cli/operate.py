"""Commands that operate on a topic's state. They run the materializer's programs, each with its own arguments."""

import os
import sys
from itertools import pairwise

import click

from sowline.cli.connection import STACK_SETTINGS, report
from sowline.runtime.programs import Program, end_without_server
from sowline.runtime.running_stack import chosen_stack

_OPTIONS = ("--config", "--kafka", "-k", "--data-dir")
VALUED_OPTIONS = ("--partition", "--from")
"""Their other options with a value."""


def _operation(name: str, what: str, words: int = 1) -> click.Command:
    @click.command(
        name,
        help=f"{what} `sowline {name} --help` lists its options.",
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> None:
        end_without_server()
        os.execve(
            sys.executable,
            Program.MATERIALIZER.command(name, *arguments),
            os.environ | _found_settings(arguments, words),
        )

    return command


def _found_settings(arguments: tuple[str, ...], words: int) -> dict[str, str]:
    """Return the settings of the running `sowline up`.

    Empty if the user gives settings, asks for help, or gives too few words: the command then ends at once.
    """
    is_given = any(argument.startswith(_OPTIONS) for argument in arguments)
    is_short = len(_words_of(arguments)) < words
    return {} if is_given or is_short or {"-h", "--help"} & set(arguments) else stack_settings()


def _words_of(arguments: tuple[str, ...]) -> list[str]:
    """Return the arguments that are neither options nor their values."""
    pairs = pairwise(("", *arguments))
    return [each for before, each in pairs if not each.startswith("-") and before not in VALUED_OPTIONS]


def stack_settings() -> dict[str, str]:
    """Return the settings of the running `sowline up`, and report which it is; empty if the environment has any."""
    stack = None if STACK_SETTINGS & os.environ.keys() else chosen_stack()
    if stack is None:
        return {}
    report(stack)
    return {
        "SOWLINE_CONFIG": stack.config,
        "SOWLINE_KAFKA": stack.kafka,
        "SOWLINE_DATA_DIR": stack.data_dir,
    }


dump = _operation("dump", "Print the state of a topic.")
verify = _operation("verify", "Check the state of a topic against its log.")
backup = _operation("backup", "Write the state of a topic into a directory.", words=2)
restore = _operation("restore", "Write a backup into the changes of a topic.", words=2)
rebuild = _operation("rebuild", "Let the state of a topic be built again from its log.")
