"""Rows: records by number, so that indexes can be columns."""

from hashlib import blake2b

import numpy as np

from sowline.model.position import Position, before_the_log
from sowline_query_service.index.rows import UNKNOWN_OFFSET, UNKNOWN_TIME, Rare, Rows


def filled(count: int) -> Rows:
    """Return rows with records 0, 1, …"""
    rows = Rows()
    for number in range(count):
        rows.put(
            b"%d" % number, b"body %d" % number, number % 3, Position(1, 10 + number, number), 1000 + number
        )
    return rows


def test_a_record_keeps_its_row() -> None:
    """A replacement goes where the record is; a free row is given to a later record."""
    rows = filled(3)
    rows.put(b"1", b"new", 1, Position(1, 20), 2000)
    assert (rows.numbers[b"1"], rows.body(b"1"), rows.position(b"1"), len(rows)) == (
        1,
        b"new",
        Position(1, 20),
        3,
    )
    rows.remove(b"1")
    rows.remove(b"1")
    assert (len(rows), rows.end, rows.all().tolist(), rows.position(b"1")) == (2, 3, [0, 2], None)
    rows.put(b"9", b"nine", 0, Position(1, 21), 2001)
    assert (rows.numbers[b"9"], rows.end) == (1, 3)


def test_what_is_captured_stays() -> None:
    """Whatever happens to the records afterwards."""
    rows = filled(20)
    for chosen in (rows.all(), np.array([3]), np.array([2, 5, 7]), np.arange(0, 20, 2)):
        held = rows.capture(chosen)
        before = (list(held.keys), list(held.bodies), list(held.locations(np.arange(len(held)))))
        assert before == (
            [b"%d" % n for n in chosen],
            [b"body %d" % n for n in chosen],
            [f"{n % 3}@{Position(1, 10 + n, n)}".encode() for n in chosen.tolist()],
        )
        for number in range(20):
            rows.put(b"%d" % number, b"later", 0, Position(1, 99), 1)
        assert (held.keys, held.bodies, list(held.locations(np.arange(len(held))))) == before
        rows = filled(20)


def test_rows_and_positions_agree() -> None:
    """A position is written as bookmarks have it, eras and parts of a log record included."""
    rows = Rows()
    positions = [Position(0, 5), Position(0, 5, 2), Position(3, 5), Position(3, 2**60, 7)]
    for number, position in enumerate(positions):
        rows.put(b"%d" % number, b"{}", number, position, 0)
    held = rows.capture(rows.all())
    assert [held.position(at) for at in range(4)] == positions
    assert list(held.locations(np.arange(4))) == [b"0@5", b"1@5.2", b"2@3/5", b"3@3/%d.7" % 2**60]
    assert held.locations(np.array([0])) == [b"0@5"]


def test_the_hash_of_records_is_that_of_their_keys() -> None:
    """Also of a key that took another's row."""
    rows = filled(3)
    rows.remove(b"1")
    rows.put(b"x", b"{}", 0, Position(1, 50), 0)
    expected = 0
    for key in (b"0", b"x"):
        expected ^= int.from_bytes(blake2b(key, digest_size=8).digest(), "big")
    held = rows.capture(rows.all())
    assert held.hash(np.array([0, 1])) == expected


def test_keys_are_found_once_and_in_order() -> None:
    """Unknown ones are absent."""
    assert filled(5).found([b"3", b"x", b"1", b"3"]).tolist() == [1, 3]


def test_reading_is_noted_where_the_record_still_is() -> None:
    """A row that another record has taken meanwhile is not said to have been read."""
    rows = filled(3)
    held = rows.capture(rows.all())
    rows.remove(b"1")
    rows.put(b"x", b"{}", 0, Position(1, 50), 0)
    assert held.digests is not None
    rows.read(held.rows, held.digests, 12.5)
    assert rows.capture(rows.all()).read_at.tolist() == [12.5, 0.0, 12.5]


def test_correlations_live_as_long_as_the_update() -> None:
    """The next update without one ends it, and so does the record's end."""
    rows = filled(2)
    rows.put(b"0", b"{}", 0, Position(1, 50), 0, "c")
    assert rows.capture(rows.all()).rare == {0: Rare("c")}
    rows.put(b"0", b"{}", 0, Position(1, 51), 0)
    assert rows.capture(rows.all()).rare == {}


def test_changed_rows_are_noted_once_somebody_asks() -> None:
    """Insertions, replacements and removals."""
    rows = filled(3)
    assert rows.changed is None
    rows.changed = set()
    rows.put(b"7", b"{}", 0, Position(1, 50), 0)
    rows.remove(b"1")
    assert rows.changed == {3, 1}


def test_a_position_that_is_not_known_is_none() -> None:
    """It stands before all others."""
    rows = filled(2)
    rows.put(b"1", b"body", 0, Position(0, UNKNOWN_OFFSET), UNKNOWN_TIME)
    held = rows.capture(rows.all())
    assert held.locations(np.arange(2)) == [f"0@{Position(1, 10, 0)}".encode(), None]
    assert held.position(1) < before_the_log()
