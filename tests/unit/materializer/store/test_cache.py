"""The records written last: what is found again, and how much is kept."""

from sowline.model.position import Position
from sowline_materializer.core.record import Record
from sowline_materializer.store.cache import ENTRY_BYTES, RecordCache, Stored


def stored(number: int) -> Stored:
    """Return a record as a store holds it."""
    return Record(b"{}", "k", Position(0, number), 0), number


def test_what_was_written_last_is_found() -> None:
    """The newest of a key counts, and one that went is not there."""
    cache = RecordCache(lambda: 100_000)
    cache.keep({b"1": stored(1), b"2": stored(2)}, 100)
    cache.keep({b"1": stored(3), b"2": None}, 50)
    assert cache.get(b"1") == stored(3)
    assert cache.get(b"2") is None


def test_what_went_stays_away_when_the_halves_change() -> None:
    """A record of the older half that went since does not come back."""
    cache = RecordCache(lambda: 6 * ENTRY_BYTES)
    cache.keep({b"1": stored(1), b"2": stored(2), b"3": stored(3)}, 0)
    cache.keep({b"1": None}, 0)
    assert cache.get(b"1") is None
    assert cache.get(b"2") == stored(2)


def test_it_holds_no_more_than_its_bytes() -> None:
    """A thousand written one after another leave at least half of what there is room for, and at most all of it."""
    cache = RecordCache(lambda: 40 * (ENTRY_BYTES + 100))
    for number in range(1000):
        cache.keep({b"%d" % number: stored(number)}, 100)
    held = [number for number in range(1000) if cache.get(b"%d" % number) is not None]
    assert 20 <= len(held) <= 40
    assert held == list(range(1000 - len(held), 1000))


def test_a_batch_beyond_its_bytes_is_not_kept() -> None:
    """One batch of larger records than all that there is room for."""
    cache = RecordCache(lambda: 1000)
    cache.keep({b"1": stored(1)}, 5000)
    assert cache.get(b"1") is None


def test_without_room_nothing_is_kept() -> None:
    """As where a partition has no share."""
    cache = RecordCache()
    cache.keep({b"1": stored(1)}, 10)
    assert cache.get(b"1") is None
