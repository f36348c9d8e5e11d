"""One partition of a topic at work: its store, its head, and the batch that is on its way to Kafka."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from operator import attrgetter

from materializer.cache import Cache
from materializer.core import Applier
from materializer.damage import StoreDamaged
from materializer.expiring import Due
from materializer.head import EVERYTHING, Head
from materializer.record import Record, decode_record
from materializer.recovery import Opened
from materializer.remembered import remembered_by
from materializer.step import Step
from materializer.store import Store
from materializer.view import View, due_entry
from sowline.change import AGAIN, PROGRESS_KEY, UNFILLED, Change, Event, Progress
from sowline.command import LogRecord
from sowline.position import Position, before_the_log
from sowline.topics import TopicDefinition

NOTHING_DUE = b"\xff" * 9
"""What no entry of the index of due times reaches."""

OUTCOMES_MAX = 1000
"""Outcomes that one progress event carries; a batch with more writes several."""


_OFFSET, _POSITION = attrgetter("offset"), attrgetter("position")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch that was applied but not committed: what it makes of the state, and what to write first."""

    view: View
    step: Step
    events: list[Event]
    records: int


class Partition:
    """Applies batches in two halves: `prepare`, then, once Kafka has everything, `commit`."""

    def __init__(
        self, definition: TopicDefinition, number: int, opened: Opened, cache: Cache | None = None
    ) -> None:
        self.definition = definition
        self.number = number
        self.head = opened.head
        self._store: Store = opened.store
        self._cache = cache or Cache()
        self._floor, self._untaken = opened.floor, opened.untaken
        self._remembered = remembered_by(opened.store)
        self._first_due = b""

    def prepare(self, batch: Sequence[LogRecord], log_end: int) -> Prepared:
        """Apply the log records that are newer than the state; nothing is kept until `commit`."""
        new = batch[bisect_left(batch, self.head.next_offset, key=_OFFSET) :]
        view = View(self._store, self._cache)
        step = Applier(self.definition, self.number, self.head, view).apply(new)
        events = self._events(step, log_end)
        if self._says_more(step):
            events += self._progress_events(step, log_end)
        return Prepared(view, step, events, len(new))

    def was_told(self, offset: int) -> bool:
        """Tell whether what the log record at an offset leads to was emitted before this owner came."""
        return Position(self.head.position.era, offset) <= self._floor

    def _events(self, step: Step, log_end: int) -> list[Event]:
        """Return the changes that were not emitted yet, and before them what they leave untold.

        Of the events of a batch only the first few may reach Kafka, and the disk may go with the owner: each
        must stand on all that was before it.
        """
        changes = step.changes
        start = bisect_right(changes, self._floor, key=_POSITION)
        events: list[Event] = []
        for end, head in step.untold:
            if end >= start:
                events += changes[start:end]
                events.append(progress_of(head, log_end, {}))
                start = end
        return events + changes[start:]

    def _says_more(self, step: Step) -> bool:
        """Tell whether the changes alone leave something unsaid: outcomes, origins, or how far the log was read."""
        moved_on = step.head.position > max(step.head.last_change, self._floor)
        return bool(step.outcomes) or moved_on or step.head.origins != self.head.origins

    def _progress_events(self, step: Step, log_end: int) -> list[Event]:
        outcomes = list(step.outcomes.items())
        parts = [outcomes[i : i + OUTCOMES_MAX] for i in range(0, len(outcomes), OUTCOMES_MAX)] or [[]]
        return [progress_of(step.head, log_end, dict(part)) for part in parts]

    def commit(self, prepared: Prepared, changes_end: int) -> None:
        """Keep what the batch made; Kafka has all its events, the last of them just before `changes_end`.

        While the state is behind what was emitted before, whoever opens it next must find that out again.
        """
        head = replace(prepared.step.head, changes_end=changes_end, spoiled=self.head.spoiled)
        kept = head if head.position >= self._floor else replace(head, changes_end=self._untaken)
        self._remembered.forget(prepared.view, head.remembered_since)
        written = prepared.view.written(self._store.tally())
        self._store.commit(written.entries, written.tally, kept.encode(), written.dues)
        self._cache.keep(written.records, written.bytes)
        self.head = head
        for due, is_there in written.dues.items():
            if is_there and due < self._first_due:
                self._first_due = due
        for change in prepared.step.changes:
            if change.body is None:
                self._remembered.add(change.time, change.sow_key)

    def due(self, time: int) -> Iterator[Due]:
        """Yield the records that are due at a log time, the longest due first; none where none expire."""
        end = due_entry(time + 1, b"")
        if not self.head.limits.may_expire or self._first_due >= end:
            return
        self._first_due, start = NOTHING_DUE, self._first_due
        for due in self._store.dues(start):
            self._first_due = min(due, self._first_due)
            if due >= end:
                return
            yield self._due(due)

    def _due(self, due: bytes) -> Due:
        key = due[8:]
        data = self._store.get(key)
        if data is None:
            raise StoreDamaged(f"expected record {key!r}, which is due, got none")
        record = decode_record(data)
        return Due(int.from_bytes(due[:8], "big"), record.key_text, record.position)

    def spoil(self, keys: Iterable[bytes], changes_end: int) -> None:
        """Note that up to here somebody else wrote events of these keys, so that compaction may keep the wrong ones.

        The next commit keeps that with the state, until they are put right.
        """
        self.head = replace(self.head, spoiled=self.head.spoiled.union(keys), changes_end=changes_end)

    @property
    def base(self) -> Position | None:
        """The last change of before this era, where the era is yet to make one; what followers may hold by now."""
        head = self.head
        return head.last_change if head.last_change.era != head.position.era else None

    def put_right(self, log_end: int, batch_max: int = 1000) -> Iterator[list[Event]]:
        """Yield in batches what to write again because of foreign events, and where the partition stands.

        There is nothing to write before the state has reached all that was ever emitted: the newest event
        of a key may be one that the state does not have yet. An era without changes is told before anything in it.
        """
        head = self.head
        if not head.spoiled or head.position < self._floor or not head.complete:
            return
        if head.last_change.era != head.position.era:
            yield [progress_of(head, log_end, {})]
        keys = self._spoiled_keys()
        while batch := list(islice(keys, batch_max)):
            yield self.again(batch)
        yield [progress_of(replace(head, spoiled=frozenset()), log_end, {})]

    def _spoiled_keys(self) -> Iterator[bytes]:
        if not self.definition.has_sow:
            return iter(())
        named = sorted(self.head.spoiled - {PROGRESS_KEY, EVERYTHING})
        if EVERYTHING not in self.head.spoiled:
            return iter(named)
        gone = [key for key in named if self._store.get(key) is None]
        return chain((key for key, _ in self._store.scan()), gone)

    def again(self, keys: Iterable[bytes]) -> list[Event]:
        """Return the newest event of each SOW key once more, for a changes topic that holds foreign ones.

        Followers drop them by their position. `after` is the event's own position, so that a reader who has
        not seen the first writing takes it for the gap that it is. A loader knows by `said_in`
        that it counts more than what an owner of the era before has written after that position.
        """
        view = View(self._store, self._cache)
        return [self._again(key, view.get(key)) for key in keys]

    def _again(self, key: bytes, record: Record | None) -> Change:
        if record is None:
            position = self._last_of_era()
            return Change(key, None, None, position, position, AGAIN, self.head.time)
        place, era = record.position, self.head.position.era
        return Change(
            key,
            record.body,
            None,
            place,
            place,
            AGAIN,
            record.time,
            expires=record.expires,
            correlation=record.correlation,
            numbers=record.numbers,
            key_text=record.key_text if record.body is None or record.writes is not None else None,
            said_in=era if era != place.era else None,
            writes=record.writes,
        )

    def _last_of_era(self) -> Position:
        """Return the last change's position, or the era's begin if that is later: behind all that others may write.

        In an era that has made no change yet, an event that comes late from the one before is newer than its last.
        """
        era, last = self.head.position.era, self.head.last_change
        return last if last.era == era else before_the_log(era)

    def is_right(self, changes_end: int, but: Iterable[bytes] = ()) -> None:
        """Note that the changes partition, up to this offset, ends with the newest event of each key, `but` these."""
        self.head = replace(self.head, changes_end=changes_end, spoiled=frozenset(but))
        self._store.commit({}, self._store.tally(), self.head.encode())

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()


def foreign_keys(found: Iterable[Event], ours: Iterable[Event]) -> set[bytes]:
    """Return the keys of changes that somebody else wrote among the events found where ours should be alone.

    A worker that was thought dead woke up and repeated old events. Followers drop those by their position,
    but compaction keeps the last of each key, which must be ours. Of two events with one position, one is
    foreign, whichever it is.
    """
    expected = {event.position for event in ours if isinstance(event, Change)}
    keys = set()
    for event in found:
        if isinstance(event, Change) and event.position in expected:
            expected.remove(event.position)
        elif isinstance(event, Change):
            keys.add(event.sow_key)
    return keys


def progress_of(head: Head, log_end: int, outcomes: dict[str, str]) -> Progress:
    """Return the progress event of a partition with this head."""
    changes_id = head.changes_id if EVERYTHING not in head.spoiled else UNFILLED
    return Progress(
        head.position,
        head.last_change,
        log_end,
        head.origins,
        head.definition,
        head.log_id,
        head.time,
        outcomes,
        head.limits,
        head.numbers_since,
        head.begin,
        changes_id,
    )
