"""Following a partition's changes: take what is new, drop what is not, and see a gap where there is one."""

from enum import Enum

from sowline.change import Event
from sowline.position import Position


class Verdict(Enum):
    """What a follower does with an event."""

    TAKE = "take"
    DROP = "drop"
    GAP = "gap"


def verdict(event: Event, held: Position) -> Verdict:
    """Judge an event by the position that the follower holds.

    Newer, and what it comes after is not: take it. Not newer: a repeat, drop it. Newer, and so is what it
    comes after: something in between never arrived.
    """
    if event.position <= held:
        return Verdict.DROP
    return Verdict.GAP if event.after > held else Verdict.TAKE
