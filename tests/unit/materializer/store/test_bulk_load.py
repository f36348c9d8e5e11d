"""Filling a store: entries in batches, with the tally and the due times that belong to them."""

from collections.abc import Sequence

import pytest

from sowline.model.position import Position
from sowline_materializer.core.record import Record, encode_record
from sowline_materializer.store.bulk_load import BulkLoad
from sowline_materializer.store.checksum import expiry_entry
from sowline_materializer.store.integrity import survey
from tests.memory_store import MemoryStore

Puts = Sequence[tuple[bytes, bytes | None]]


def data_of(text: str, expires: int | None = None) -> bytes:
    """Return the bytes of a record."""
    return encode_record(Record(b"{}", text, Position(0, 1), 5, expires))


PLAIN, DUE, LATER = data_of("1"), data_of("1", 10), data_of("1", 20)


@pytest.mark.parametrize(
    "puts",
    [
        [(b"1", PLAIN), (b"2", DUE)],
        [(b"1", DUE), (b"1", LATER), (b"1", DUE)],
        [(b"1", DUE), (b"1", None), (b"2", PLAIN), (b"2", None)],
        [(b"1", None), (b"1", DUE), (b"1", PLAIN)],
    ],
    ids=["others", "due otherwise", "gone", "never due"],
)
@pytest.mark.parametrize("batch", [1, 2, 9])
def test_checksum_and_due_times_are_those_of_the_entries(puts: Puts, batch: int) -> None:
    """However the entries come to be, and in however many batches."""
    store = MemoryStore()
    for start in range(0, len(puts), batch):
        entries = BulkLoad(store)
        for key, data in puts[start : start + batch]:
            entries.put(key, entries.get(key), data)
        entries.finish()
    left = {key: data for key, data in dict(puts).items() if data is not None}
    assert dict(store.scan()) == left
    expiries = [expiry_entry(10 if data == DUE else 20, key) for key, data in left.items() if data != PLAIN]
    assert list(store.expiries()) == expiries
    assert survey(store).checksum == store.checksum()
