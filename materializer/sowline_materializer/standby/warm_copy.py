"""A warm copy of one partition that another worker owns: its store, kept up with the changes topic in portions.

It goes through three stages. An existing store is **checked**, as at every open. Then it **follows** the changes,
each after the one before. If there is no store, or the changes do not continue it, the newest change of each key is
**loaded** into a second store. The second store replaces the first one once it is complete; until then the first one
may be the only state.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

import structlog

from sowline.changes.changes_reader import ChangesMissing, Phase
from sowline.changes.event import Event
from sowline.config.topic_definition import TopicDefinition
from sowline.model.limits import MIB
from sowline_materializer.core.checkpoint import EVERYTHING, Checkpoint
from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.partition.changes_follower import ChangesFollower
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.store.integrity import Walk, checkpoint_of
from sowline_materializer.store.rocksdb import RocksStore, delete_store

log = structlog.get_logger()

LOAD_BYTES_MAX: Final = 8 * MIB
"""How much each copy that is loaded keeps in memory. All copies may be loaded at once."""

BEGINNING = 0
"""Where to load changes from: the first offset that Kafka still has."""


class ReadEvent(NamedTuple):
    """An event and its offset in the changes partition."""

    offset: int
    event: Event


class WarmCopy:
    """The copy of one partition; `topic_id` returns Kafka's id of a topic, of the changes with their start.

    Its `Standby` passes it the changes from `reads_from` on, in order. A `store` that is given is open, and was
    checked when it was opened. `native` is the module of the native core. After an error (`StoreDamaged`,
    `StoreInUse`, or an invalid event) a copy can only be closed.
    """

    def __init__(
        self,
        definition: TopicDefinition,
        number: int,
        path: Path,
        topic_id: Callable[[str], str],
        store: RocksStore | None = None,
        native: ModuleType | None = None,
    ) -> None:
        self._native = native
        self._definition = definition
        self._number = number
        self._path = path
        self._loading_path = path.with_name(f"{path.name}.loading")
        self._topic_id = topic_id
        self._changes_id = ""
        self._is_checked = store is not None
        self._store = store
        self._check: Walk | None = None
        self._follower: ChangesFollower | None = None
        self._loader: ChangesLoader | None = None
        self._loading: RocksStore | None = None
        self._checkpoint = Checkpoint()
        self.next_offset = BEGINNING
        self.has_caught_up = False
        """Whether it has applied all changes up to some moment since it last began to load."""

    @property
    def is_warm(self) -> bool:
        """Whether it follows the changes: a takeover then costs no more than the changes it has not applied."""
        return self._follower is not None

    @property
    def reads_from(self) -> int | None:
        """The offset of the changes that it needs next; None while it is checked, which needs none."""
        return None if self._check is not None else self.next_offset

    def begin(self, discard: bool = False) -> None:
        """Check the existing store, or load a new one; with `discard`, load also if a store exists."""
        delete_store(self._loading_path)
        if self._store is None and not discard and RocksStore.exists(self._path):
            self._store = RocksStore(self._path, create=False)
        if self._store is None:
            self._load()
        else:
            self._begin_check(self._store)

    def _begin_check(self, store: RocksStore) -> None:
        """Start with the checkpoint, which shows whether this version can read the store."""
        assert self._check is None, "a store is checked once"
        self._checkpoint = checkpoint_of(store)
        self._changes_id = self._topic_id(self._definition.changes)
        self._check = Walk(store, self._native)

    def check(self) -> bool:
        """Check the next portion; return whether all are checked: then the copy follows the changes or is loaded."""
        assert self._check is not None, "the store is being checked"
        assert self._store is not None, "there is a store to check"
        if not self._check.go_on():
            return False
        found, tombstones = self._check.result()
        self._check = None
        # The disk lost an entry while the worker was down: the copy would follow, be handed over, and miss that
        # record permanently. A damaged copy is loaded again.
        if found != self._store.checksum():
            raise StoreDamaged(f"expected {self._store.checksum()}, found {found}")
        self._is_checked = True
        checkpoint = self._checkpoint
        # The offsets of a store belong to one changes topic. `store at offset 900, topic created again with 300
        # events`: to follow from 900 would skip all of them.
        if EVERYTHING in checkpoint.stale_keys or checkpoint.changes_id not in ("", self._changes_id):
            self._load("the changes topic was replaced")
        else:
            checkpoint = replace(checkpoint, changes_id=self._changes_id)
            self._follower = ChangesFollower(self._definition, self._store, checkpoint, tombstones)
            self.next_offset = checkpoint.changes_end
        return True

    def take(self, written: Sequence[ReadEvent], end: int) -> bool:
        """Apply the next changes; `end` is the present end of the partition.

        Return whether to continue with the changes after them; if not, continue at `reads_from`.
        """
        if self._follower is not None:
            return self._follow(self._follower, written, end)
        assert self._loader is not None, "what does not follow is loaded"
        self._aim(self._loader, end)
        self._loader.load([event for _, event in written], [offset for offset, _ in written])
        self._took_up_to(written[-1].offset + 1, end)
        self._loader.reader.read_up_to(self.next_offset)
        return not self._is_whole(self._loader, end) or self._finish()

    def _took_up_to(self, offset: int, end: int) -> None:
        assert offset >= self.next_offset, "a copy does not go back"
        self.next_offset = offset
        self.has_caught_up = self.has_caught_up or offset >= end

    def _follow(self, follower: ChangesFollower, written: Sequence[ReadEvent], changes_end: int) -> bool:
        end = written[-1].offset + 1
        try:
            # Missing offsets are compacted events. The copy can't show that it has each newest event, so it is loaded
            # again (test_in_doubt_there_is_a_gap).
            if end - self.next_offset > len(written):
                raise ChangesMissing(
                    f"expected {end - self.next_offset} changes from {self.next_offset} on, got {len(written)}"
                )
            follower.follow([event for _, event in written], end)
        except ChangesMissing as gap:
            self._follower = None
            self._load(str(gap))
            return False
        self._took_up_to(end, changes_end)
        return True

    def is_of(self, changes_id: str) -> bool:
        """Return whether the copy reads the changes topic with this id; one that is being checked reads none."""
        return self._check is not None or changes_id == self._changes_id

    def reload(self, why: str) -> None:
        """Load again, because the changes partition is not the one that was read so far."""
        self._follower = None
        self._load(why)

    # loading

    def _load(self, why: str = "there is no local state") -> None:
        log.info("warm copy opened", topic=self._definition.name, partition=self._number, why=why)
        assert self._follower is None, "a copy follows the changes or loads them"
        self._close_loading()
        self._changes_id = self._topic_id(self._definition.changes)
        self._loading = RocksStore(self._loading_path, create=True)
        self._loader = ChangesLoader(
            self._loading, self._definition, self._changes_id, self._native, LOAD_BYTES_MAX
        )
        self.has_caught_up = False
        self.next_offset = BEGINNING

    def ended(self, offset: int) -> bool:
        """Note that the changes end at `offset` for now, perhaps with holes. Returns what `take` returns."""
        self.has_caught_up = True
        if self._loader is None:
            return True
        self.next_offset = max(self.next_offset, offset)
        self._aim(self._loader, offset)
        self._loader.reader.at_end(offset)
        return not self._is_whole(self._loader, offset) or self._finish()

    @staticmethod
    def _aim(loader: ChangesLoader, end: int) -> None:
        """Set the target of a load that has none."""
        if loader.reader.phase is Phase.AIMING:
            loader.reader.aim(end, time.monotonic())

    def _is_whole(self, loader: ChangesLoader, end: int) -> bool:
        """Return whether the load is complete; one that took too long continues to the present `end`."""
        phase = loader.reader.look(time.monotonic())
        if phase is Phase.AIMING:
            log.warning(
                "loading takes long; continuing to the current end",
                topic=self._definition.name,
                partition=self._number,
            )
            self._aim(loader, max(end, self.next_offset))
            phase = loader.reader.look(time.monotonic())
        if phase is not Phase.COMPLETE or loader.is_resetting:
            return False
        if loader.progress is None:
            return self._stand_at_newest(loader)
        return True

    def _stand_at_newest(self, loader: ChangesLoader) -> bool:
        """End the load of a topic without a SOW at its newest message; return whether there is one."""
        if not loader.has_changes:
            return False
        loader.stand_at_newest(self._topic_id(self._definition.log))
        return True

    def _finish(self) -> bool:
        """Replace the existing store by the loaded one, and check it; load again if the topic's head is gone."""
        assert self._loader is not None, "it was loaded"
        assert self._loading is not None, "it was loaded"
        # The load began at the first offset that Kafka had then, perhaps after the one that was asked for. A copy
        # without the deleted events would be taken for complete (test_a_head_that_is_deleted_during_a_load).
        if self._topic_id(self._definition.changes) != self._changes_id:
            self._load("the changes topic was replaced, or a part of it was deleted")
            return False
        checkpoint = replace(self._loader.checkpoint(self.next_offset), changes_id=self._changes_id)
        self._loader.finish()
        store = self._loading
        store.commit({}, store.checksum(), checkpoint.encode())
        store.mark_finished()
        self.close()
        self._replace()
        # Check a loaded store as well before it is handed over: the disk may not return what it was given.
        self._store = RocksStore(self._path, create=False)
        self._begin_check(self._store)
        return False

    def _replace(self) -> None:
        # Only now: if the worker dies during a load, the old state is still there for its recovery
        # (test_the_old_state_stays_until_the_new_is_whole).
        delete_store(self._path)
        self._loading_path.rename(self._path)

    # the end of it

    def hand_over(self) -> RocksStore | None:
        """Give the open store away, if it is known to be complete; the copy ends."""
        # An unchecked store may be damaged, and the new owner would not check it again
        # (test_what_is_not_checked_yet_is_not_handed_over, test_an_unfinished_load_is_not_handed_over).
        store = self._store if self._is_checked else None
        if store is not None:
            self._store = None
        self.close()
        return store

    def close(self) -> None:
        """Close the files."""
        if self._check is not None:
            self._check.close()
        self._check = self._follower = None
        self._close_loading()
        if self._store is not None:
            self._store.close()
            self._store = None
        self._is_checked = False

    def _close_loading(self) -> None:
        self._loader = None
        if self._loading is not None:
            self._loading.close()
            self._loading = None
