"""Messages and answers as the lines of a pipe, or as a table on a terminal."""

import shutil
import sys
from collections.abc import Iterable
from typing import Any

import click
import orjson

from sowline.cli.columns import table_of
from sowline.cli.marks import Marks
from sowline.cli.output import Output
from sowline.errors import SowlineError
from sowline.model.exact_numbers import write_exact
from sowline.model.printable import printable
from sowline.wire.client_message import Message

TABLE_ROWS = 1000
"""The maximum number of rows of a table on a terminal; further records begin another table."""


def print_messages(
    messages: Iterable[Message], full: bool, commands: set[str], count: int | None = None
) -> None:
    """Print messages with these commands, each as it arrives; records of a group are printed many at a time.

    On a terminal records are a table, and changes are marked.
    """
    output, left = Output(sys.stdout.fileno()), count
    is_table = sys.stdout.isatty() and not full and commands == {"sow"}
    marks = Marks() if sys.stdout.isatty() and not full and not is_table else None
    rows: list[dict[str, Any]] = []
    try:
        for message in messages:
            for warning in message.warnings:
                click.echo(f"sowline: warning: {printable(warning)}", err=True)
            if full or message.command in commands:
                if is_table:
                    rows.append(message.data)
                else:
                    output.put(_line(message, full=full) if marks is None else marks.mark(message))
                left = None if left is None else left - 1
            if is_table and (len(rows) >= TABLE_ROWS or message.command == "group_end"):
                _print_table(rows)
                rows.clear()
            # A change is written at once: on a quiet topic, no other one may come for hours to fill the buffer.
            elif message.command != "sow" or left == 0:
                output.write()
            if left == 0:
                return
    except SowlineError:
        output.write()
        raise


def _fields(message: Message) -> dict[str, Any]:
    names = (
        "command",
        "topic",
        "sow_key",
        "bookmark",
        "updated_at",
        "rank",
        "reason",
        "timestamp",
        "correlation_id",
        "intrinsics",
        "records",
        "hash",
    )
    fields = {name: value for name in names if (value := getattr(message, name)) not in (None, "")}
    flags = {name: True for name in ("reset", "more", "delta") if getattr(message, name)}
    if message.removed:
        fields["removed"] = message.removed
    return fields | flags | ({"data": orjson.Fragment(message.body)} if message.body else {})


def _line(message: Message, *, full: bool) -> bytes:
    """Return a message as a line of a pipe: its body; an `oof` whole, so that it can't be taken for a record."""
    return orjson.dumps(_fields(message)) if full or message.command == "oof" else message.body


def print_all(answers: Iterable[Any]) -> None:
    """Print answers: a table on a terminal, else a line of JSON each."""
    if sys.stdout.isatty():
        _print_table(list(answers))
        return
    output = Output(sys.stdout.fileno())
    for answer in answers:
        output.put(write_exact(answer))
    output.write()


def _print_table(rows: list[dict[str, Any]]) -> None:
    if rows:
        click.echo("\n".join(table_of(rows, shutil.get_terminal_size().columns)))
