"""A store that follows its partition's changes, and holds the owner's state at each of them, without the log.

After every portion, recovery can open it as a local store. If the changes do not certainly continue the state that it
holds, it raises `ChangesMissing`. The changes must then be loaded again, the newest of each key.
"""

from collections.abc import Iterable, Sequence

from sowline.changes.change import AGAIN, RESET, Change
from sowline.changes.changes_reader import ChangesMissing, takes
from sowline.changes.event import Event
from sowline.changes.progress import PROGRESS_KEY, Progress
from sowline.changes.wholeness import is_of
from sowline.config.topic_definition import TopicDefinition
from sowline.model.log_time import known_log_time
from sowline.model.position import Position
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import Record, record_after
from sowline_materializer.store.interface import Store
from sowline_materializer.store.overlay import Overlay
from sowline_materializer.store.tombstones import Tombstones


class ChangesFollower:
    """Applies a partition's changes to a store; `checkpoint` is its position.

    `tombstones` are the deleted records that the store remembers, as (log time in ms, SOW key), oldest first. After a
    `ChangesMissing` the store is as the last portion left it, and the follower can't be used any more.
    """

    def __init__(
        self,
        definition: TopicDefinition,
        store: Store,
        checkpoint: Checkpoint,
        tombstones: Iterable[tuple[int, bytes]],
    ) -> None:
        self.checkpoint = checkpoint
        self._definition = definition
        self._store = store
        self._tombstones = Tombstones(tombstones)
        self._position = checkpoint.position
        self._last_change = checkpoint.last_change
        self._time = checkpoint.time
        self._origins = dict(checkpoint.origins)
        self._reflected = dict(checkpoint.reflected)
        self._taken = dict(checkpoint.taken)
        self._complete = checkpoint.complete
        self._stale_keys = set(checkpoint.stale_keys)
        self._newest: Progress | None = None
        self._live = checkpoint.records

    def follow(self, events: Sequence[Event], changes_end: int) -> None:
        """Apply the next events, which end at the offset `changes_end`, and commit them; raise `ChangesMissing`."""
        view = Overlay(self._store)
        for event in events:
            # An owner that has not noticed a replaced topic reports its position in the old one. A copy that took
            # that position would lack the records before it.
            if not is_of(event, self.checkpoint.changes_id):
                self._stale_keys.add(PROGRESS_KEY)
                continue
            if not takes(event, self._position):
                self._late(event, view)
            elif isinstance(event, Progress):
                self._move_on(event)
            else:
                self._take(event, view)
            self._time = max(self._time, event.partition_time)
        checkpoint = self._checkpoint(changes_end)
        self._tombstones.forget(view, checkpoint.remembered_since)
        written = view.written(self._store.checksum())
        self._store.commit(written.entries, written.checksum, checkpoint.encode(), written.expiries)
        self.checkpoint = checkpoint

    def _take(self, change: Change, view: Overlay) -> None:
        # A reset ends all records one by one. Following it halfway would leave a copy with some of them; loading is
        # simpler and exact.
        if change.op == RESET:
            raise ChangesMissing("the partition was reset and begins without its records")
        # The base of an era is what the changes hold up to its first event. A follower that misses that event can't
        # know whether it holds the base (test_in_doubt_there_is_a_gap).
        if change.position.era > self._position.era:
            raise ChangesMissing("expected the begin of an era before its first change")
        assert change.position > self._position, "positions of changes increase"
        self._position = self._last_change = change.position
        self._complete = change.last
        if change.origin is not None:
            self._saw_origin(*change.origin)
        if change.reflects is not None:
            partition, position = change.reflects
            self._reflected[partition] = position
            if change.taken is not None:
                self._taken[partition] = change.taken
        if self._definition.has_sow:
            self._put(change, view)

    def _put(self, change: Change, view: Overlay) -> None:
        key = change.sow_key
        held = view.get(key)
        record = record_of(self._definition, change, held)
        view.put(key, record)
        self._live += (record is not None and record.is_live) - (held is not None and held.is_live)
        assert self._live >= 0, "a count of live records is never negative"
        self._stale_keys.discard(key)
        if record is not None and record.is_forgettable:
            self._tombstones.add(change.partition_time, key)

    def _move_on(self, progress: Progress) -> None:
        # Origins are offsets of one log: see `ChangesLoader`.
        if progress.position.era > self._position.era:
            self._origins = {}
        assert progress.position >= self._position, "a position only moves on"
        self._last_change = max(self._last_change, progress.after)
        self._position = progress.position
        self._complete = True
        self._stand(progress)

    def _stand(self, progress: Progress) -> None:
        self._newest = progress
        for partition, offset in progress.origins.items():
            self._saw_origin(partition, offset)
        self._reflected = dict(progress.reflected)
        self._taken = dict(progress.taken)
        self._stale_keys.discard(PROGRESS_KEY)

    def _saw_origin(self, partition: int, offset: int) -> None:
        self._origins[partition] = max(offset, self._origins.get(partition, -1))

    def _late(self, event: Event, view: Overlay) -> None:
        """Judge an event that is not newer than all before it: is it the newest of its key, which compaction must
        keep?

        Raise `ChangesMissing` if only all events together could show that.
        """
        assert event.position <= self._position, "what is newer is taken"
        if isinstance(event, Progress):
            if event.position == self._position:
                self._stand(event)
            else:
                self._stale_keys.add(PROGRESS_KEY)
        elif self._definition.has_sow:
            self._late_change(event, view)

    def _late_change(self, change: Change, view: Overlay) -> None:
        key, is_again = change.sow_key, change.op == AGAIN
        # Written late by the owner of an ended era: compaction keeps it, so an owner must write the key again
        # (test_what_comes_late_from_an_ended_era_is_to_be_written_again).
        if change.rank[0] < self._position.era:
            self._stale_keys.add(key)
            return
        held = view.get(key)
        newest = Position(-1, -1) if held is None else held.position
        is_none = held is None and is_again and change.body is None
        if is_none or newest == change.position:
            self._stale_keys.discard(key)
        elif is_again and change.rank > (newest.era, newest):
            # The owner repaired this key with an event that this copy has never seen. It may have missed more.
            raise ChangesMissing(f"expected the record {key!r} to be as new as what is written of it again")
        else:
            self._stale_keys.add(key)

    def _checkpoint(self, changes_end: int) -> Checkpoint:
        assert self._live >= 0, "a count of live records is never negative"
        newest = self._newest or self.checkpoint
        return Checkpoint(
            position=self._position,
            last_change=self._last_change,
            time=self._time,
            origins=dict(self._origins),
            definition=newest.definition,
            log_id=newest.log_id,
            changes_end=changes_end,
            complete=self._complete,
            stale_keys=frozenset(self._stale_keys),
            limits=newest.limits,
            numbers_since=known_log_time(newest.numbers_since),
            records=self._live,
            begin=newest.begin,
            changes_id=self.checkpoint.changes_id,
            reflected=dict(self._reflected),
            taken=dict(self._taken),
        )


def record_of(definition: TopicDefinition, change: Change, held: Record | None) -> Record | None:
    """Return the entry that a partition keeps for a record after a change; `held` is the previous entry."""
    is_kept = change.writes is not None or change.states is not None
    if change.body is None and not change.numbers and not is_kept:
        return None
    if change.key_text is not None:
        text = change.key_text
    elif change.body is None and held is not None:
        text = held.key_text
    else:
        text = definition.key_rule.text_of(change.sow_key, change.body or change.previous or b"{}")
    is_tombstone = change.body is None and not is_kept
    return record_after(change, text, change.partition_time if is_tombstone else change.time)
