"""A store that follows its partition's changes: what the owner's state was at each of them, without its log.

After every portion the first road of recovery would open it. Where the changes do not lead on for certain from what
it holds, it says so: then they are to be loaded anew, the newest of each key.
"""

from collections.abc import Iterable, Sequence

from materializer.head import Head
from materializer.record import Record
from materializer.remembered import Remembered
from materializer.store import Store
from materializer.view import View
from sowline.body import read_object
from sowline.change import AGAIN, PROGRESS_KEY, RESET, Change, Event, Progress
from sowline.following import is_of
from sowline.key import key_text
from sowline.position import Position
from sowline.topics import TopicDefinition


class Gap(Exception):
    """The changes do not lead on from what a store holds."""


class Follower:
    """Takes a store along with its partition's changes; `head` is where it stands.

    `remembered` are the deleted records that the store remembers, as (log time in ms, SOW key), oldest first. After a
    `Gap` the store is as the last portion left it, and the follower is done for.
    """

    def __init__(
        self, definition: TopicDefinition, store: Store, head: Head, remembered: Iterable[tuple[int, bytes]]
    ) -> None:
        self.head = head
        self._definition = definition
        self._store = store
        self._remembered = Remembered(remembered)
        self._position = head.position
        self._last_change = head.last_change
        self._time = head.time
        self._origins = dict(head.origins)
        self._complete = head.complete
        self._spoiled = set(head.spoiled)
        self._newest: Progress | None = None
        self._live = head.records

    def follow(self, events: Sequence[Event], changes_end: int) -> None:
        """Take in the next events, which end at the offset `changes_end`, and commit them; raises `Gap`."""
        view = View(self._store)
        for event in events:
            if not is_of(event, self.head.changes_id):
                self._spoiled.add(PROGRESS_KEY)
                continue
            if event.position <= self._position:
                self._late(event, view)
            elif event.after > self._position:
                raise Gap(f"expected what comes after {self._position}, got what comes after {event.after}")
            elif isinstance(event, Progress):
                self._move_on(event)
            else:
                self._take(event, view)
            self._time = max(self._time, event.time)
        head = self._head(changes_end)
        self._remembered.forget(view, head.remembered_since)
        written = view.written(self._store.tally())
        self._store.commit(written.entries, written.tally, head.encode(), written.dues)
        self.head = head

    def _take(self, change: Change, view: View) -> None:
        if change.op == RESET:
            raise Gap("the partition begins anew, without its records")
        if change.position.era > self._position.era:
            raise Gap("expected the begin of an era before its first change")
        self._position = self._last_change = change.position
        self._complete = change.last
        if change.origin is not None:
            self._saw_origin(*change.origin)
        if self._definition.has_sow:
            self._put(change, view)

    def _put(self, change: Change, view: View) -> None:
        key = change.sow_key
        held = view.get(key)
        record = record_of(self._definition, change, held)
        view.put(key, record)
        self._live += (change.body is not None) - (held is not None and held.body is not None)
        self._spoiled.discard(key)
        if record is not None and record.body is None:
            self._remembered.add(record.time, key)

    def _move_on(self, progress: Progress) -> None:
        if progress.position.era > self._position.era:
            self._origins = {}
        self._last_change = max(self._last_change, progress.after)
        self._position = progress.position
        self._complete = True
        self._stand(progress)

    def _stand(self, progress: Progress) -> None:
        self._newest = progress
        for partition, offset in progress.origins.items():
            self._saw_origin(partition, offset)
        self._spoiled.discard(PROGRESS_KEY)

    def _saw_origin(self, partition: int, offset: int) -> None:
        self._origins[partition] = max(offset, self._origins.get(partition, -1))

    def _late(self, event: Event, view: View) -> None:
        """Judge an event that is not newer than all before it: is it its key's newest, which compaction must keep?

        Where only a look at all events could tell, it raises `Gap`.
        """
        if isinstance(event, Progress):
            if event.position == self._position:
                self._stand(event)
            else:
                self._spoiled.add(PROGRESS_KEY)
        elif self._definition.has_sow:
            self._late_change(event, view)

    def _late_change(self, change: Change, view: View) -> None:
        key, is_again = change.sow_key, change.op == AGAIN
        if change.rank[0] < self._position.era:
            self._spoiled.add(key)
            return
        held = view.get(key)
        newest = Position(-1, -1) if held is None else held.position
        is_none = held is None and is_again and change.body is None
        if is_none or newest == change.position:
            self._spoiled.discard(key)
        elif is_again and change.rank > (newest.era, newest):
            raise Gap(f"expected the record {key!r} to be as new as what is written of it again")
        else:
            self._spoiled.add(key)

    def _head(self, changes_end: int) -> Head:
        told = self._newest or self.head
        return Head(
            self._position,
            self._last_change,
            self._time,
            dict(self._origins),
            told.definition,
            told.log_id,
            changes_end,
            self._complete,
            frozenset(self._spoiled),
            told.limits,
            told.numbers_since,
            self._live,
            told.begin,
            self.head.changes_id,
        )


def record_of(definition: TopicDefinition, change: Change, held: Record | None) -> Record | None:
    """Return what a partition keeps of a record after a change of it; `held` is what it kept before."""
    if change.body is not None:
        text = change.key_text or key_text(read_object(change.body), definition.key_paths)
        return Record(
            change.body,
            text,
            change.position,
            change.time,
            change.expires,
            change.numbers,
            change.correlation,
            change.writes,
        )
    if not change.numbers and change.writes is None:
        return None
    if change.key_text is not None:
        text = change.key_text
    elif held is not None:
        text = held.key_text
    else:
        text = key_text(read_object(change.previous or b"{}"), definition.key_paths)
    return Record(None, text, change.position, change.time, None, change.numbers, None, change.writes)
