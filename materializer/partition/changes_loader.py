"""Loading a partition's state from its changes."""

from collections.abc import Iterable, Sequence
from itertools import repeat

from materializer.core.checkpoint import Checkpoint
from materializer.core.record import decode_record, encode_record
from materializer.partition.changes_follower import record_of
from materializer.store.bulk_load import BulkLoad
from materializer.store.interface import Store
from sowline.config.topics import TopicDefinition
from sowline.kafka.admin import compaction_lag_ms
from sowline.protocol.change import AGAIN, PROGRESS_KEY, RESET, Change, Event, Progress
from sowline.protocol.changes_loader import (
    UNKNOWN_OFFSET,
    LoadProgress,
    NewestEvents,
    RelativeAge,
    is_of,
)


class ChangesLoader:
    """Loads a changes partition into an empty store, by the rule of `sowline.protocol.changes_loader`.

    In addition to the records it collects the parts of a checkpoint: position, origins, times, and the keys to
    repair.
    """

    def __init__(self, store: Store, definition: TopicDefinition, changes_id: str = "") -> None:
        self._store = store
        self._definition = definition
        self._topic_id = changes_id
        self._newest_events = NewestEvents()
        self._newest: Change | None = None
        self._era = 0
        self._origins: dict[int, int] = {}
        self._time = 0
        self._live = 0
        self._reset_time = 0
        self.progress: Progress | None = None
        self.load_progress = LoadProgress(
            changes_id, compaction_lag_ms(definition) / 1000, definition.has_sow
        )
        self.stale_keys: set[bytes] = set()
        """Keys whose last event is not their newest: compaction would keep the wrong one."""

    def load(self, events: Sequence[Event], offsets: Iterable[int] = repeat(UNKNOWN_OFFSET)) -> None:
        """Load the next events, in the order of the topic's offsets."""
        entries = BulkLoad(self._store)
        self.load_progress.saw(events, offsets)
        for event in events:
            # An owner that has not noticed the replaced topic reports its position in the old one. Taken for the
            # position here, the records that it wrote there would be missing
            # (test_the_word_of_an_owner_that_knows_another_topic_counts_nothing).
            if not is_of(event, self._topic_id):
                continue
            self._newest_events.saw(event)
            if event.time > self._time:
                self._time = event.time
            if event.position.era > self._era:
                self._begin_era(event.position.era)
            if isinstance(event, Change):
                self._load_change(event, entries)
            else:
                self._load_progress(event)
        entries.commit()

    def _begin_era(self, era: int) -> None:
        """Forget the origins of eras that have ended: they are offsets of a log that no longer exists."""
        self._era, self._origins = era, {}

    def _load_progress(self, event: Progress) -> None:
        if self.progress is None or event.position >= self.progress.position:
            self.progress = event
        for partition, offset in event.origins.items():
            self._saw_origin(event, partition, offset)

    def _load_change(self, event: Change, entries: BulkLoad) -> None:
        key, has_sow = event.sow_key, self._definition.has_sow
        before = entries.get(key) if has_sow else None
        held = None if before is None else decode_record(before)
        relative_age = self._newest_events.relative_age(event, None if held is None else held.position)
        # A stalled owner of an ended era woke up and wrote this. It never was part of the state, but compaction keeps
        # it as the key's last event (test_what_comes_late_from_an_ended_era_counts_nothing).
        if relative_age is RelativeAge.ENDED:
            self.stale_keys.add(key)
            return
        self._note_change(event)
        if not has_sow:
            return
        # Older than the held event, but last in the topic: after compaction, a loader would find only this one.
        if relative_age is RelativeAge.OLDER:
            self.stale_keys.add(key)
            return
        self.stale_keys.discard(key)
        if relative_age is RelativeAge.EQUAL:
            return
        record = record_of(self._definition, event, held)
        entries.put(key, before, None if record is None else encode_record(record))
        self._live += (event.body is not None) - (held is not None and held.body is not None)
        self._newest_events.keep(event, is_stored=record is not None)

    def _note_change(self, event: Change) -> None:
        """Note the position, origins and times in a change of an era that has not ended."""
        # A repaired deletion has the position of the partition's last change, not its own position. It must not count
        # as the newest change.
        stands_for_none = event.op == AGAIN and event.body is None and event.key_text is None
        if not stands_for_none and (self._newest is None or event.position > self._newest.position):
            self._newest = event
        if event.origin is not None:
            self._saw_origin(event, *event.origin)
        if event.op == RESET:
            self._reset_time = max(self._reset_time, event.time)

    def _saw_origin(self, event: Event, partition: int, offset: int) -> None:
        # Origins are offsets of one log. Those of an ended era would drop records of the new log as repeats
        # (test_origins_of_an_ended_era_are_forgotten).
        if event.position.era == self._era:
            self._origins[partition] = max(offset, self._origins.get(partition, -1))

    def stand_at_newest(self, log_id: str) -> None:
        """Take the newest change for the partition's position: a topic without a SOW has nothing else."""
        assert self._newest is not None, "there is an event"
        position, definition = self._newest.position, self._definition
        self.progress = Progress(
            position=position,
            after=position,
            end=0,
            origins={},
            definition=definition.digest,
            log_id=log_id,
            time=self._time,
            outcomes={},
            limits=definition.limits,
        )

    @property
    def has_changes(self) -> bool:
        """Whether a change was loaded."""
        return self._newest is not None

    @property
    def is_whole(self) -> bool:
        """Whether the load ends after all changes of a log record, and not within a reset."""
        is_whole = self.load_progress.is_whole and self.progress is not None
        return is_whole and not self.is_resetting and self.checkpoint(0).complete

    @property
    def is_resetting(self) -> bool:
        """Whether the partition is being reset, and some of its records have not ended yet."""
        newest, progress = self._newest, self.progress
        if newest is None or progress is None or newest.op != RESET or newest.last:
            return False
        return newest.position >= progress.position

    def checkpoint(self, changes_end: int) -> Checkpoint:
        """Return the checkpoint of the loaded state."""
        assert self.progress is not None, "a changes partition begins with a progress event"
        last_change = max(self.progress.after, self._newest.position) if self._newest else self.progress.after
        position = max(self.progress.position, last_change)
        # One log record may delete many keys. If the topic ends within its changes, the next owner applies that
        # record again and writes the rest (test_a_record_cut_short_is_next_again).
        cut_short = self._newest is not None and position == self._newest.position and not self._newest.last
        return Checkpoint(
            position=position,
            last_change=last_change,
            time=self._time,
            origins=self._origins,
            definition=self.progress.definition,
            log_id=self.progress.log_id,
            changes_end=changes_end,
            complete=self.is_resetting or not cut_short,
            stale_keys=frozenset({PROGRESS_KEY, *self.stale_keys}),
            limits=self.progress.limits,
            numbers_since=max(self.progress.numbers_since, self._reset_time),
            records=self._live,
            begin=self.progress.begin if self.progress.position.era == position.era else None,
        )
