"""Which guarantees the reads of a view keep: its records are those of a recomputation. Pure.

A view's positions are those of its own log, so its changes are not compared one by one. Its whole state is, wherever
the history says which source positions it reflects.
"""

from collections import defaultdict
from collections.abc import Mapping

from sowline.check.history import MessageRead, ReadOpened, TotalsOf
from sowline.check.judge.bookmarks import (
    BEFORE_ALL,
    Partition,
    Position,
    named_position,
    position_text,
    read_bookmark,
)
from sowline.check.judge.records import Body, key_of, totals_of
from sowline.check.judge.truth import TopicTruth
from sowline.check.judge.verdict import Guarantee, Judgment


class ViewReads:
    """Judges all reads of one view."""

    def __init__(self, totals: TotalsOf, source: TopicTruth, verdict: Judgment) -> None:
        self._totals = totals
        self._source = source
        self._verdict = verdict
        self._known: dict[str, dict[str, Body]] = {}
        """By bookmark of the view, its records there."""
        self._held: dict[str, dict[str, Body]] = defaultdict(dict)
        """By read, what its subscriber holds."""
        self._reached: dict[str, dict[Partition, Position]] = defaultdict(dict)

    def take(self, opened: ReadOpened, message: MessageRead) -> None:
        """Judge the next message of a read."""
        held, key = self._held[opened.read], key_of(message.data, self._totals.grouping)
        match message.command:
            case "group_begin":
                held.clear()
            case "sow" if key is not None:
                held[key] = message.data or {}
            case "group_end":
                self._end_group(opened, message)
            case "publish" | "oof":
                self._judge_sequence(opened, message)
                if message.command == "oof":
                    held.pop(key or "", None)
                else:
                    held[key or ""] = message.data or {}
            # Elsewhere the view may be behind its source: compared there, a sound view would be accused
            # (test_without_a_position_of_the_source).
            case "progress" if message.bookmark in self._known:
                self._compare(opened.read, held, self._known[message.bookmark], message.bookmark)
            case _:
                pass

    def _end_group(self, opened: ReadOpened, message: MessageRead) -> None:
        self._reached[opened.read] = dict(read_bookmark(message.bookmark))
        if opened.reflects:
            bodies = [body for body, _, _ in self._source.state(read_bookmark(opened.reflects)).values()]
            wanted = totals_of(self._totals, bodies)
            self._known[message.bookmark] = wanted
            self._compare(opened.read, self._held[opened.read], wanted, opened.reflects)

    def _judge_sequence(self, opened: ReadOpened, message: MessageRead) -> None:
        if (stand := named_position(message.bookmark)) is None:
            return
        partition, position = stand
        last = self._reached[opened.read].get(partition, BEFORE_ALL)
        got = f"got the change at {message.bookmark} after {position_text(partition, last)}"
        key = key_of(message.data, self._totals.grouping)
        self._verdict.check(Guarantee.NO_REPEAT, position != last, got, opened.read, [key])
        self._verdict.check(Guarantee.ORDER, position >= last, got, opened.read, [key])
        self._reached[opened.read][partition] = max(position, last)

    def _compare(
        self, read: str, held: Mapping[str, Body], wanted: Mapping[str, Body], bookmark: str
    ) -> None:
        self._verdict.checked[Guarantee.VIEWS] += 1
        for key in sorted(wanted.keys() | held.keys()):
            if wanted.get(key) != held.get(key):
                what = f"expected {wanted.get(key)} at {bookmark}, got {held.get(key)}"
                self._verdict.add(Guarantee.VIEWS, what, read, [key])
