"""The status of a subscription, as the list of clients shows it."""

from typing import Literal, NamedTuple

from sowline.wire.request import Subscribe

State = Literal["beginning", "group", "live", "catching up", "paused", "paced"]
"""`beginning`: not acknowledged yet. `group`: its records are being sent. `catching up`: it sends older changes as
fast as the client reads them. `paced`: it sends the changes one by one, because it has an end or a rate."""

TICKS = 4
"""The number of consecutive checks without a sent message after which the bookmark is sent."""


class SubscriptionStatus(NamedTuple):
    """The current status of one subscription."""

    request: Subscribe
    state: State
    behind_positions: int
    """Log offsets that the replica has applied and the client was not sent, over all partitions."""
    behind_seconds: float
    """Seconds since it last was at its replica's position; 0 if it is now."""
