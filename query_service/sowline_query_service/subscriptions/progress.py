"""How many log offsets the client of a subscription is behind. Pure."""

from sowline.model.bookmark import Positions


def positions_between(sent: Positions, held: Positions) -> int:
    """Return how many log offsets a client is behind a replica, over all partitions."""
    return sum(
        max(0, position.offset - sent[number].offset) for number, position in held.items() if number in sent
    )
