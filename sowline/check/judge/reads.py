"""Which guarantees a query or a subscription keeps, by what happened to its topic. Pure."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from sowline.check.history import MessageRead, ReadEnded, ReadOpened
from sowline.check.judge.bookmarks import (
    BEFORE_ALL,
    Partition,
    Position,
    covers,
    named_position,
    position_text,
    read_bookmark,
)
from sowline.check.judge.records import Body, key_of, matches, merged, page_of, without
from sowline.check.judge.truth import EXPIRED, KnownChange, TopicTruth
from sowline.check.judge.verdict import Guarantee, Judgment

EXPIRED_BOOKMARK: Final = "bookmark_expired"

_PROMISES: Final[Mapping[str, Guarantee]] = {
    "read_your_writes": Guarantee.READ_YOUR_WRITES,
    "monotonic_reads": Guarantee.MONOTONIC_READS,
}


def digest(sow_keys: Sequence[str]) -> str:
    """Return the XOR of the 8-byte BLAKE2b hashes of SOW keys, as in `group_end`."""
    combined = 0
    for sow_key in sow_keys:
        combined ^= int.from_bytes(blake2b(sow_key.encode(), digest_size=8).digest(), "big")
    return f"{combined:016x}"


def check_promise(opened: ReadOpened, bookmark: str, verdict: Judgment) -> None:
    """Judge whether a result is as fresh as its read demanded, if it did."""
    if promise := _PROMISES.get(opened.promise):
        sentence = f"expected records of {opened.at_least} or later, got those of {bookmark}"
        verdict.check(promise, covers(bookmark, opened.at_least), sentence, opened.read)


class ReadJudge:
    """Judges one read of a topic, message by message."""

    def __init__(self, opened: ReadOpened, truth: TopicTruth, verdict: Judgment) -> None:
        self._opened = opened
        self._truth = truth
        self._verdict = verdict
        self._group: list[MessageRead] | None = None
        self._is_complete = False
        """Whether a group has ended."""
        self._held: dict[str, Body] = {}
        """By key, what a conflated subscriber holds."""
        self._segment: Segment | None = None
        if opened.command in ("subscribe", "delta_subscribe") or opened.resumed:
            self._segment = Segment(opened, truth, verdict, read_bookmark(opened.bookmark))

    def take(self, message: MessageRead) -> None:
        """Judge the next message."""
        match message.command:
            case "group_begin":
                self._group = [message]
            case "sow":
                (self._group or []).append(message)
            case "group_end":
                self._end_group(message)
            case "progress":
                self._take_checksum(message)
            case _ if self._segment is None:
                self._break(Guarantee.SNAPSHOT, f"expected a group first, got {_named(message)}")
            case _ if self._opened.conflated:
                self._hold(message)
            case _:
                self._segment.take(message)

    def end(self, ended: ReadEnded | None) -> None:
        """Judge the end of the read, or of the history."""
        opened = self._opened
        if ended is not None and ended.reason == EXPIRED_BOOKMARK and opened.resumed:
            return
        if ended is not None and not ended.reason and opened.command == "sow" and not self._is_complete:
            self._break(Guarantee.SNAPSHOT, "expected a group_end, got the end of the query")
        if self._segment is None or opened.conflated:
            return
        reached = dict(read_bookmark("" if ended is None else ended.bookmark))
        # Only an end without a reason: a subscription that lost its connection need not have reached its end
        # (test_an_end).
        if ended is not None and not ended.reason and opened.up_to:
            reached |= read_bookmark(opened.up_to)
        self._segment.end(reached)

    def _end_group(self, end: MessageRead) -> None:
        begin, *records = self._group or [end]
        self._group = None
        self._is_complete = True
        opened = self._opened
        if begin.bookmark != end.bookmark:
            self._break(Guarantee.SNAPSHOT, f"expected one bookmark, got {begin.bookmark} and {end.bookmark}")
        check_promise(opened, end.bookmark, self._verdict)
        self._judge_group(records, end)
        if opened.command != "sow":
            if self._segment is not None and not opened.conflated:
                self._segment.end({})
            self._segment = Segment(opened, self._truth, self._verdict, read_bookmark(end.bookmark))
            self._held = {key: one.data or {} for one in records if (key := self._key(one)) is not None}

    def _judge_group(self, records: Sequence[MessageRead], end: MessageRead) -> None:
        """Compare a group with the records that match at its bookmark."""
        opened, verdict, name = self._opened, self._verdict, Guarantee.SNAPSHOT
        state = self._truth.state(read_bookmark(end.bookmark))
        wanted = {key: found for key, found in state.items() if matches(opened.filter, found[0])}
        if opened.order_by:
            name = Guarantee.PAGES
            bodies = {key: found[0] for key, found in wanted.items()}
            page = page_of(opened.order_by, opened.skip_n, opened.top_n, bodies)
            wanted = {key: wanted[key] for key in page}
            order = [self._key(record) for record in records]
            if order != page and sorted(map(str, order)) == sorted(page):
                self._break(name, f"expected the order {page} at {end.bookmark}, got {order}")
        verdict.checked[name] += 1
        seen: set[str] = set()
        for record in records:
            key = self._key(record)
            found = wanted.get(key or "")
            if key is None or found is None or key in seen:
                what = "a second time" if key in seen else "which does not match there"
                verdict.add(name, f"got record {key} at {end.bookmark}, {what}", opened.read, [key])
                continue
            seen.add(key)
            body, partition, position = found
            updated = position_text(partition, position)
            if body != record.data or record.updated_at not in ("", updated):
                got = f"{record.data} of {record.updated_at}"
                verdict.add(
                    name, f"expected {body} of {updated} at {end.bookmark}, got {got}", opened.read, [key]
                )
        for key in wanted.keys() - seen:
            verdict.add(
                name, f"expected record {key} at {end.bookmark}, which is not there", opened.read, [key]
            )
        self._check_sum(name, wanted, end)

    def _check_sum(self, guarantee: Guarantee, wanted: Mapping[str, object], message: MessageRead) -> None:
        """Compare the count and the hash of a message with the records that match at its bookmark."""
        if message.records is not None and message.records != len(wanted):
            self._break(
                guarantee, f"expected {len(wanted)} records at {message.bookmark}, got {message.records}"
            )
        sow_keys = [self._truth.sow_keys[key] for key in wanted if key in self._truth.sow_keys]
        if message.hash and len(sow_keys) == len(wanted) and message.hash != digest(sow_keys):
            self._break(
                guarantee, f"expected the hash {digest(sow_keys)} at {message.bookmark}, got {message.hash}"
            )

    def _take_checksum(self, message: MessageRead) -> None:
        opened, verdict = self._opened, self._verdict
        state = self._truth.state(read_bookmark(message.bookmark))
        wanted = {key: body for key, (body, _, _) in state.items() if matches(opened.filter, body)}
        if message.hash:
            verdict.checked[Guarantee.CHECKSUM] += 1
            self._check_sum(Guarantee.CHECKSUM, wanted, message)
        if not opened.conflated:
            if self._segment is not None:
                self._segment.reach(message.bookmark)
            return
        verdict.checked[Guarantee.CONFLATION] += 1
        for key in sorted(wanted.keys() | self._held.keys()):
            if wanted.get(key) != self._held.get(key):
                what = f"expected {wanted.get(key)} at {message.bookmark}, got {self._held.get(key)}"
                verdict.add(Guarantee.CONFLATION, what, opened.read, [key])

    def _hold(self, message: MessageRead) -> None:
        """Apply a conflated message to what the subscriber holds."""
        key = self._key(message)
        if key is not None and message.command == "publish":
            self._held[key] = message.data or {}
        elif key is not None:
            self._held.pop(key, None)

    def _key(self, message: MessageRead) -> str | None:
        return key_of(message.data, self._truth.topic.key)

    def _break(self, guarantee: Guarantee, sentence: str) -> None:
        self._verdict.add(guarantee, sentence, self._opened.read)


class BrokenBy(NamedTuple):
    """What each mistake among the changes of a read breaks."""

    gap: Guarantee = Guarantee.NO_GAP
    repeat: Guarantee | None = Guarantee.NO_REPEAT
    """None if changes may be repeated."""
    order: Guarantee = Guarantee.ORDER
    effect: Guarantee = Guarantee.ONE_EFFECT
    body: Guarantee = Guarantee.FOCUS
    delta: Guarantee = Guarantee.DELTAS


_RESUMED: Final = BrokenBy(Guarantee.RESUME, Guarantee.RESUME)


class Segment:
    """The changes that a subscription receives from one bookmark on: from its group, or from where it began."""

    def __init__(
        self,
        opened: ReadOpened,
        truth: TopicTruth,
        verdict: Judgment,
        start: Mapping[Partition, Position],
        broken_by: BrokenBy | None = None,
    ) -> None:
        self._opened = opened
        self._truth = truth
        self._verdict = verdict
        self._start = start
        self._reached = dict(start)
        self._seen: set[tuple[Partition, Position]] = set()
        self._broken_by = broken_by or (_RESUMED if opened.resumed else BrokenBy())

    def take(self, message: MessageRead) -> None:
        """Judge a change."""
        stand = named_position(message.bookmark)
        change = None if stand is None else self._truth.at(*stand)
        key = key_of(message.data, self._truth.topic.key)
        effect = self._broken_by.effect
        self._verdict.checked[effect] += 1
        if stand is None or change is None:
            self._break(effect, f"no write explains {_named(message)}", key)
            return
        self._judge_sequence(*stand, change.key)
        if message.correlation_id != change.write and change.write:
            self._break(
                effect,
                f"expected the effect of {change.write} at {message.bookmark}, got one of {message.correlation_id}",
                key,
                change.key,
            )
        self._judge_content(message, change, key)

    def _judge_sequence(self, partition: Partition, position: Position, key: str) -> None:
        """Judge where a change comes: after those before it, and once."""
        text = position_text(partition, position)
        reached = self._reached.get(partition, BEFORE_ALL)
        is_first = (partition, position) not in self._seen
        # The group has the changes up to its bookmark: one of them again would undo what came after it in the group
        # (test_a_change_from_before_the_group).
        is_after = position > self._start.get(partition, BEFORE_ALL)
        if (repeat := self._broken_by.repeat) is not None:
            self._check(repeat, is_first and is_after, f"got the change at {text} again", key)
        if is_first and is_after:
            self._check(
                self._broken_by.order,
                position > reached,
                f"got the change at {text} after {position_text(partition, reached)}",
                key,
            )
        self._seen.add((partition, position))
        # Never back: behind a late change, more late ones would be in order (test_changes_behind_a_later_one).
        self._reached[partition] = max(position, reached)

    def _judge_content(self, message: MessageRead, change: KnownChange, key: str | None) -> None:
        """Judge whether a message is the right one about its change."""
        opened = self._opened
        expected, body = self._expected(change)
        is_delta = (
            message.command == "publish" and message.delta and opened.command.endswith("delta_subscribe")
        )
        guarantee = self._broken_by.delta if is_delta else self._broken_by.body
        got: Any = message.data
        if is_delta:
            whole = merged(change.before, message.data or {})
            got = without(whole, message.removed)
        sow_key = self._truth.sow_keys.get(change.key, message.sow_key)
        is_right = (
            message.command == expected
            and got == body
            and message.sow_key in ("", sow_key)
            and (message.delta is is_delta)
            and (not is_delta or matches(opened.filter, change.before))
            and (expected != "oof" or message.reason == _reason(change))
        )
        what = f"{expected or 'no message'} with {body} for record {change.key}"
        self._check(
            guarantee, is_right, f"expected {what}, got {_named(message)} with {got}", key, change.key
        )

    def _expected(self, change: KnownChange) -> tuple[str, Body | None]:
        """Return the message that a change makes, empty for none, and its body or what its delta leads to."""
        if matches(self._opened.filter, change.after):
            return "publish", change.after
        if matches(self._opened.filter, change.before) and self._opened.oof:
            return "oof", change.before if change.after is None else change.after
        return "", None

    def reach(self, bookmark: str) -> None:
        """Note that everything up to a bookmark has been received."""
        for partition, position in read_bookmark(bookmark).items():
            self._reached[partition] = max(position, self._reached.get(partition, BEFORE_ALL))

    def end(self, reached: Mapping[Partition, Position]) -> None:
        """Look for changes that are missing, up to where everything has been received."""
        self.require(
            {
                partition: max(self._reached.get(partition, BEFORE_ALL), reached.get(partition, BEFORE_ALL))
                for partition in self._truth.partitions
            }
        )

    def require(self, last: Mapping[Partition, Position]) -> None:
        """Look for changes that are missing, up to these positions."""
        for partition in self._truth.partitions:
            start = self._start.get(partition, BEFORE_ALL)
            for change in self._truth.between(partition, start, last.get(partition, start)):
                if expected := self._expected(change)[0]:
                    text = position_text(partition, change.position)
                    is_there = (partition, change.position) in self._seen
                    sentence = f"expected the {expected} at {text}, got none"
                    self._check(self._broken_by.gap, is_there, sentence, change.key)

    def _check(self, guarantee: Guarantee, is_kept: bool, sentence: str, *keys: str | None) -> None:
        self._verdict.check(guarantee, is_kept, sentence, self._opened.read, keys)

    def _break(self, guarantee: Guarantee, sentence: str, *keys: str | None) -> None:
        self._verdict.add(guarantee, sentence, self._opened.read, keys)


def _reason(change: KnownChange) -> str:
    if change.after is not None:
        return "match"
    return "deleted" if change.write else EXPIRED


def _named(message: MessageRead) -> str:
    reason = f" ({message.reason})" if message.reason else ""
    return f"the {'delta' if message.delta else message.command}{reason} at {message.bookmark}"
