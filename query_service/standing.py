"""How a subscription stands: live, or how far behind what its replica has. Pure."""

from typing import Literal, NamedTuple

from sowline.bookmark import Positions
from sowline.wire import Request

State = Literal["beginning", "group", "live", "catching up", "paused", "paced"]
"""`beginning`: not acknowledged yet; `group`: its records are being sent; `catching up`: it reads the changes at the
client's own pace; `paced`: it tells one change after the other, because it has an end or a rate."""


class Standing(NamedTuple):
    """One subscription now."""

    request: Request
    state: State
    behind_positions: int
    """Log records that the replica has applied and the client was not told of, over all partitions."""
    behind_seconds: float
    """How long ago it stood with its replica last; 0 where it does now."""


def positions_between(told: Positions, held: Positions) -> int:
    """Return how many log offsets one place is behind another, over all partitions."""
    return sum(max(0, there.offset - told[number].offset) for number, there in held.items() if number in told)
