"""A warm copy of one partition that another worker owns: its store, kept up with the changes topic in portions.

It goes through three stages. A store that is there is **checked**, as at every open. Then it **follows** the changes,
each after the one before. Where that can't be, for there is no store, or the changes do not lead on from it, they are
**loaded** beside it, the newest of each key, and what was loaded takes its place once it is whole: until then what is
there may be all that there is.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import structlog

from materializer.damage import StoreDamaged
from materializer.following import Follower, Gap
from materializer.head import EVERYTHING, Head
from materializer.record import decode_record
from materializer.recovery import Loader, head_of
from materializer.store import RocksStore, Tally, delete_store
from materializer.view import due_hash, entry_hash
from sowline.change import Event
from sowline.topics import TopicDefinition

log = structlog.get_logger()

BEGINNING = 0
"""The offset from which changes are loaded, or the first that is left."""


class Written(NamedTuple):
    """An event and its offset in the changes partition."""

    offset: int
    event: Event


class PartitionCopy:
    """The copy of one partition; `topic_id` tells Kafka's id of a topic.

    Whoever keeps it hands it the changes from `reads_from` on, in order.

    A `store` that is given is open, and was checked when it was opened. What raises leaves a copy that can only be
    closed: `StoreDamaged`, `StoreInUse`, or whatever is wrong with an event.
    """

    def __init__(
        self,
        definition: TopicDefinition,
        number: int,
        path: Path,
        topic_id: Callable[[str], str],
        store: RocksStore | None = None,
    ) -> None:
        self._definition = definition
        self._number = number
        self._path = path
        self._beside = path.with_name(f"{path.name}.loading")
        self._topic_id = topic_id
        self._changes_id = ""
        self._is_checked = store is not None
        self._store = store
        self._check: _Check | None = None
        self._follower: Follower | None = None
        self._loader: Loader | None = None
        self._loading: RocksStore | None = None
        self._head = Head()
        self._whole_at: int | None = None
        self._is_empty = True
        self.next_offset = BEGINNING
        self.has_caught_up = False
        """Whether it has taken in all that the changes held at some moment, since it is followed or loaded."""

    @property
    def is_warm(self) -> bool:
        """Whether it follows: to take it over costs no more than what it has not followed yet."""
        return self._follower is not None

    @property
    def reads_from(self) -> int | None:
        """The offset of the changes that it needs next; None while it is checked, which needs none."""
        return None if self._check is not None else self.next_offset

    def begin(self, anew: bool = False) -> None:
        """Begin with the store that is there, or else to load one; `anew` if what is there is of no use."""
        delete_store(self._beside)
        if self._store is None and not anew and RocksStore.exists(self._path):
            self._store = RocksStore(self._path, create=False)
        if self._store is None:
            self._load()
        else:
            self._begin_check(self._store)

    def _begin_check(self, store: RocksStore) -> None:
        """Begin with the head, which may be of a form that is not to be touched."""
        self._head = head_of(store)
        self._changes_id = self._topic_id(self._definition.changes)
        self._check = _Check(store)

    def check(self, entries_max: int) -> bool:
        """Check some of the store, and tell whether that is all of it: then it follows the changes or is loaded."""
        assert self._check is not None, "the store is being checked"
        assert self._store is not None, "there is a store to check"
        if not self._check.go_on(entries_max):
            return False
        found, remembered = self._check.result()
        self._check = None
        if found != self._store.tally():
            raise StoreDamaged(f"expected {self._store.tally()}, found {found}")
        self._is_checked = True
        head = self._head
        if EVERYTHING in head.spoiled or head.changes_id not in ("", self._changes_id):
            self._load("the changes topic was replaced")
        else:
            head = replace(head, changes_id=self._changes_id)
            self._follower = Follower(self._definition, self._store, head, remembered)
            self.next_offset = head.changes_end
        return True

    def take(self, written: Sequence[Written], end: int) -> bool:
        """Take in the next changes; `end` is where the partition ends by now.

        Returns whether to go on with what comes after them; otherwise from `reads_from` on.
        """
        if self._follower is not None:
            return self._follow(self._follower, written, end)
        assert self._loader is not None, "what does not follow is loaded"
        if self._whole_at is None:
            self._whole_at = end
        self._loader.load([event for _, event in written], [offset for offset, _ in written])
        self._is_empty = False
        self._took_up_to(written[-1].offset + 1, end)
        return not self._is_whole() or self._finish()

    def _took_up_to(self, offset: int, end: int) -> None:
        self.next_offset = offset
        self.has_caught_up = self.has_caught_up or offset >= end

    def _follow(self, follower: Follower, written: Sequence[Written], changes_end: int) -> bool:
        end = written[-1].offset + 1
        try:
            if end - self.next_offset > len(written):
                raise Gap(
                    f"expected {end - self.next_offset} changes from {self.next_offset} on, got {len(written)}"
                )
            follower.follow([event for _, event in written], end)
        except Gap as gap:
            self._follower = None
            self._load(str(gap))
            return False
        self._took_up_to(end, changes_end)
        return True

    def is_of(self, changes_id: str) -> bool:
        """Tell whether it reads the topic of changes that has this id; one that is still checked reads none."""
        return self._check is not None or changes_id == self._changes_id

    def reload(self, why: str) -> None:
        """Load anew, for the changes partition is not the one that was read so far."""
        self._follower = None
        self._load(why)

    # loading

    def _load(self, why: str = "there is no local state") -> None:
        log.info("a copy is loaded", topic=self._definition.name, partition=self._number, why=why)
        self._close_loading()
        self._changes_id = self._topic_id(self._definition.changes)
        self._loading = RocksStore(self._beside, create=True)
        self._loader = Loader(self._loading, self._definition, self._changes_id)
        self._whole_at, self._is_empty, self.has_caught_up = None, True, False
        self.next_offset = BEGINNING

    def ended(self, offset: int) -> bool:
        """Take note that the changes end at `offset` for now, perhaps with holes. Returns as `take` does."""
        self.has_caught_up = True
        if self._loader is None:
            return True
        self.next_offset = max(self.next_offset, offset)
        self._whole_at = min(offset, self._whole_at if self._whole_at is not None else offset)
        return not self._is_whole() or self._finish()

    def _is_whole(self) -> bool:
        """Tell whether the load has come to where the changes ended when it began, and knows where they stand."""
        assert self._loader is not None, "it is loaded"
        assert self._whole_at is not None, "the end was seen"
        loader = self._loader
        if self._is_empty or self.next_offset < self._whole_at or loader.is_emptying:
            return False
        if loader.progress is None and not self._definition.has_sow:
            loader.stand_at_newest(self._topic_id(self._definition.log))
            return True
        return loader.wholeness.is_whole

    def _finish(self) -> bool:
        """Put what was loaded in the place of what is there, and check it."""
        assert self._loader is not None, "it was loaded"
        assert self._loading is not None, "it was loaded"
        head = replace(self._loader.head(self.next_offset), changes_id=self._changes_id)
        store = self._loading
        store.commit({}, store.tally(), head.encode())
        store.mark_finished()
        self.close()
        self._replace()
        self._store = RocksStore(self._path, create=False)
        self._begin_check(self._store)
        return False

    def _replace(self) -> None:
        delete_store(self._path)
        self._beside.rename(self._path)

    # the end of it

    def hand_over(self) -> RocksStore | None:
        """Give the open store away, if it is known to be whole; the copy is no more."""
        store = self._store if self._is_checked else None
        if store is not None:
            self._store = None
        self.close()
        return store

    def close(self) -> None:
        """Let go of the files."""
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


class _Check:
    """A walk through a store in portions: what its tally should be, and the deleted records that it remembers."""

    def __init__(self, store: RocksStore) -> None:
        self._hashes = self._walk(store)
        self._entries = self._checksum = 0
        self._remembered: list[tuple[int, bytes]] = []

    def _walk(self, store: RocksStore) -> Generator[int, None, None]:
        for key, data in store.scan():
            if not data[0]:
                self._remembered.append((decode_record(data).time, key))
            yield entry_hash(key, data)
        for due in store.dues():
            yield due_hash(due)

    def go_on(self, entries_max: int) -> bool:
        """Look at the next entries and tell whether they were the last."""
        hashes = list(islice(self._hashes, entries_max))
        self._entries += len(hashes)
        self._checksum += sum(hashes)
        return len(hashes) < entries_max

    def close(self) -> None:
        """Let go of the store: as long as somebody reads from it, its files are not closed."""
        self._hashes.close()

    def result(self) -> tuple[Tally, list[tuple[int, bytes]]]:
        """Return the tally, and the remembered records as (log time in ms, SOW key), oldest first."""
        return Tally(self._entries, self._checksum & 0xFFFFFFFFFFFFFFFF), sorted(self._remembered)
