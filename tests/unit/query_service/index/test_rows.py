"""Rows: records by number, so that indexes can be columns."""

from array import array
from hashlib import blake2b
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sowline.language.emodb.writes import DocumentMetadata, Writes
from sowline.language.filter.metadata import Metadata
from sowline.model.key import digest_of
from sowline.model.position import Position, before_the_log
from sowline_query_service.index.rows import (
    UNKNOWN_OFFSET,
    UNKNOWN_TIME,
    Block,
    LoadBefore,
    NoRows,
    Rare,
    Rows,
)


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


# documents

KNOWN = DocumentMetadata("1", Writes(3, "0" * 32, 1000, 2000, 2000, ("a", "b")))


def test_the_metadata_of_a_deleted_document_is_kept() -> None:
    """Until the document is written again, or deleted without any."""
    rows = filled(2)
    rows.put(b"1", b"{}", 1, Position(1, 20), 2000, known=KNOWN)
    assert rows.known(b"1") == KNOWN
    rows.remove(b"1", KNOWN)
    assert (rows.known(b"1"), rows.body(b"1"), rows.known(b"7")) == (KNOWN, None, None)
    rows.put(b"1", b"{}", 1, Position(1, 21), 2000, known=KNOWN)
    assert rows.deleted == {}
    rows.remove(b"1", KNOWN)
    rows.remove(b"1")
    assert rows.known(b"1") is None


def test_the_facts_of_a_record_are_those_that_filters_ask_for() -> None:
    """Times are in seconds; what is unknown is None. Those of a document have its intrinsics and tags."""
    rows = filled(2)
    rows.put(b"0", b"{}", 0, Position(1, 50), UNKNOWN_TIME)
    rows.put(b"1", b"body", 1, Position(1, 20), 2500, "c", KNOWN)
    held = rows.capture(rows.all())
    topic = Metadata(topic="orders", instance="query-0", group="queries")
    plain, document = held.facts(0, topic), held.facts(1, topic)
    assert (plain.sow_key, plain.size, plain.updated, plain.last_read) == ("0", 2, None, None)
    assert (plain.intrinsics, plain.tags, plain.correlation) == (None, (), None)
    assert (document.updated, document.correlation, document.tags) == (2.5, "c", ("a", "b"))
    assert document.intrinsics is not None
    assert (document.instance, document.group, document.topic) == ("query-0", "queries", "orders")


def test_a_topic_without_a_sow_keeps_no_rows() -> None:
    """Whatever is put."""
    rows = NoRows()
    rows.put(b"1", b"{}", 0, Position(0, 0), 0)
    assert (len(rows), rows.end, rows.body(b"1")) == (0, 0, None)


# snapshots


def block(*keys: bytes, offset: int = 7, correlations: dict[int, str] | None = None) -> Block:
    """Return records as a snapshot has them."""
    count = len(keys)
    return Block(
        list(keys),
        [b"body of " + key for key in keys],
        np.full(count, 1, np.int64),
        np.full(count, offset, np.int64),
        np.zeros(count, np.int32),
        np.full(count, 9000, np.int64),
        np.array([digest_of(key) for key in keys], np.uint64),
        correlations or {},
    )


def test_the_records_of_a_snapshot_are_restored() -> None:
    """Behind those that are there, with everything that is known of them."""
    rows = filled(1)
    rows.restore(block(b"a", b"b", correlations={1: "c"}), 5)
    rows.free_replaced()
    held = rows.capture(rows.all())
    assert (held.keys, held.bodies[1:]) == ([b"0", b"a", b"b"], [b"body of a", b"body of b"])
    assert (held.position(1), held.times.tolist()[1:]) == (Position(1, 7), [9000, 9000])
    assert (held.partitions.tolist(), held.rare) == ([0, 5, 5], {2: Rare("c")})
    assert held.digests is not None
    assert held.digests.tolist() == [digest_of(key) for key in held.keys]


def test_a_record_in_several_blocks_has_one_row() -> None:
    """It got another row while the snapshot was taken. Any of its rows will do."""
    rows = Rows()
    rows.changed = set()
    rows.restore(block(b"a", b"b"), 0)
    rows.restore(block(b"a", offset=9), 0)
    rows.free_replaced()
    assert (rows.all().tolist(), rows.position(b"a")) == ([1, 2], Position(1, 9))
    assert rows.changed == {0}
    rows.put(b"x", b"{}", 0, Position(1, 10), 0)
    assert rows.numbers[b"x"] == 0


# partitions


def test_a_partition_is_removed_with_all_its_rows() -> None:
    """Also the earlier rows of a record that a snapshot has twice."""
    rows = filled(3)
    rows.restore(block(b"a"), 1)
    rows.restore(block(b"a"), 1)
    rows.remove_partition(1)
    assert sorted(rows.numbers) == [b"0", b"2"]
    assert rows.all().tolist() == [0, 2]
    assert rows.of_partition(1, 0, rows.end).tolist() == []


def test_the_rows_of_a_partition_are_those_with_records() -> None:
    """From one row up to another; a free row, and spare room behind the last one, are none of them."""
    rows = filled(9)
    rows.remove(b"3")
    assert rows.of_partition(0, 0, 1000).tolist() == [0, 6]
    assert rows.of_partition(0, 1, 6).tolist() == []
    assert rows.of_partition(2, 2, 9).tolist() == [2, 5, 8]


def test_a_row_that_is_used_again_was_never_read() -> None:
    """The last record's time of reading is none of the new record's."""
    rows = filled(1)
    held = rows.capture(rows.all())
    assert held.digests is not None
    rows.read(held.rows, held.digests, 12.5)
    rows.remove(b"0")
    rows.put(b"x", b"{}", 0, Position(1, 50), 0)
    assert rows.capture(rows.all()).read_at.tolist() == [0.0]


def test_the_last_change_of_a_row_is_its_position_and_time() -> None:
    """As numbers, for the history."""
    assert filled(3).last_change(2) == (1, 12, 2, 1002)


def test_digests_may_be_computed_on_demand() -> None:
    """Those of past records are not kept."""
    rows = filled(2)
    held = rows.capture(rows.all())
    without = type(held)(**{name: getattr(held, name) for name in held.__slots__} | {"digests": None})
    assert without.hash(np.array([0, 1])) == held.hash(np.array([0, 1]))


# loads by the native core


class PlainChanges:
    """Changes that a native core has read, and what it writes for them: record `new` appears, record `0` changes."""

    def __init__(self) -> None:
        self.given: tuple[Any, Any, int] | None = None

    def __len__(self) -> int:
        return 2

    def rows(self, numbers: dict[bytes, int]) -> bytes:
        """Return the row of each key; -1 for none."""
        return array("q", [numbers.get(b"0", -1), numbers.get(b"new", -1)]).tobytes()

    def load(self, tables: Any, found: Any, before: LoadBefore, index_step: int) -> tuple[str, Any]:
        """Put the bodies into the tables; return the state after it, and what the columns get."""
        self.given = found, before, index_step
        if tables.free:
            row = tables.free.pop()
            tables.keys[row] = b"new"
        else:
            row = len(tables.keys)
            tables.keys.append(b"new")
            tables.bodies.append(None)
        tables.numbers[b"new"] = row
        tables.bodies[0], tables.bodies[row] = b"later", b"first"
        return "after", SimpleNamespace(
            rows=array("q", [0, row]).tobytes(),
            eras=array("q", [1, 2]).tobytes(),
            offsets=array("q", [70, 71]).tobytes(),
            nths=array("i", [0, 3]).tobytes(),
            times=array("q", [8000, 8001]).tobytes(),
            made=array("q", [row]).tobytes(),
            digests=array("Q", [digest_of(b"new")]).tobytes(),
        )


BEFORE = LoadBefore({}, 0, None, 0)


@pytest.mark.parametrize("is_free", [False, True], ids=["new row", "free row"])
def test_the_columns_get_what_the_native_core_writes(is_free: bool) -> None:
    """Those of changed rows and of new ones. A row that is used again was never read."""
    rows, changes = filled(2), PlainChanges()
    held = rows.capture(rows.all())
    assert held.digests is not None
    rows.read(held.rows, held.digests, 12.5)
    if is_free:
        rows.remove(b"1")
    assert rows.load(changes, 3, BEFORE, 500) == "after"
    loaded = rows.capture(rows.found([b"0", b"new"]))
    assert (loaded.keys, loaded.bodies) == ([b"0", b"new"], [b"later", b"first"])
    assert [loaded.position(at) for at in (0, 1)] == [Position(1, 70), Position(2, 71, 3)]
    assert (loaded.times.tolist(), loaded.partitions.tolist()) == ([8000, 8001], [3, 3])
    assert loaded.read_at.tolist() == [12.5, 0.0]
    assert loaded.hash(np.array([1])) == digest_of(b"new")


def test_the_native_core_gets_what_is_held_of_each_change() -> None:
    """The row, and the position in it; the columns have room for all of them before."""
    rows, changes = filled(1), PlainChanges()
    rows.load(changes, 3, BEFORE, 500)
    assert changes.given is not None
    found, before, index_step = changes.given
    assert (found.rows.tolist(), before, index_step) == ([0, -1], BEFORE, 500)
    assert (found.eras[0], found.offsets[0], found.nths[0]) == (1, 10, 0)
