"""The progress of a subscription: the time to send its client a bookmark. Pure."""

from sowline.model.bookmark import Positions, PositionsByLog
from sowline.serving.sessions.status import TICKS


def positions_between(sent: Positions, held: Positions) -> int:
    """Return how many log offsets a client is behind a replica, over all partitions."""
    return sum(
        max(0, position.offset - sent[number].offset) for number, position in held.items() if number in sent
    )


class ProgressTimer:
    """Decides, at regular checks, when the client of an idle subscription gets a progress message."""

    def __init__(self) -> None:
        self._ticks = 0
        self._sent: PositionsByLog = {}

    def look(self, was_sent: bool, positions: PositionsByLog) -> bool:
        """Return whether to send the bookmark; `was_sent`: a message was sent since the last check."""
        self._ticks = 0 if was_sent else self._ticks + 1
        if self._ticks < TICKS or positions == self._sent:
            return False
        self._ticks = 0
        self._sent = positions
        return True
