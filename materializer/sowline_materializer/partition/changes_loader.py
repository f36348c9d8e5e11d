"""Loading a partition's state from its changes."""

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from types import ModuleType
from typing import Any, NamedTuple

from confluent_kafka import Message

from sowline.changes.change import AGAIN, RESET, Change
from sowline.changes.changes_reader import ChangesReader, Phase
from sowline.changes.event import Event
from sowline.changes.progress import PROGRESS_KEY, Progress
from sowline.changes.ranking import NewestEvents, RelativeAge
from sowline.changes.wholeness import UNKNOWN_OFFSET, is_of
from sowline.commands.command import PUBLISH
from sowline.config.topic_definition import TopicDefinition
from sowline.kafka.messages import columns_of, event_of
from sowline.kafka.topic_settings import compaction_lag_ms
from sowline.model.log_time import known_log_time
from sowline.model.position import Position, position_of
from sowline.native import share
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import decode_record, encode_record
from sowline_materializer.partition.changes_follower import record_of
from sowline_materializer.partition.kafka_partition import offsets_of
from sowline_materializer.store.bulk_load import PENDING_BYTES_MAX, BulkLoad, LoadState, NativeBulkLoad
from sowline_materializer.store.interface import DiskStore
from sowline_materializer.store.native_overlay import plain_key_paths


class _Newest(NamedTuple):
    """The newest change of a load."""

    position: Position
    op: str
    last: bool


class ChangesLoader:
    """Loads a changes partition into an empty store, by the rule of `sowline.changes.changes_reader`.

    In addition to the records it collects the parts of a checkpoint: position, origins, times, and the keys to
    repair. `native` is the module of the native core, which loads plain changes of topics that it knows; Python loads
    all others, with the same result. At most about `pending_bytes_max` of entries are kept in memory.
    """

    def __init__(
        self,
        store: DiskStore,
        definition: TopicDefinition,
        changes_id: str = "",
        native: ModuleType | None = None,
        pending_bytes_max: int = PENDING_BYTES_MAX,
    ) -> None:
        self._native: NativeBulkLoad | None = None
        if native is not None and (paths := plain_key_paths(definition)) is not None:
            self._native = NativeBulkLoad(native, paths, store, pending_bytes_max)
        self._entries = self._native or BulkLoad(store, pending_bytes_max)
        self._definition = definition
        self._topic_id = changes_id
        self._newest_events = NewestEvents()
        self._newest: _Newest | None = None
        self._era = 0
        self._origins: dict[int, int] = {}
        self._reflects: dict[int, Change] = {}
        """The newest change that names a source partition of a view, by that partition."""
        self._time = 0
        self._live = 0
        self._reset_time = 0
        self.progress: Progress | None = None
        self.reader = ChangesReader(changes_id, compaction_lag_ms(definition) / 1000, definition.has_sow)
        self.stale_keys: set[bytes] = set()
        """Keys whose last event is not their newest: compaction would keep the wrong one."""
        self.has_tombstones = False
        """Whether a deleted record was stored for its publishers' numbers; it may be gone again."""

    def load_messages(self, messages: Sequence[Message]) -> None:
        """Load the next messages of the topic, in the order of their offsets.

        They are a list of Python's messages, or a batch of the native reader.
        """
        native = self._native
        if native is None:
            self.load([event_of(message) for message in messages], offsets_of(messages))
            return
        source: Any = messages
        if isinstance(messages, list):
            source = tuple(columns_of(messages, "key", "value", "headers", "offset"))

        def load_others(start: int, stop: int) -> None:
            some = messages[start:stop]
            self.load([event_of(message) for message in some], offsets_of(some))

        share(len(messages), partial(self._load_plain, native, source), load_others)

    def _load_plain(self, native: NativeBulkLoad, messages: Any, start: int) -> int:
        """Load plain changes of the current era from `start` on; return the index of the first message after them."""
        newest_events, wholeness = self._newest_events, self.reader.wholeness
        if newest_events.era != self._era or wholeness is None or not wholeness.has_position:
            return start
        newest = None if self._newest is None else self._newest.position
        state = LoadState(self._era, newest, self._time, self._live, wholeness.state)
        after = native.load(messages, start, state, newest_events.ranks, self.stale_keys)
        self._time, self._live, wholeness.state = after.time, after.live, after.wholeness
        if after.newest is not None and after.newest != newest:
            self._newest = _Newest(position_of(after.newest), PUBLISH, True)
        end: int = after.end
        assert end >= start, "the native core loads from the start on"
        assert self._live >= 0, "a count of live records is never negative"
        return end

    def load_range(self, batches: Iterable[Sequence[Message]], end: int, seen_at: float) -> Phase:
        """Load the messages up to `end`, which was the end of the partition at `seen_at`; return the phase then."""
        self.reader.aim(end, seen_at)
        for messages in batches:
            self.load_messages(messages)
            # While the next ones are read, these would be in memory too.
            del messages
        self.reader.read_up_to(end)
        return self.reader.look(time.monotonic())

    def load(self, events: Sequence[Event], offsets: Iterable[int] = repeat(UNKNOWN_OFFSET)) -> None:
        """Load the next events, in the order of the topic's offsets."""
        self.reader.saw(events, offsets)
        for event in events:
            # An owner that has not noticed the replaced topic reports its position in the old one. Taken for the
            # position here, the records that it wrote there would be missing
            # (test_the_word_of_an_owner_that_knows_another_topic_counts_nothing).
            if not is_of(event, self._topic_id):
                continue
            self._newest_events.saw(event)
            self._time = max(self._time, event.partition_time)
            if event.position.era > self._era:
                self._begin_era(event.position.era)
            if isinstance(event, Change):
                self._load_change(event)
            else:
                self._load_progress(event)

    def finish(self) -> None:
        """Write what was loaded to the store. It is complete with a checkpoint."""
        self._entries.finish()

    def _begin_era(self, era: int) -> None:
        """Forget the origins of eras that have ended: they are offsets of a log that no longer exists."""
        assert era > self._era, "eras follow each other"
        self._era, self._origins = era, {}

    def _load_progress(self, event: Progress) -> None:
        assert event.position.era <= self._era, "an era has begun before its events are loaded"
        if self.progress is None or event.position >= self.progress.position:
            self.progress = event
        for partition, offset in event.origins.items():
            self._saw_origin(event, partition, offset)

    def _load_change(self, event: Change) -> None:
        entries = self._entries
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
        if record is not None and record.is_forgettable:
            self.has_tombstones = True
        entries.put(key, before, None if record is None else encode_record(record))
        self._live += (record is not None and record.is_live) - (held is not None and held.is_live)
        assert self._live >= 0, "a count of live records is never negative"
        self._newest_events.keep(event, is_stored=record is not None)

    def _note_change(self, event: Change) -> None:
        """Note the position, origins and times in a change of an era that has not ended."""
        # A repaired deletion has the position of the partition's last change, not its own position. It must not count
        # as the newest change.
        stands_for_none = event.op == AGAIN and event.body is None and event.key_text is None
        if not stands_for_none and (self._newest is None or event.position > self._newest.position):
            self._newest = _Newest(event.position, event.op, event.last)
            assert event.position.era <= self._era, "an era has begun before its events are loaded"
        if event.origin is not None:
            self._saw_origin(event, *event.origin)
        if event.reflects is not None:
            held = self._reflects.get(event.reflects[0])
            if held is None or event.position > held.position:
                self._reflects[event.reflects[0]] = event
        if event.op == RESET:
            self._reset_time = max(self._reset_time, event.partition_time)

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

    def _reflected(self, progress: Progress) -> dict[int, Position]:
        """Return what a view reflects: what the newest progress event reports, and the changes after it."""
        newer = {
            change.reflects[0]: change.reflects[1] for change in self._behind(progress) if change.reflects
        }
        return {**progress.reflected, **newer} if progress.position.era == self._era else newer

    def _taken(self, progress: Progress) -> dict[int, str]:
        """Return the same in positions of the source and the joined topics, for a view with joins."""
        newer = {
            change.reflects[0]: change.taken
            for change in self._behind(progress)
            if change.reflects and change.taken is not None
        }
        return {**progress.taken, **newer} if progress.position.era == self._era else newer

    def _behind(self, progress: Progress) -> Iterator[Change]:
        """Yield, for each source partition of a view, the newest change after a progress event that names it."""
        # A rebuild begins with nothing. The reports of events before it no longer count, even if it has not reported
        # its begin yet (test_a_rebuild_that_is_interrupted_reflects_nothing).
        for change in self._reflects.values():
            if change.position > progress.position and change.position.era == self._era:
                yield change

    @property
    def is_native(self) -> bool:
        """Whether the native core loads plain changes."""
        return self._native is not None

    @property
    def has_changes(self) -> bool:
        """Whether a change was loaded."""
        return self._newest is not None

    @property
    def is_whole(self) -> bool:
        """Whether the load ends after all changes of a log record, and not within a reset."""
        is_whole = self.reader.is_whole and self.progress is not None
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
            reflected=self._reflected(self.progress),
            taken=self._taken(self.progress),
            definition=self.progress.definition,
            log_id=self.progress.log_id,
            changes_end=changes_end,
            complete=self.is_resetting or not cut_short,
            stale_keys=frozenset({PROGRESS_KEY, *self.stale_keys}),
            limits=self.progress.limits,
            numbers_since=max(known_log_time(self.progress.numbers_since), self._reset_time),
            records=self._live,
            begin=self.progress.begin if self.progress.position.era == position.era else None,
        )
