"""Resets a partition to an era with an empty base, when a transient topic restarts: followers see each record end.

First the end of each record is written to the changes, as a change of the new era before its first log record. Once
Kafka has them all, the store is emptied. An owner that finds only some of them writes the rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from sowline.changes.change import DELETED, RESET, Change
from sowline.changes.progress import PROGRESS_KEY
from sowline.model.position import Position
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import decode_record
from sowline_materializer.store.interface import Store


@dataclass(frozen=True, slots=True)
class StateReset:
    """An era with an empty base: `checkpoint` is the partition's checkpoint, `ended` the number of records that have
    ended.
    """

    checkpoint: Checkpoint
    ended: int = 0

    @property
    def base(self) -> Position | None:
        """The state of followers before the era's first event; None if that event was written."""
        return None if self.ended else self.checkpoint.last_change

    @classmethod
    def begun(cls, checkpoint: Checkpoint, log_id: str, offset: int) -> "StateReset":
        """Return the era after the checkpoint's, which begins at the log's `offset`.

        Publishers' numbers belong to the old base, so none counts. The time is moved forward to distinguish them from
        new ones.
        """
        # A publisher may use the same numbers again after the reset. Without a later time its new commands would
        # count as repeats of the old ones (test_nothing_is_a_repeat_of_what_was_before).
        time = checkpoint.time + 1
        era = checkpoint.new_era(log_id, offset)
        assert era.position.era == checkpoint.position.era + 1, "eras follow each other"
        return cls(replace(era, time=time, numbers_since=time, reflected={}, taken={}))

    def ends(self, store: Store, batch_max: int = 1000) -> Iterator[list[Change]]:
        """Yield the ends of the records that the store holds, in batches, in the order of their SOW keys."""
        changes = self._changes(store)
        while batch := list(islice(changes, batch_max)):
            yield batch

    def _changes(self, store: Store) -> Iterator[Change]:
        checkpoint = self.checkpoint
        era, offset, after, left = (
            checkpoint.position.era,
            checkpoint.position.offset,
            checkpoint.last_change,
            checkpoint.records,
        )
        # Positions continue after the ends that a previous owner wrote before it died. If they began at 0 again,
        # followers would drop the first of them as repeats, and keep those records (test_what_was_begun_is_finished).
        for nth, (key, body) in enumerate(_live(store), self.ended):
            left -= 1
            assert left >= 0, "a store has no more live records than its checkpoint counts"
            position = Position(era, offset, nth)
            yield Change(
                sow_key=key,
                body=None,
                previous=body,
                position=position,
                after=after,
                op=RESET,
                time=checkpoint.time,
                last=not left,
                reason=DELETED,
            )
            after = position

    def done(self, changes_end: int) -> Checkpoint:
        """Return the checkpoint of the empty partition; Kafka has all ends, the last just before `changes_end`."""
        checkpoint, ends = self.checkpoint, self.ended + self.checkpoint.records
        # The ends are changes. Without a progress event after them, a loader finds changes that no progress event
        # reaches, and waits for one.
        stale_keys = checkpoint.stale_keys | {PROGRESS_KEY}
        checkpoint = replace(checkpoint, records=0, changes_end=changes_end, stale_keys=stale_keys)
        if not ends:
            return checkpoint
        position = Position(checkpoint.position.era, checkpoint.position.offset, ends - 1)
        return replace(checkpoint, position=position, last_change=position)


def _live(store: Store) -> Iterator[tuple[bytes, bytes | None]]:
    for key, data in store.scan():
        record = decode_record(data)
        if record.is_live:
            yield key, record.body
