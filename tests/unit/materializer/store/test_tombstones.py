"""The deleted records that are remembered for a while: 16 bytes each, and only those that are forgotten some day."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.model.position import Position
from sowline_materializer.core.record import Record, encode_record
from sowline_materializer.store.checksum import Checksum
from sowline_materializer.store.integrity import survey
from sowline_materializer.store.overlay import Overlay
from sowline_materializer.store.tombstones import Tombstones
from tests.memory_store import MemoryStore
from tests.property.keys import HOSTILE

POSITION = Position(0, 1)
LARGEST_KEY = b"%d" % (2**64 - 1)


def gone(time: int, *, has_numbers: bool = True) -> Record:
    """Return a deleted record."""
    return Record(None, "k", POSITION, time, None, {"p": (1, 0, time)} if has_numbers else None)


def stored(records: dict[bytes, Record]) -> MemoryStore:
    """Return a store of records."""
    store = MemoryStore()
    store.commit({key: encode_record(record) for key, record in records.items()}, Checksum(), b"")
    return store


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(0, 11))
def test_those_from_before_are_forgotten(times: list[int], since: int) -> None:
    """They, and no others, oldest first, also a SOW key of all 64 bits."""
    keys = [LARGEST_KEY, *(b"%d" % number for number in range(1, len(times)))]
    store = stored({key: gone(time) for key, time in zip(keys, times, strict=True)})
    tombstones, view = Tombstones(survey(store).tombstones), Overlay(store)
    tombstones.forget(view, since)
    left = {key for key, time in zip(keys, times, strict=True) if time >= since}
    assert len(tombstones) == len(left)
    entries = view.written(Checksum()).entries
    assert entries == {key: None for key in keys if key not in left}


def test_live_records_are_not_looked_at() -> None:
    """Nor is one that came back."""
    store = stored({b"1": Record(b"{}", "k", POSITION, 0), b"2": gone(0)})
    tombstones = Tombstones(survey(store).tombstones)
    assert len(tombstones) == 1
    store.commit({b"2": encode_record(Record(b"{}", "k", POSITION, 5))}, Checksum(), b"")
    view = Overlay(store)
    tombstones.forget(view, 10)
    assert (len(tombstones), view.written(Checksum()).entries) == (0, {})


def test_many_come_and_go_in_the_memory_of_few() -> None:
    """What is forgotten is let go of, sooner or later."""
    tombstones = Tombstones([])
    view = Overlay(MemoryStore())
    for time in range(100_000):
        tombstones.add(time, b"%d" % time)
        if time % 1000 == 0:
            tombstones.forget(view, time - 2000)
    assert len(tombstones) < 4000
    assert len(pickle.dumps(tombstones)) < 10_000 * 16


KEYS = [
    *(key.encode() for key in HOSTILE),
    *(b"0", b"00", b"007", b"7", LARGEST_KEY, b"18446744073709551616", b"1e5", "٣".encode(), b"+1"),
]


@pytest.mark.parametrize("spare", [0, 4096])
def test_keys_that_are_no_numbers(monkeypatch: pytest.MonkeyPatch, spare: int) -> None:
    """Each is forgotten in its time, among keys that are hashes."""
    monkeypatch.setattr("sowline_materializer.store.tombstones.SPARE_MAX", spare)
    store = stored({key: gone(at) for at, key in enumerate(KEYS)})
    tombstones = Tombstones([(at, key) for at, key in enumerate(KEYS[:5])])
    for at, key in enumerate(KEYS[5:], 5):
        tombstones.add(at, key)
    for since in range(len(KEYS) + 1):
        view = Overlay(store)
        tombstones.forget(view, since)
        assert len(tombstones) == len(KEYS) - since
        store.commit(view.written(store.checksum()).entries, Checksum(), b"")
        assert {key for key, _ in store.scan()} == set(KEYS[since:])
