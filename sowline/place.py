"""Where a reader of a subscription stands: after the messages that it was given, in all partitions. Pure."""

from collections.abc import Mapping

from sowline.bookmark import Positions, format_bookmark, lay_over, named_place, parse_bookmark
from sowline.message import Message


class Place:
    """A position for each partition, moved on by messages."""

    def __init__(self, bookmark: str | None = None) -> None:
        self._positions: Mapping[str, Positions] = _positions(bookmark)

    @property
    def bookmark(self) -> str:
        """The place as text; `epoch` before everything."""
        return format_bookmark(self._positions)

    def after(self, message: Message) -> "Place":
        """Return the place behind a message. A group has one once it has ended, a record of it has none."""
        if message.command == "group_end":
            return Place(message.bookmark)
        if message.bookmark is None or message.command not in ("publish", "oof"):
            return self
        moved = Place()
        moved._positions = lay_over(self._positions, _positions(message.bookmark))
        return moved


def _positions(bookmark: str | None) -> dict[str, Positions]:
    return parse_bookmark(bookmark) if bookmark and not named_place(bookmark) else {}
