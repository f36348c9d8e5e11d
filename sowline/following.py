"""Following a partition's changes: take what is new, drop what is not, and see a gap where there is one.

Loading them: tell whether what was read is all that there is up to there.
"""

from collections.abc import Iterable
from enum import Enum
from itertools import repeat

from sowline.change import AGAIN, UNFILLED, Change, Event
from sowline.position import Position, before_the_log

UNKNOWN_OFFSET = -1

BROKEN_OFF = -2
"""The offset that goes on where others have left a hole: none does any more."""


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


def is_of(event: Event, topic_id: str) -> bool:
    """Tell whether an event says something of the changes topic with this id, as far as that can be known.

    An owner that does not know yet that its topic was made again says where it stands in the one of before: what it
    has written there is not in this one.
    """
    return isinstance(event, Change) or not topic_id or event.changes_id in ("", UNFILLED, topic_id)


class Wholeness:
    """Whether what was read of a changes partition, from its begin, leaves nothing out.

    A partition begins with a word of where it stands, and where a topic was lost, and the newest events of all its
    records are written again, that word comes last: what is newer than all before it, and was written again, is a
    part of what is to come. Somebody may have begun to fill the topic in another way before; or an owner of before,
    who does not know that the topic was lost, goes on in it where it was: then there is a gap from which compaction
    has taken nothing, and what is missing is yet to be written again.
    """

    def __init__(self, topic_id: str = "") -> None:
        self.topic_id = topic_id
        self._newest = before_the_log(-1)
        self._due = 0
        self._has_word = False
        self._is_amid = False

    def saw(self, events: Iterable[Event], offsets: Iterable[int] = repeat(UNKNOWN_OFFSET)) -> None:
        """Take in the next events, in the order of their offsets."""
        newest, due = self._newest, self._due
        for event, offset in zip(events, offsets, strict=False):
            position, follows = event.position, offset == due
            due = offset + 1 if follows else BROKEN_OFF
            if isinstance(event, Change):
                if position > newest:
                    if event.op == AGAIN or (follows and event.after > newest):
                        self._is_amid = True
                    newest = position
            elif position >= newest and is_of(event, self.topic_id):
                newest = position
                if event.changes_id != UNFILLED:
                    self._has_word, self._is_amid = True, False
        self._newest, self._due = newest, due

    @property
    def is_whole(self) -> bool:
        """Whether it does; of nothing that was read nothing is known."""
        return self._has_word and not self._is_amid
