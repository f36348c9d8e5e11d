"""Whether a fanout has written what a subscription would receive. Pure.

A fanout that begins again after a failure repeats its last messages. Its readers drop a message whose bookmark is not
newer than the last one of the partition. What they keep must have no gap, and a repeat must equal the first message.
"""

from collections.abc import Mapping
from typing import Final

from sowline.check.history import MessageRead, ReadEnded, ReadOpened
from sowline.check.judge.bookmarks import BEFORE_ALL, Partition, Position, named_position, read_bookmark
from sowline.check.judge.reads import BrokenBy, Segment
from sowline.check.judge.truth import TopicTruth
from sowline.check.judge.verdict import Guarantee, Judgment

_NAME: Final = Guarantee.FANOUTS
_BROKEN_BY: Final = BrokenBy(gap=_NAME, repeat=None, order=_NAME, effect=_NAME, body=_NAME, delta=_NAME)


class FanoutJudge:
    """Judges the messages of one fanout, in the order of its Kafka topic."""

    def __init__(self, opened: ReadOpened, truth: TopicTruth, verdict: Judgment) -> None:
        self._begin = read_bookmark(opened.bookmark)
        self._segment = Segment(opened, truth, verdict, self._begin, _BROKEN_BY)
        self._messages: list[MessageRead] = []

    def take(self, message: MessageRead) -> None:
        """Keep a message until it is known up to where fanouts are judged."""
        self._messages.append(message)

    def end(self, ended: ReadEnded | None) -> None:
        """Judge what was written about changes after the beginning, up to the bookmark of the end.

        Later changes, such as an expiry after the last subscription was left, may be known from the fanout alone
        (test_changes_after_the_last_bookmark).
        """
        last: Mapping[Partition, Position] = {} if ended is None else read_bookmark(ended.bookmark)
        for message in self._messages:
            stand = named_position(message.bookmark)
            if stand is not None and stand[1] > last.get(stand[0], BEFORE_ALL):
                # It is not judged, but it was written: what comes behind it is out of order
                # (test_changes_behind_a_later_one).
                self._segment.reach(message.bookmark)
            # Without a position it is judged: no reader could tell it from a repeat. Up to the beginning it is not:
            # no write of the history explains it (test_changes_before_the_history).
            elif stand is None or stand[1] > self._begin.get(stand[0], BEFORE_ALL):
                self._segment.take(message)
        self._segment.require(last)
