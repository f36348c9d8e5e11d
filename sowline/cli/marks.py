"""Marks lines of a subscription on a terminal: `+` for a new record, `~` for a changed one, `-` for a removed one."""

import os

import click

from sowline.wire.client_message import Message

_COLORS = {"+": "green", "~": "yellow", "-": "red"}


class Marks:
    """Knows which records were printed, and so which of them are new."""

    def __init__(self) -> None:
        self._seen: set[str | None] = set()
        self._is_colored = "NO_COLOR" not in os.environ

    def mark(self, message: Message) -> bytes:
        """Return the line of a record that is printed, with its mark; of one that left, also why."""
        if message.command == "oof":
            self._seen.discard(message.sow_key)
            mark, reason = "-", f"  ({message.reason})"
        else:
            mark = "~" if message.sow_key is not None and message.sow_key in self._seen else "+"
            self._seen.add(message.sow_key)
            reason = ""
        text = f"{mark} {message.body.decode()}{reason}"
        return (click.style(text, fg=_COLORS[mark]) if self._is_colored else text).encode()
