"""The progress of a subscription: its status, and the time to send its client a bookmark. Pure."""

from typing import Literal, NamedTuple

from query_service.query.read_request import PositionsByLog
from sowline.model.bookmark import Positions
from sowline.protocol.request import Request

State = Literal["beginning", "group", "live", "catching up", "paused", "paced"]
"""`beginning`: not acknowledged yet. `group`: its records are being sent. `catching up`: it sends older changes as
fast as the client reads them. `paced`: it sends the changes one by one, because it has an end or a rate."""

TICKS = 4
"""The number of consecutive checks without a sent message after which the bookmark is sent."""


class SubscriptionStatus(NamedTuple):
    """The current status of one subscription."""

    request: Request
    state: State
    behind_positions: int
    """Log offsets that the replica has applied and the client was not sent, over all partitions."""
    behind_seconds: float
    """Seconds since it last was at its replica's position; 0 if it is now."""


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
