"""The view: the store as one batch sees it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.model.position import Position
from sowline_materializer.core.record import Record, encode_record
from sowline_materializer.store.cache import RecordCache
from sowline_materializer.store.checksum import Checksum, expiry_entry
from sowline_materializer.store.integrity import survey
from sowline_materializer.store.overlay import Overlay
from tests.memory_store import MemoryStore

keys = st.sampled_from([b"1", b"10", b"2", b"3"])
kinds = st.sampled_from(["live", "gone", "none"])


def record(kind: str, offset: int = 0) -> Record | None:
    """Return a live record, a deleted one's memory, or nothing."""
    if kind == "none":
        return None
    due = None if kind == "gone" or offset % 3 == 0 else offset // 2
    return Record(None if kind == "gone" else b"{}", "k", Position(0, offset), 0, due)


def store_of(entries: dict[bytes, str]) -> MemoryStore:
    """Return a store with entries of these kinds."""
    store, view = MemoryStore(), None
    view = Overlay(store)
    for key, kind in entries.items():
        view.get(key)
        view.put(key, record(kind, 1))
    commit(store, view)
    return store


def commit(store: MemoryStore, view: Overlay, cache: RecordCache | None = None) -> None:
    """Commit what the view leaves, and let the cache know."""
    written = view.written(store.checksum())
    store.commit(written.entries, written.checksum, b"h", written.expiries)
    if cache is not None:
        cache.keep(written.records, written.bytes)


@given(
    st.dictionaries(keys, kinds),
    st.lists(st.lists(st.tuples(keys, kinds), max_size=5), max_size=5),
    st.sampled_from([0, 3000, 10_000]),
)
def test_a_view_is_the_store_with_the_batch_laid_over_it(
    before: dict[bytes, str], batches: list[list[tuple[bytes, str]]], cache_bytes: int
) -> None:
    """Reads, the scan, the writes and the tally are those of a store to which the batch was applied."""
    store, expected = store_of(before), {key: record(kind, 1) for key, kind in before.items()}
    cache = RecordCache(lambda: cache_bytes)
    for number, batch in enumerate(batches):
        view = Overlay(store, cache)
        for offset, (key, kind) in enumerate(batch, 10 * number + 2):
            assert view.get(key) == expected.get(key)
            view.put(key, record(kind, offset))
            expected[key] = record(kind, offset)
        kept = {key: found for key, found in sorted(expected.items()) if found is not None}
        assert list(view.scan()) == [(key, found) for key, found in kept.items() if found.body is not None]
        commit(store, view, cache)
        expiries = [
            expiry_entry(found.expires, key) for key, found in kept.items() if found.expires is not None
        ]
        assert list(store.expiries()) == sorted(expiries)
        assert dict(store.scan()) == {key: encode_record(found) for key, found in kept.items()}
        assert survey(store).checksum == store.checksum()


def test_several_updates_of_a_record_are_one_read_and_one_write() -> None:
    """A batch asks the store once for a record and writes it once."""
    reads = []

    class CountingStore(MemoryStore):
        def get(self, key: bytes) -> bytes | None:
            reads.append(key)
            return super().get(key)

    view = Overlay(CountingStore())
    for offset in range(3):
        view.get(b"1")
        view.put(b"1", record("live", offset))
    assert reads == [b"1"]
    assert list(view.written(Checksum()).entries) == [b"1"]


def test_a_record_is_read_before_it_is_written() -> None:
    """A blind write would break the tally."""
    with pytest.raises(AssertionError, match="read before"):
        Overlay(MemoryStore()).put(b"1", None)
