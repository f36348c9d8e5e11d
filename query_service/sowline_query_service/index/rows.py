"""The records of a topic, each in a numbered row, so that indexes can be columns over the rows. Pure.

A record keeps its row as long as it exists; a free row is used for a later record.
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import compress
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sowline.language.emodb.writes import DocumentMetadata, intrinsics_of
from sowline.language.filter.metadata import Metadata
from sowline.model.key import digest_of, hash_of
from sowline.model.position import Position

RowNumbers = NDArray[np.int64]

UNKNOWN_OFFSET = -2
UNKNOWN_TIME = -1
"""These mean that it is unknown when a record last changed, which is possible for past records."""

GATHER_SHARE = 8
"""To get more than one in this many rows, copying whole columns is faster than gathering the rows."""


SPARE_SHARE = 16
"""The columns get room for one more row in this many."""


class Rare(NamedTuple):
    """Values that not every record has: the correlation of its last update, and a document's metadata."""

    correlation: str | None = None
    known: DocumentMetadata | None = None


NOTHING_RARE = Rare()


class Block(NamedTuple):
    """Some records of one partition in columns, as a snapshot keeps them."""

    keys: list[bytes]
    bodies: list[bytes]
    eras: NDArray[np.int64]
    offsets: NDArray[np.int64]
    nths: NDArray[np.int32]
    times: NDArray[np.int64]
    digests: NDArray[np.uint64]
    correlations: dict[int, str]
    """The correlations of the last updates, by the record's number in this block."""


class LoadBefore(NamedTuple):
    """The state of a load of a partition, as the native core reads it."""

    ranks: dict[bytes, Any]
    era: int
    position: Position | None
    since_indexed: int
    """The number of events since the last entry of the index."""


class _Tables(NamedTuple):
    """The tables of `Rows`, as the native core changes them."""

    numbers: dict[bytes, int]
    keys: list[bytes | None]
    bodies: list[bytes | None]
    rare: dict[int, Rare]
    changed: set[int] | None
    free: list[int]
    rare_type: type[Rare]


class _Found(NamedTuple):
    """The row that each change finds, and the position that it has."""

    rows: NDArray[np.int64]
    eras: NDArray[np.int64]
    offsets: NDArray[np.int64]
    nths: NDArray[np.int32]


class Rows:
    """The records by SOW key, and their columns: body, partition, position, log time in ms."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}
        """The row of each SOW key."""
        self.keys: list[bytes | None] = []
        self.bodies: list[bytes | None] = []
        self.rare: dict[int, Rare] = {}
        """The values that not every record has, by row."""
        self.deleted: dict[bytes, DocumentMetadata] = {}
        """The metadata of deleted documents, by SOW key."""
        self.changed: set[int] | None = None
        """Rows that changed since they were indexed; None until there are indexes."""
        # The columns have room for more rows: many changes get theirs at once.
        self._partitions = array("H")
        self._eras = array("q")
        self._offsets = array("q")
        self._nths = array("i")
        self._times = array("q")
        self._digests = array("Q")
        self._read_at = array("d")
        self._free: list[int] = []
        self._has_replaced = False

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def end(self) -> int:
        """One more than the highest row number in use, free rows in between included."""
        return len(self.keys)

    def put(
        self,
        key: bytes,
        body: bytes,
        partition: int,
        position: Position,
        time: int,
        correlation: str | None = None,
        known: DocumentMetadata | None = None,
    ) -> None:
        """Insert the record or replace it."""
        row = self.numbers.get(key)
        if row is None:
            row = self.numbers[key] = self._new_row(key)
        self.bodies[row] = body
        self._partitions[row] = partition
        self._eras[row], self._offsets[row], self._nths[row] = position
        self._times[row] = time
        if correlation is not None or known is not None:
            self.rare[row] = Rare(correlation, known)
        # An update without these values must not show those of the update before it.
        elif self.rare:
            self.rare.pop(row, None)
        if known is not None:
            self.deleted.pop(key, None)
        if self.changed is not None:
            self.changed.add(row)

    def _new_row(self, key: bytes) -> int:
        digest = digest_of(key)
        if self._free:
            row = self._free.pop()
            assert self.keys[row] is None, "a free row has no record"
            self.keys[row] = key
            self._digests[row] = digest
            # The previous record of the row may have been read, this one never was
            # (test_a_row_that_is_used_again_knows_nothing_of_the_last_record).
            self._read_at[row] = 0.0
            return row
        row = len(self.keys)
        self._reserve(row + 1)
        self.keys.append(key)
        self.bodies.append(None)
        self._digests[row] = digest
        assert len(self.bodies) == len(self.keys), "a row has a key and a body"
        return row

    def _reserve(self, count: int) -> None:
        """Give the columns room for this many rows."""
        missing = count - len(self._digests)
        if missing > 0:
            missing += count // SPARE_SHARE
            values = (self._partitions, self._eras, self._offsets, self._nths, self._times)
            for column in (*values, self._digests, self._read_at):
                column.frombytes(bytes(missing * column.itemsize))

    def load(self, plain: Any, partition: int, before: LoadBefore, index_step: int) -> Any:
        """Put the newest change of each key, where it is newer than what is held: `PartitionReplica.load`.

        `plain` are changes of a partition, a `PlainChanges` of the native core. `before` is the state of the load,
        which its `load` describes; return the state after it.
        """
        # Before any view: an array that a NumPy view shows can't grow (test_rows_find_no_room_missing).
        self._reserve(self.end + len(plain))
        rows = np.frombuffer(plain.rows(self.numbers), np.int64)
        eras, offsets, times = (
            np.frombuffer(each, np.int64) for each in (self._eras, self._offsets, self._times)
        )
        nths = np.frombuffer(self._nths, np.int32)
        found = _Found(rows, eras[rows], offsets[rows], nths[rows])
        tables = _Tables(self.numbers, self.keys, self.bodies, self.rare, self.changed, self._free, Rare)
        after, written = plain.load(tables, found, before, index_step)
        rows = np.frombuffer(written.rows, np.int64)
        np.frombuffer(self._partitions, np.uint16)[rows] = partition
        columns: tuple[NDArray[Any], ...] = (eras, offsets, nths, times)
        values = (written.eras, written.offsets, written.nths, written.times)
        for column, each in zip(columns, values, strict=True):
            column[rows] = np.frombuffer(each, column.dtype)
        if written.made:
            rows = np.frombuffer(written.made, np.int64)
            np.frombuffer(self._digests, np.uint64)[rows] = np.frombuffer(written.digests, np.uint64)
            np.frombuffer(self._read_at)[rows] = 0.0
        assert len(self.bodies) == len(self.keys), "a row has a key and a body"
        # Between two blocks of a snapshot of another partition, a record may have several rows.
        assert self._has_replaced or len(self.numbers) + len(self._free) == self.end, (
            "a row has a record or is free"
        )
        return after

    def remove(self, key: bytes, known: DocumentMetadata | None = None) -> None:
        """Remove the record, if it exists; keep the metadata `known` of a document."""
        if known is not None:
            self.deleted[key] = known
        elif self.deleted:
            self.deleted.pop(key, None)
        row = self.numbers.pop(key, None)
        if row is not None:
            self._free_row(row)

    def _free_row(self, row: int) -> None:
        assert self.keys[row] is not None, "a row is freed once"
        self.keys[row] = self.bodies[row] = None
        self.rare.pop(row, None)
        # The indexes must forget the record before the row has another one.
        if self.changed is not None:
            self.changed.add(row)
        self._free.append(row)

    def restore(self, block: Block, partition: int) -> None:
        """Add records as a snapshot has them; call `free_replaced` after the last block.

        A record that got another row while the snapshot was taken may be in several blocks. Any of them will do,
        because the changes that follow replace them all.
        """
        start, stop, known = self.end, self.end + len(block.keys), len(self.numbers)
        self._reserve(stop)
        self.keys += block.keys
        self.bodies += block.bodies
        self.numbers.update(zip(block.keys, range(start, stop), strict=True))
        # Both rows are held until the last block. Without this, `all` would show the record twice
        # (test_a_record_in_several_blocks_has_one_row).
        self._has_replaced |= len(self.numbers) < known + len(block.keys)
        assert len(self.bodies) == len(self.keys) == stop, "a block has a body for each of its keys"
        columns: tuple[tuple[array[Any], NDArray[Any]], ...] = (
            (self._eras, block.eras),
            (self._offsets, block.offsets),
            (self._nths, block.nths),
            (self._times, block.times),
            (self._digests, block.digests),
        )
        for column, values in columns:
            np.frombuffer(column, values.dtype)[start:stop] = values
        np.frombuffer(self._partitions, np.uint16)[start:stop] = partition
        for number, correlation in block.correlations.items():
            self.rare[start + number] = Rare(correlation)

    def free_replaced(self) -> None:
        """Free the rows of records that have got another row in `restore`."""
        if self._has_replaced:
            for row, key in enumerate(self.keys):
                if key is not None and self.numbers[key] != row:
                    self._free_row(row)
            self._has_replaced = False
        assert len(self.numbers) + len(self._free) == self.end, "a row has a record or is free"

    def remove_partition(self, partition: int) -> None:
        """Remove all records of a partition."""
        # First: of a record that has several rows after a restore, `remove` frees only the newest.
        self.free_replaced()
        mine = np.frombuffer(self._partitions, np.uint16)[: self.end] == partition
        for row in np.flatnonzero(mine).tolist():
            if (key := self.keys[row]) is not None:
                self.remove(key)

    def of_partition(self, partition: int, start: int, stop: int) -> RowNumbers:
        """Return the rows from `start` on, up to, not including, `stop`, that hold records of a partition."""
        # Up to the last row: the spare room behind it names partition 0, and has no keys.
        mine = np.frombuffer(self._partitions, np.uint16)[start : min(stop, self.end)] == partition
        # A free row still names the partition of its last record.
        rows = start + np.flatnonzero(mine)
        return np.array([row for row in rows.tolist() if self.keys[row] is not None], np.int64)

    def position(self, key: bytes) -> Position | None:
        """Return the position of the record's last change; None if there is no record."""
        row = self.numbers.get(key)
        return None if row is None else Position(self._eras[row], self._offsets[row], self._nths[row])

    def last_change(self, row: int) -> tuple[int, int, int, int]:
        """Return the record's last change: era, offset and number of its position, and log time in ms."""
        return self._eras[row], self._offsets[row], self._nths[row], self._times[row]

    def body(self, key: bytes) -> bytes | None:
        """Return the record's body; None if there is no record."""
        row = self.numbers.get(key)
        return None if row is None else self.bodies[row]

    def known(self, key: bytes) -> DocumentMetadata | None:
        """Return the metadata of a document, also of a deleted one."""
        row = self.numbers.get(key)
        return self.deleted.get(key) if row is None else self.rare.get(row, NOTHING_RARE).known

    def found(self, keys: Iterable[bytes]) -> RowNumbers:
        """Return the rows of the keys, without those that have no record, each once."""
        numbers = self.numbers
        return np.array(sorted({numbers[key] for key in keys if key in numbers}), np.int64)

    def read(self, rows: RowNumbers, digests: NDArray[np.uint64], seconds: float) -> None:
        """Note when a query read records, in seconds since 1970, if they are still in their rows."""
        # A row may have another record since the query (test_reading_is_noted_where_the_record_still_is).
        still = np.frombuffer(self._digests, np.uint64)[rows] == digests
        np.frombuffer(self._read_at)[rows[still]] = seconds

    def all(self) -> RowNumbers:
        """Return the rows of all records."""
        rows = np.arange(self.end, dtype=np.int64)
        return np.delete(rows, self._free) if self._free else rows

    def capture(self, rows: RowNumbers) -> "Captured":
        """Capture the records in these rows, in ascending order; later changes do not affect the captured records."""
        chosen = slice(self.end) if len(rows) == self.end else rows
        return Captured(
            rows=rows,
            keys=_gathered(self.keys, rows),
            bodies=_gathered(self.bodies, rows),
            partitions=_copied(self._partitions, np.uint16, chosen),
            eras=_copied(self._eras, np.int64, chosen),
            offsets=_copied(self._offsets, np.int64, chosen),
            nths=_copied(self._nths, np.int32, chosen),
            times=_copied(self._times, np.int64, chosen),
            read_at=_copied(self._read_at, np.float64, chosen),
            digests=_copied(self._digests, np.uint64, chosen),
            rare={row: self.rare[row] for row in rows.tolist() if row in self.rare} if self.rare else {},
        )


class NoRows(Rows):
    """The rows of a topic without a SOW, which keeps none."""

    def put(self, *change: object, **named: object) -> None:
        """Keep nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Captured:
    """Records of one instant, in columns, in the order of `rows`."""

    rows: RowNumbers
    keys: list[bytes]
    bodies: list[bytes]
    partitions: NDArray[np.uint16]
    eras: NDArray[np.int64]
    offsets: NDArray[np.int64]
    nths: NDArray[np.int32]
    times: NDArray[np.int64]
    read_at: NDArray[np.float64]
    digests: NDArray[np.uint64] | None
    """The 8-byte BLAKE2b of each SOW key; None if they are computed on demand."""
    rare: dict[int, Rare]
    """The rare values of records that have some, by row."""

    def __len__(self) -> int:
        return len(self.keys)

    def position(self, at: int) -> Position:
        """Return the position of a record's last change; if unknown, one before all others."""
        return Position(int(self.eras[at]), int(self.offsets[at]), int(self.nths[at]))

    def rare_of(self, at: int) -> Rare:
        """Return the values of a record that not every record has."""
        return self.rare.get(int(self.rows[at]), NOTHING_RARE)

    def facts(self, at: int, topic: Metadata) -> Metadata:
        """Return the metadata of a record; `topic` is that of its topic."""
        read_at, time, rare = float(self.read_at[at]), int(self.times[at]), self.rare_of(at)
        known = rare.known
        return Metadata(
            sow_key=self.keys[at].decode(),
            topic=topic.topic,
            size=len(self.bodies[at]),
            updated=None if time == UNKNOWN_TIME else time / 1000,
            correlation=rare.correlation,
            last_read=read_at or None,
            instance=topic.instance,
            group=topic.group,
            intrinsics=known and intrinsics_of(topic.topic or "", *known),
            tags=known.writes.tags if known else (),
        )

    def locations(self, chosen: RowNumbers) -> list[bytes | None]:
        """Return the position of each chosen record's last change, as `partition@position`; None if unknown."""
        offsets = self.offsets[chosen]
        unknown = offsets == UNKNOWN_OFFSET
        if not (self.eras[chosen].any() or self.nths[chosen].any() or unknown.any()):
            plain = zip(self.partitions[chosen].tolist(), offsets.tolist(), strict=True)
            return [b"%d@%d" % location for location in plain]
        columns = (self.partitions, self.eras, self.offsets, self.nths)
        locations = zip(unknown.tolist(), *(column[chosen].tolist() for column in columns), strict=True)
        return [
            None if lacking else f"{partition}@{Position(*position)}".encode()
            for lacking, partition, *position in locations
        ]

    def hash(self, chosen: RowNumbers) -> int:
        """Return the XOR of the digests of the chosen records' SOW keys."""
        if self.digests is None:
            found: list[int] = chosen.tolist()
            return hash_of(self.keys[at] for at in found)
        return int(np.bitwise_xor.reduce(self.digests[chosen]))


def _gathered(column: list[Any], rows: RowNumbers) -> list[Any]:
    """Return the column's values in these rows; several rows must be in ascending order."""
    if len(rows) == len(column):
        return column[:]
    if len(rows) * GATHER_SHARE > len(column):
        kept = bytearray(len(column))
        np.frombuffer(kept, np.uint8)[rows] = 1
        return list(compress(column, kept))
    return (
        [column[row] for row in rows.tolist()] if len(rows) < 2 else list(itemgetter(*rows.tolist())(column))
    )


def _copied(column: "array[Any]", kind: Any, chosen: RowNumbers | slice) -> NDArray[Any]:
    # A slice is a view: later changes would show in it, and the column could not grow
    # (test_what_is_captured_stays). Rows by number are copied anyway.
    values: NDArray[Any] = np.frombuffer(column, kind)[chosen]
    return values.copy() if isinstance(chosen, slice) else values
