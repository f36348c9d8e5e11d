"""The position of a subscription's reader: after the messages that it has received, in all partitions. Pure."""

import re
from typing import Self

from sowline.model.bookmark import Positions, format_bookmark, lay_over, named_bookmark, parse_bookmark
from sowline.protocol.client_message import Message

_POSITION = re.compile("@[^,;]*")


class PositionTracker:
    """A position for each partition, moved on by messages.

    Only when it is asked for are the bookmarks of the messages read: of those that name the same partitions the
    last one counts.
    """

    def __init__(self, bookmark: str | None = None) -> None:
        self._whole = bookmark
        self._moves: dict[str, str] = {}

    @property
    def bookmark(self) -> str:
        """The place as text; `epoch` before everything."""
        positions = _positions(self._whole)
        for moved in self._moves.values():
            positions = lay_over(positions, _positions(moved))
        return format_bookmark(positions)

    def note(self, message: Message) -> None:
        """Move behind a message. A group has a place once it has ended, a record of it has none."""
        if message.command in ("group_end", "progress") and message.bookmark is not None:
            self._whole = message.bookmark
            self._moves = {}
        elif message.bookmark is not None and message.command in ("publish", "oof"):
            partitions = _POSITION.sub("", message.bookmark)
            self._moves.pop(partitions, None)
            self._moves[partitions] = message.bookmark

    def copy(self) -> Self:
        """Return a place that moves on by itself."""
        copied = type(self)(self._whole)
        copied._moves = dict(self._moves)
        return copied


def _positions(bookmark: str | None) -> dict[str, Positions]:
    return parse_bookmark(bookmark) if bookmark and not named_bookmark(bookmark) else {}
