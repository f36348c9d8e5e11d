"""The state machine of stores: reads see every commit, a crash loses only what was not flushed. Each kind runs it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sowline_materializer.store.checksum import Checksum
from sowline_materializer.store.interface import EXPIRY, RECORD, EntryFile, in_key_order
from sowline_materializer.store.write_behind import WriteBehindStore
from tests.memory_store import MemoryStore

KEYS = [b"", b"a", b"b", b"c", b"\xff"]
ENTRIES = st.dictionaries(st.sampled_from(KEYS), st.none() | st.binary(max_size=2), max_size=4)
STORED = st.dictionaries(st.sampled_from(KEYS), st.binary(max_size=2), max_size=4)
EXPIRIES = st.dictionaries(st.sampled_from(KEYS), st.booleans(), max_size=3)

Commit = tuple[dict[bytes, bytes | None], Checksum, bytes, dict[bytes, bool]]
"""Entries, checksum, checkpoint and due times."""


class Content(NamedTuple):
    """The content of a store, with nothing of its implementation: the model that each store is compared with."""

    entries: dict[bytes, bytes]
    due: frozenset[bytes]
    checksum: Checksum
    checkpoint: bytes | None

    def after(
        self,
        writes: dict[bytes, bytes | None],
        checksum: Checksum,
        checkpoint: bytes,
        expiries: dict[bytes, bool],
    ) -> "Content":
        """Return the content after a commit."""
        entries = {key: data for key, data in {**self.entries, **writes}.items() if data is not None}
        removed = {due for due, is_there in expiries.items() if not is_there}
        return Content(entries, (self.due | expiries.keys()) - removed, checksum, checkpoint)

    def answers(self) -> tuple[Any, ...]:
        """Return what a store with this content answers to each of its reads, in the order of `answers_of`."""
        due = sorted(self.due)
        values = [self.entries.get(key) for key in KEYS]
        portions = [(EXPIRY + key, b"") for key in due]
        portions += [(RECORD + key, data) for key, data in sorted(self.entries.items())]
        return (
            sorted(self.entries.items()),
            due,
            [key for key in due if key >= b"b"],
            values,
            values,
            portions,
            self.checkpoint,
            self.checksum,
        )


EMPTY = Content({}, frozenset(), Checksum(), None)


def answers_of(store: Any) -> tuple[Any, ...]:
    """Return the answers of a store to each of its reads."""
    return (
        list(store.scan()),
        list(store.expiries()),
        list(store.expiries(b"b")),
        [store.get(key) for key in KEYS],
        store.get_many(KEYS),
        [entry for portion in store.portions() for entry in portion],
        store.checkpoint(),
        store.checksum(),
    )


class LoadedEntries(dict[bytes, bytes]):
    """The records of a load, in the order of their keys."""

    def write_to(self, file: EntryFile) -> None:
        """Write all of them."""
        for key in sorted(self):
            file[RECORD + key] = self[key]


class Disk:
    """The files of one kind of store. This kind keeps them in memory, where a crash loses nothing."""

    def __init__(self) -> None:
        self.store = self.created()

    def created(self) -> Any:
        """Return a new store."""
        return MemoryStore()

    def first_commit(self) -> None:
        """Note that the store has its first commit."""

    def crash(self) -> None:
        """Let the process die, and open the store in the next one."""

    def reader(self) -> AbstractContextManager[Any]:
        """Return the store to read from."""
        return nullcontext(self.store)

    def close(self) -> None:
        """Remove the files."""


class StoreMachine(RuleBasedStateMachine):
    """Loads, commits and crashes of a store on a disk: each commit is there, and a crash loses none."""

    kind: ClassVar[type[Disk]] = Disk

    def __init__(self) -> None:
        super().__init__()
        self.disk = self.kind()
        self.store = self.opened()
        self.commits = 0
        self.expected = self.flushed = EMPTY

    def opened(self) -> Any:
        """Return the store to commit to."""
        return self.disk.store

    def flush_store(self) -> None:
        """Move all commits to the disk; here each is there by itself."""

    @precondition(lambda self: self.commits == 0)
    @rule(records=STORED)
    def load(self, records: dict[bytes, bytes]) -> None:
        """Load a new store; without the commit that follows, a load is worth nothing."""
        self.disk.store.load(LoadedEntries(records), Checksum(len(records), 3))
        self.expected = self.expected._replace(entries={**records})
        self.store = self.opened()
        self.commit({}, {})
        self.flush()

    @rule(entries=ENTRIES, expiries=EXPIRIES)
    def commit(self, entries: dict[bytes, bytes | None], expiries: dict[bytes, bool]) -> None:
        """Commit some entries and due times."""
        made = self.next_commit(entries, expiries)
        self.store.commit(*made)
        self.committed(made)

    def next_commit(self, entries: dict[bytes, bytes | None], expiries: dict[bytes, bool]) -> Commit:
        """Return a commit of entries and due times."""
        self.commits += 1
        return entries, Checksum(self.commits, 7), b"%d" % self.commits, expiries

    def committed(self, made: Commit) -> None:
        """Note a commit."""
        self.expected = self.flushed = self.expected.after(*made)
        if self.commits == 1:
            self.disk.first_commit()

    @rule()
    def flush(self) -> None:
        """Flush: a crash loses nothing of what came before."""
        self.flush_store()
        self.flushed = self.expected

    @precondition(lambda self: self.flushed.checkpoint is not None)
    @rule()
    def crash(self) -> None:
        """Continue with what the next process finds: the last flush, whole."""
        self.disk.crash()
        self.store, self.expected = self.opened(), self.flushed

    @rule(steps=st.integers(0, 4), entries=ENTRIES, flushes=st.booleans())
    def commit_during_a_scan(self, steps: int, entries: dict[bytes, bytes | None], flushes: bool) -> None:
        """A scan that has begun is of its instant, also across a flush."""
        before = sorted(self.expected.entries.items())
        scan: Iterator[tuple[bytes, bytes]] = self.store.scan()
        begun = [one for _, one in zip(range(steps), scan, strict=False)]
        if begun:
            self.commit(entries, {})
            if flushes:
                self.flush()
            assert begun + list(scan) == before

    @invariant()
    def reads_see_every_commit(self) -> None:
        """Each read of the store has the last commit."""
        assert answers_of(self.store) == self.expected.answers()

    @invariant()
    def disk_has_each_flush(self) -> None:
        """A reader of the disk has the last flush, whole."""
        with self.disk.reader() as store:
            assert answers_of(store) == self.flushed.answers()

    def teardown(self) -> None:
        """Remove the files."""
        self.disk.close()


class DiskMachine(StoreMachine):
    """The same, with commits that are sorted already, as a flush makes them."""

    @rule(entries=ENTRIES, expiries=EXPIRIES)
    def commit_sorted(self, entries: dict[bytes, bytes | None], expiries: dict[bytes, bool]) -> None:
        """Commit sorted entries and due times."""
        writes, checksum, checkpoint, due = made = self.next_commit(entries, expiries)
        self.store.commit_sorted(*in_key_order(writes, due), checksum, checkpoint)
        self.committed(made)


class WrittenBehindMachine(StoreMachine):
    """The same of a store that is written behind: a crash loses what was not flushed, and nothing of a flush."""

    native: ClassVar[ModuleType | None] = None

    def opened(self) -> Any:
        """Return a store over the disk."""
        return WriteBehindStore(self.disk.store, self.native)

    def flush_store(self) -> None:
        """Write all commits to the disk."""
        self.store.flush()
        if self.flushed.checkpoint is None and self.commits:
            self.disk.first_commit()

    def committed(self, made: Commit) -> None:
        """Note a commit, which only memory has."""
        self.expected = self.expected.after(*made)
