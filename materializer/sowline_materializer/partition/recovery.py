"""Recovery: opening a partition from one of three sources, which lead to the same state.

1. The local store is complete: continue from its position. 2. It is gone or damaged: load the compacted changes
partition. 3. That is empty too: apply the log itself, if it still has its first record.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from sowline.changes.changes_reader import Phase
from sowline.changes.progress import PROGRESS_KEY, Begin
from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.model.limits import Limits
from sowline.model.position import Position
from sowline.native import raise_unless_panic
from sowline_materializer.core.checkpoint import EVERYTHING, Checkpoint
from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.partition.eras import Eras
from sowline_materializer.partition.kafka_partition import KafkaExtent, PartitionReader
from sowline_materializer.partition.opened import OpenedPartition, closed_on_failure
from sowline_materializer.partition.state_reset import StateReset
from sowline_materializer.partition.tail import read_tail
from sowline_materializer.store.integrity import verified
from sowline_materializer.store.rocksdb import RocksStore


class _Replaced(Exception):
    """The changes topic was deleted and created again while it was loaded."""


class Recovery:
    """Opens one partition's store from the first source that has its state.

    A `copy` is the local store if it is already open. `native` is the module of the native core. `ask` returns the
    present extent of the partition in Kafka. `first_since` returns the offset of the log's first record at or after a
    log time (ms). It is needed to recognize a log that was cut, and has grown again beyond the state's position.
    `first_era` returns the era that the log begins with.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - all that a partition is recovered from
        self,
        kafka: KafkaConfig,
        definition: TopicDefinition,
        partition: int,
        path: Path,
        extent: KafkaExtent,
        accept_loss: bool = False,
        starts_empty: bool = False,
        copy: RocksStore | None = None,
        ask: Callable[[], KafkaExtent] | None = None,
        first_since: Callable[[int], int] | None = None,
        native: ModuleType | None = None,
        first_era: Callable[[], int] = lambda: 0,
    ) -> None:
        self._native = native
        self._first_era = first_era
        self._definition = definition
        self._partition = partition
        self._path = path
        self._extent = extent
        self._accept_loss = accept_loss = accept_loss or starts_empty
        self._starts_empty = starts_empty
        self._copy = copy
        self._ask = ask or (lambda: extent)
        self._reader = reader = PartitionReader(kafka, definition, partition)
        self._eras = Eras(definition, reader, accept_loss=accept_loss, first_since=first_since)
        self._seen_at = time.monotonic()

    def open(self) -> OpenedPartition[RocksStore]:
        """Return the opened partition.

        Raise `definition changed` if the state was made under another definition, `changes incomplete` if the changes
        have no position and there is no local state, and `log incomplete` if records that no source has are gone from
        the log.
        """
        opened = self._from_store() or self._from_changes() or self._from_log()
        with closed_on_failure(opened.store):
            opened = self._of_definition(opened)
            # A partition in the middle of a reset has its era already. A second one would begin before the first has
            # ended all records (test_what_was_begun_is_finished).
            if opened.state_reset is not None:
                return opened
            in_era = self._eras.in_its_era(opened, self._extent)
            return in_era if in_era is opened else self._with_base(in_era)

    def _with_base(self, begun: OpenedPartition[RocksStore]) -> OpenedPartition[RocksStore]:
        """Return a partition that begins an era, stored if the changes lack records of its base."""
        if EVERYTHING not in begun.checkpoint.stale_keys:
            return begun
        # The power fails, the log and its changes lose their ends, and this owner dies while it fills the changes
        # again. By the era in them, the next owner would take its whole state for an old one, and load the half
        # (test_both_topics_lost_their_ends).
        checkpoint = replace(begun.checkpoint, holds_base=True)
        _keep(begun.store, replace(checkpoint, changes_end=begun.tail_start))
        return replace(begun, checkpoint=checkpoint)

    def _of_definition(self, opened: OpenedPartition[RocksStore]) -> OpenedPartition[RocksStore]:
        """Return the partition with the template of its documents; raise `definition changed`."""
        checkpoint = opened.checkpoint.under(self._definition)
        if checkpoint is None:
            raise SowlineError(
                "definition changed",
                f"expected the definition that made the state of topic {self._definition.name}, got another. Restore"
                f" {self._definition.deciding} in topics.yaml, or stop the materializers and run"
                " sowline rebuild",
            )
        if checkpoint is opened.checkpoint:
            return opened
        # Stored and reported at once. If the file had another template at the next start, nothing would show the one
        # that the documents have (test_the_template_of_an_older_state_is_recorded).
        checkpoint = replace(checkpoint, stale_keys=checkpoint.stale_keys | {PROGRESS_KEY})
        is_behind = checkpoint.position < opened.emitted_to
        end = checkpoint.changes_end
        stored = replace(checkpoint, changes_end=opened.tail_start, seen_end=end) if is_behind else checkpoint
        _keep(opened.store, stored)
        reset = opened.state_reset
        return replace(
            opened,
            checkpoint=checkpoint,
            state_reset=None if reset is None else replace(reset, checkpoint=checkpoint),
        )

    def reset_to(self, opened: OpenedPartition[RocksStore], offset: int) -> OpenedPartition[RocksStore]:
        """Return the partition at the beginning of an era with an empty base, from the log's `offset` on."""
        self._log.warning("a new era begins", why="the topic is transient")
        state_reset = StateReset.begun(opened.checkpoint, self._extent.log_id, offset)
        assert state_reset.checkpoint.position.era > opened.checkpoint.position.era, "a reset begins an era"
        return replace(opened, checkpoint=state_reset.checkpoint, state_reset=state_reset)

    def after_reset(
        self,
        opened: OpenedPartition[RocksStore],
        changes_end: int,
        written_by_others: frozenset[bytes] = frozenset(),
    ) -> OpenedPartition[RocksStore]:
        """Return the partition without its records. Kafka already has their deletions. The next era may follow.

        `written_by_others` are the keys that another process wrote between these deletions. Closes the store of
        `opened`.
        """
        assert opened.state_reset is not None, "a partition is emptied in a separate era"
        checkpoint = opened.state_reset.done(changes_end)
        assert checkpoint.records == 0, "a reset leaves no record"
        checkpoint = replace(checkpoint, stale_keys=checkpoint.stale_keys | written_by_others)
        opened.store.close()
        store = RocksStore(self._path, create=True)
        with closed_on_failure(store):
            self._finish(store, checkpoint)
            return self._eras.in_its_era(
                OpenedPartition(store, checkpoint, checkpoint.position), self._extent
            )

    # from the local store

    def _from_store(self) -> OpenedPartition[RocksStore] | None:
        if self._copy is None and not RocksStore.exists(self._path):
            return None
        try:
            store = self._copy or RocksStore(self._path, create=False)
        except StoreDamaged as damage:
            self._log.warning("local state is damaged", why=str(damage))
            return None
        try:
            with closed_on_failure(store):
                return self._checked(store)
        except StoreDamaged as damage:
            self._log.warning("local state is damaged", why=str(damage))
            return None

    def _checked(self, store: RocksStore) -> OpenedPartition[RocksStore] | None:
        checkpoint, found = verified(store, self._native)
        extent = self._extent
        replaced = checkpoint.has_lost_changes(extent.changes_id, extent.changes_end)
        # Another machine has kept its store. As the base of the new log's era, it would bring back all that was
        # dropped (test_a_store_that_outlived_its_topic).
        if replaced and checkpoint.log_id != extent.log_id and checkpoint.position.era < self._first_era():
            self._log.warning("local state is of a log that was dropped")
            store.close()
            return None
        # Normally the tail begins where the last commit saw the changes end. A replaced topic is read from its start:
        # nothing in it is known (test_a_changes_topic_that_was_replaced_is_filled_again).
        start = max(extent.changes_start, 0 if replaced else checkpoint.changes_end)
        events = self._reader.events(start, extent.changes_end)
        tail = read_tail(events, checkpoint.position, extent.changes_id, start)
        emitted_to, stale_keys = tail.newest, tail.stale_keys
        # More was emitted than this state holds: the previous owner died between emitting and committing. The log is
        # applied up to there without writing, unless it does not lead there. Then the state is dropped
        # (test_what_was_emitted_but_not_committed_is_not_emitted_again).
        is_behind = emitted_to > checkpoint.position
        if tail.is_of_another_begin(checkpoint):
            self._log.warning("another owner began this era")
            store.close()
            return None
        if is_behind and (self._starts_empty or not self._eras.leads_on(checkpoint, tail, extent)):
            self._log.warning("the log lacks records between the local state and the last emitted change")
            store.close()
            return None
        if replaced:
            self._log.warning("the changes topic was replaced")
        if tail.has_gap:
            self._log.warning("previous owner wrote to a changes topic that was replaced")
        if tail.is_unfilled:
            self._log.warning("the changes topic was left half filled")
        # The topic no longer holds the newest event of each record, and nothing shows which are missing. So each
        # record is written again, and the deletion of each key that the topic has and this state does not.
        if replaced or tail.has_gap or tail.is_unfilled or EVERYTHING in checkpoint.stale_keys:
            stale_keys = frozenset(
                {EVERYTHING, *(key for key in stale_keys | tail.live if store.get(key) is None)}
            )
        checkpoint = replace(
            checkpoint,
            changes_end=extent.changes_end,
            seen_end=0,
            changes_id=extent.changes_id,
            stale_keys=checkpoint.stale_keys | stale_keys,
        )
        # Committed at once: if the owner dies during the refill, the next one must not take the half-filled topic for
        # the one that this store knows (test_a_changes_topic_that_was_replaced_is_filled_again opens it twice).
        if replaced:
            _keep(store, replace(checkpoint, changes_end=0))
        return OpenedPartition(store, checkpoint, emitted_to, tail_start=start, tombstones=found.tombstones)

    # from the changes

    def _from_changes(self) -> OpenedPartition[RocksStore] | None:
        if self._extent.changes_start >= self._extent.changes_end:
            return None
        store = RocksStore(self._path, create=True)
        try:
            with closed_on_failure(store):
                return self._loaded(store)
        except _Replaced:
            return self._from_changes()
        except BaseException as error:
            raise_unless_panic(error, f"{self._definition.changes} [{self._partition}]")
        # Python, which is the specification, loads a store from the beginning.
        self._native = None
        return self._from_changes()

    def _loaded(self, store: RocksStore) -> OpenedPartition[RocksStore]:
        loader = ChangesLoader(store, self._definition, self._extent.changes_id, self._native)
        phase = self._load_up_to_end(loader, self._extent.changes_start)
        if loader.progress is None and not self._definition.has_sow:
            loader.stand_at_newest(self._extent.log_id)
        elif phase is not Phase.COMPLETE:
            raise SowlineError(
                "changes incomplete",
                f"{self._definition.changes} [{self._partition}] holds no position of its changes, or has lost the "
                "first of them, and there is no local state. Delete that topic: the materializer makes it again from "
                "the log",
            )
        checkpoint = replace(loader.checkpoint(self._extent.changes_end), changes_id=self._extent.changes_id)
        loader.finish()
        self._finish(store, checkpoint)
        self._log.warning("state loaded from the changes topic")
        state_reset = StateReset(checkpoint, checkpoint.position.nth + 1) if loader.is_resetting else None
        tombstones = None if loader.has_tombstones else ()
        return OpenedPartition(store, checkpoint, checkpoint.position, state_reset, tombstones=tombstones)

    def _load_up_to_end(self, loader: "ChangesLoader", start: int) -> Phase:
        """Load the changes from an offset on, until they are complete or there are no more."""
        while True:
            end = self._extent.changes_end
            native = self._native if loader.is_native else None
            batches = self._reader.changes_to_load(start, end, native)
            phase = loader.load_range(batches, end, self._seen_at)
            if phase is Phase.AIMING:
                self._log.warning("loading takes long; continuing to the current end")
            elif phase is Phase.COMPLETE or end <= start:
                return phase
            # Compaction continued during the load. A new target makes sure that no event was removed before its
            # successor was read (test_a_load_that_takes_long_goes_on).
            start, self._seen_at = max(start, end), time.monotonic()
            before, self._extent = self._extent.changes_id, self._ask()
            if self._extent.changes_id != before:
                raise _Replaced

    # from the log

    def _from_log(self) -> OpenedPartition[RocksStore]:
        if self._extent.log_start > 0 and self._definition.has_sow and not self._accept_loss:
            raise SowlineError(
                "log incomplete",
                f"{self._definition.log} [{self._partition}] begins at offset {self._extent.log_start}, and there is "
                "neither local state nor a changes topic for the records before it. To continue without them, start "
                "with --accept-loss",
            )
        start = Position(self._first_era(), self._extent.log_start - 1)
        limits = self._first_limits()
        checkpoint = Checkpoint(
            position=start,
            last_change=start,
            definition=self._definition.digest_with(limits.template),
            log_id=self._extent.log_id,
            changes_end=self._extent.changes_end,
            stale_keys=frozenset({PROGRESS_KEY}),
            limits=limits,
            begin=Begin(self._extent.log_start, 0, limits.schema),
            changes_id=self._extent.changes_id,
        )
        store = RocksStore(self._path, create=True)
        with closed_on_failure(store):
            self._finish(store, checkpoint)
        return OpenedPartition(store, checkpoint, start)

    def _first_limits(self) -> Limits:
        """Return the limits at the beginning of the log."""
        template = self._definition.limits.template
        limits = self._reader.limits_at(self._extent.log_start, self._extent.log_end, template)
        if limits is not None:
            return limits
        # Owners under an earlier reader schema may have emitted changes, and all state may be lost before the
        # `define` of a new one is on the log. Under the new one the same records would get other bodies
        # (test_a_reader_schema_that_changes).
        bodies = self._reader.bodies()
        first = None if bodies is None else bodies.resolutions.first_reader
        return self._definition.limits if first is None else replace(self._definition.limits, schema=first)

    def _finish(self, store: RocksStore, checkpoint: Checkpoint) -> None:
        _keep(store, checkpoint)
        assert store.checkpoint() is not None, "a finished store has a checkpoint"
        store.mark_finished()

    @property
    def _log(self) -> Any:
        return self._reader.logger


def _keep(store: RocksStore, checkpoint: Checkpoint) -> None:
    """Store a checkpoint of the records as they are."""
    store.commit({}, store.checksum(), checkpoint.encode())
