"""The position of a subscription's reader: after the messages that it has received, in all partitions. Pure."""

import re
from typing import Self

from sowline.model.bookmark import Positions, format_bookmark, lay_over, named_bookmark, parse_bookmark
from sowline.wire.client_message import Message

_POSITION = re.compile("@[^,;]*")


class PositionTracker:
    """A position for each partition, moved forward by messages.

    The bookmarks of messages are parsed only when the position is requested. Of bookmarks with the same partitions
    the last one counts.
    """

    def __init__(self, bookmark: str | None = None) -> None:
        self._whole = bookmark
        self._moves: dict[str, str] = {}

    @property
    def bookmark(self) -> str:
        """The position as text; `epoch` before the first message."""
        positions = _positions(self._whole)
        for moved in self._moves.values():
            positions = lay_over(positions, _positions(moved))
        return format_bookmark(positions)

    def note(self, message: Message) -> None:
        """Move to the position after a message. A group has a position at its end; a record in it has none."""
        command, bookmark = message.command, message.bookmark
        if bookmark is None:
            return
        if command in ("publish", "oof"):
            partitions, _, position = bookmark.partition("@")
            if "@" in position:  # of several partitions
                partitions = _POSITION.sub("", bookmark)
            # Removed first, so that it becomes the last one: moves are laid over each other in their order, and may
            # name some of the same partitions (test_of_messages_about_several_partitions_the_last_counts).
            self._moves.pop(partitions, None)
            self._moves[partitions] = bookmark
        elif command in ("group_end", "progress"):
            self._whole = bookmark
            self._moves = {}

    def copy(self) -> Self:
        """Return a copy that moves independently."""
        copied = type(self)(self._whole)
        copied._moves = dict(self._moves)
        return copied


def _positions(bookmark: str | None) -> dict[str, Positions]:
    return parse_bookmark(bookmark) if bookmark and not named_bookmark(bookmark) else {}
