"""Following a partition's changes: take what is new, drop what is not, and see a gap where there is one.

Loading them: tell whether what was read is all that there is up to there.
"""

from collections.abc import Iterable
from enum import Enum

from sowline.change import AGAIN, UNFILLED, Change, Event
from sowline.position import Position, before_the_log


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
    part of what is to come. Somebody may have begun to fill the topic in another way before.
    """

    def __init__(self, topic_id: str = "") -> None:
        self.topic_id = topic_id
        self._newest = before_the_log(-1)
        self._has_word = False
        self._is_amid = False

    def saw(self, events: Iterable[Event]) -> None:
        """Take in the next events, in the order of their offsets."""
        newest = self._newest
        for event in events:
            position = event.position
            if isinstance(event, Change):
                if position > newest:
                    newest = position
                    if event.op == AGAIN:
                        self._is_amid = True
            elif position >= newest and is_of(event, self.topic_id):
                newest = position
                if event.changes_id != UNFILLED:
                    self._has_word, self._is_amid = True, False
        self._newest = newest

    @property
    def is_whole(self) -> bool:
        """Whether it does; of nothing that was read nothing is known."""
        return self._has_word and not self._is_amid
