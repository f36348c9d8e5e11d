"""The positions that a client was sent, from the bookmarks of its messages. Pure."""

from sowline.model.bookmark import PositionsByLog, format_bookmark
from sowline.model.position import Position


class SentPositions:
    """By log and partition, the position of the last message. It is kept as text: most are never read."""

    def __init__(self) -> None:
        self._sent: dict[tuple[str, str], str] = {}

    def note(self, bookmark: str) -> None:
        """Note the bookmark of a message: the positions of one partition or of several."""
        for section in bookmark.split(";"):
            log, _, parts = section.rpartition(":")
            for part in parts.split(","):
                number, _, position = part.partition("@")
                self._sent[log, number] = position

    @property
    def positions(self) -> PositionsByLog:
        """The positions by log."""
        found: PositionsByLog = {}
        for (log, number), position in self._sent.items():
            found.setdefault(log, {})[int(number)] = Position.parse(position)
        return found

    @property
    def bookmark(self) -> str:
        """The bookmark from which the client continues."""
        return format_bookmark(self.positions)
