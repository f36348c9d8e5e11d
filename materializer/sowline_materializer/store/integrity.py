"""Whether a store is complete: it has a checkpoint, and its entries sum up to its checksum."""

from collections.abc import Generator
from types import ModuleType
from typing import NamedTuple

from sowline.native import raise_unless_panic
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.core.record import decode_record
from sowline_materializer.store.checksum import Checksum, entry_hash, expiry_hash
from sowline_materializer.store.interface import EXPIRY, Portion, Store


class Survey(NamedTuple):
    """The result of a walk through a whole store.

    `tombstones` are the deleted records that the store remembers, as (log time in ms, SOW key), oldest first.
    """

    checksum: Checksum
    tombstones: list[tuple[int, bytes]]


class Walk:
    """A walk through a store, a portion at a time. `native` is the module of the native core."""

    def __init__(self, store: Store, native: ModuleType | None = None) -> None:
        self._native = native
        self._entries = self._sum = 0
        self._tombstones: list[tuple[int, bytes]] = []
        self._steps = self._walk(store)

    def _walk(self, store: Store) -> Generator[None]:
        for portion in store.portions():
            hashes, deleted = self._summed_up(portion)
            assert len(deleted) <= len(portion), "the deleted records are some of the portion"
            self._entries += len(portion)
            self._sum += hashes
            for key, data in deleted:
                if (record := decode_record(data)).is_forgettable:
                    self._tombstones.append((record.time, key[1:]))
            yield

    def _summed_up(self, portion: Portion) -> tuple[int, Portion]:
        if self._native is not None:
            try:
                return self._native.survey(portion)  # type: ignore[no-any-return]
            except BaseException as error:
                # Python, which is the specification, reads this portion and all that follow.
                raise_unless_panic(error, "check of a store")
                self._native = None
        return summed_up(portion)

    def go_on(self) -> bool:
        """Read the next portion, about a thousand entries; return whether all were read."""
        return next(self._steps, self) is self

    def close(self) -> None:
        """Release the store: its files stay open while a walk reads from it."""
        self._steps.close()

    def result(self) -> Survey:
        """Return what was found, once all is read."""
        return Survey(Checksum.of(self._entries, self._sum), sorted(self._tombstones))


def summed_up(portion: Portion) -> tuple[int, Portion]:
    """Return the sum of the hashes of entries, and those of deleted records.

    `sowline_native.survey` does the same (tests/property/test_native_load.py).
    """
    if portion and portion[0][0].startswith(EXPIRY):
        return sum(expiry_hash(key[1:]) for key, _ in portion), []
    return sum(entry_hash(key[1:], data) for key, data in portion), [
        pair for pair in portion if not pair[1][0]
    ]


def survey(store: Store, native: ModuleType | None = None) -> Survey:
    """Walk through a whole store."""
    walk = Walk(store, native)
    while not walk.go_on():
        pass
    return walk.result()


def verified(store: Store, native: ModuleType | None = None) -> tuple[Checkpoint, Survey]:
    """Return the checkpoint of a complete store, and what is in it.

    Raise `StoreDamaged`, or `unknown format` before anything else.
    """
    # First: a store of a newer version must not count as damaged, because a damaged one is deleted
    # (test_damage_is_found_and_a_strange_form_is_let_alone).
    checkpoint = checkpoint_of(store)
    found = survey(store, native)
    if found.checksum != store.checksum():
        raise StoreDamaged(f"expected {store.checksum()}, found {found.checksum}")
    return checkpoint, found


def checkpoint_of(store: Store) -> Checkpoint:
    """Return the checkpoint of a store; raise `StoreDamaged` if there is none, or `unknown format`."""
    data = store.checkpoint()
    if data is None:
        raise StoreDamaged("there is no checkpoint")
    return Checkpoint.decode(data)
