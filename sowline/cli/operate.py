"""Commands that operate on a topic's state. They run the materializer's programs, each with its own arguments."""

import os
import sys

import click

from sowline.runtime.programs import Program
from sowline.runtime.running_stack import chosen_stack

_OPTIONS = ("--config", "--kafka", "-k", "--data-dir")
_SETTINGS = {"SOWLINE_CONFIG", "SOWLINE_KAFKA", "SOWLINE_DATA_DIR"}


def _operation(name: str, what: str) -> click.Command:
    @click.command(
        name,
        help=f"{what} `sowline {name} --help` lists its options.",
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> None:
        os.execve(
            sys.executable,
            Program.MATERIALIZER.command(name, *arguments),
            os.environ | _found_settings(arguments),
        )

    return command


def _found_settings(arguments: tuple[str, ...]) -> dict[str, str]:
    """Return the settings of the running `sowline up`; none if the user gives some, or asks for help."""
    is_given = any(argument.startswith(_OPTIONS) for argument in arguments)
    return {} if is_given or {"-h", "--help"} & set(arguments) else stack_settings()


def stack_settings() -> dict[str, str]:
    """Return the settings of the running `sowline up`, and report which it is; none if the environment has some."""
    stack = None if _SETTINGS & os.environ.keys() else chosen_stack()
    if stack is None:
        return {}
    click.echo(f"sowline: {stack.sentence}", err=True)
    return {
        "SOWLINE_CONFIG": stack.config,
        "SOWLINE_KAFKA": stack.kafka,
        "SOWLINE_DATA_DIR": stack.data_dir,
    }


dump = _operation("dump", "Print the state of a topic.")
verify = _operation("verify", "Check the state of a topic against its log.")
backup = _operation("backup", "Write the state of a topic into a directory.")
restore = _operation("restore", "Write a backup into the changes of a topic.")
rebuild = _operation("rebuild", "Let the state of a topic be built again from its log.")
