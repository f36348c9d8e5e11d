"""A partition's way to an era with an empty base, where a transient topic begins anew: followers see each record go.

First the end of each record is written to the changes, as changes of the new era before its first log record; once
Kafka has them all the state is emptied. Whoever finds only some of them written writes the rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from materializer.head import Head
from materializer.record import decode_record
from materializer.store import Store
from sowline.change import DELETED, PROGRESS_KEY, RESET, Change
from sowline.position import Position


@dataclass(frozen=True, slots=True)
class Emptying:
    """An era with an empty base: `head` is where the partition stands, `ended` the number of records ended by now."""

    head: Head
    ended: int = 0

    @property
    def base(self) -> Position | None:
        """What followers hold before the era's first event; None where that was written."""
        return None if self.ended else self.head.last_change

    @classmethod
    def begun(cls, head: Head, log_id: str, offset: int) -> "Emptying":
        """Return the era after the head's, which begins at the log's `offset`.

        Publishers' numbers are of the old base, so none counts: the time is moved on, to tell them from new ones.
        """
        time = head.time + 1
        return cls(replace(head.new_era(log_id, offset), time=time, numbers_since=time))

    def ends(self, store: Store, batch_max: int = 1000) -> Iterator[list[Change]]:
        """Yield the ends of the records that the store holds, in batches, in the order of their SOW keys."""
        changes = self._changes(store)
        while batch := list(islice(changes, batch_max)):
            yield batch

    def _changes(self, store: Store) -> Iterator[Change]:
        head = self.head
        era, offset, after, left = head.position.era, head.position.offset, head.last_change, head.records
        for nth, (key, body) in enumerate(_live(store), self.ended):
            left -= 1
            place = Position(era, offset, nth)
            yield Change(key, None, body, place, after, RESET, head.time, last=not left, reason=DELETED)
            after = place

    def done(self, changes_end: int) -> Head:
        """Return the head of the empty partition; Kafka has all ends, the last of them just before `changes_end`."""
        head, ends = self.head, self.ended + self.head.records
        spoiled = head.spoiled | {PROGRESS_KEY}
        head = replace(head, records=0, changes_end=changes_end, spoiled=spoiled)
        if not ends:
            return head
        place = Position(head.position.era, head.position.offset, ends - 1)
        return replace(head, position=place, last_change=place)


def _live(store: Store) -> Iterator[tuple[bytes, bytes]]:
    for key, data in store.scan():
        body = decode_record(data).body
        if body is not None:
            yield key, body
