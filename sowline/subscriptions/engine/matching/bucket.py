"""A bucket: the filters that one value leads to. Finds those that match a document."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from sowline.language.filter import UNKNOWN, Metadata
from sowline.model.path import Document, Path, Value, reader
from sowline.subscriptions.engine.matching.columns import DemandColumn, RangeColumn, TextColumn
from sowline.subscriptions.engine.matching.entry import Entry, T

PACKED_MIN = 8
"""With fewer filters, evaluating each is faster than comparing arrays."""

COLUMNS_MAX = 16
"""The number of columns of each kind. The filters check rarer paths themselves, which limits the memory."""


class Bucket(Generic[T]):
    """A set of entries. Most are packed into columns; those added since then are evaluated one by one.

    The set is packed again when loose and removed entries have cost as many evaluations as packing costs. So neither
    a thousand additions in a row, nor a document after each of them, costs more than twice the minimum.
    """

    __slots__ = ("_loose", "_packed", "_tries")

    def __init__(self) -> None:
        self._loose: dict[Entry[T], None] = {}
        self._packed: Packed[T] | None = None
        self._tries = 0

    def __len__(self) -> int:
        return len(self._loose) + (len(self._packed) if self._packed is not None else 0)

    def add(self, entry: Entry[T]) -> None:
        """Add an entry."""
        assert entry not in self._loose, "an entry is added once"
        self._loose[entry] = None

    def remove(self, entry: Entry[T]) -> None:
        """Remove an entry of the set."""
        if entry in self._loose:
            del self._loose[entry]
        else:
            assert self._packed is not None, "an entry of the set is loose or packed"
            self._packed.remove(entry)

    def true_of(self, document: Document, about: Metadata) -> list[Entry[T]]:
        """Return the entries whose filter is TRUE for a document that leads to the bucket."""
        loose = self._loose
        if self._packed is None and len(loose) < PACKED_MIN:
            return _asked(loose, document, about) if loose else []
        self._pack_if_due()
        found = [] if self._packed is None else self._packed.true_of(document, about)
        return found + _asked(self._loose, document, about)

    def _pack_if_due(self) -> None:
        removed = 0 if self._packed is None else self._packed.removed
        self._tries += len(self._loose)
        # Packing at each change would cost a packing per subscription while a thousand clients subscribe
        # (test_subscribing_between_changes_is_cheap). Empty rows are compared and kept in memory like all others,
        # so most of them must not be empty (test_what_is_gone_takes_no_room).
        if not (self._loose and self._tries >= len(self)) and removed <= len(self):
            return
        entries, count = [*(() if self._packed is None else self._packed), *self._loose], len(self)
        self._tries = 0
        if len(entries) < PACKED_MIN:
            self._packed, self._loose = None, dict.fromkeys(entries)
        else:
            self._packed, self._loose = Packed(entries), {}
        assert len(self) == count, "packing loses no entry"


class Packed(Generic[T]):
    """Entries as rows of columns. No entry is added later; removed entries stay as empty rows."""

    def __init__(self, entries: Sequence[Entry[T]]) -> None:
        ranged, texted = _frequent(e.ranges for e in entries), _frequent(e.texts for e in entries)
        self._columns: list[tuple[Callable[[Document], Value], DemandColumn]] = [
            *((reader(path), RangeColumn([e.ranges.get(path) for e in entries])) for path in ranged),
            *((reader(path), TextColumn([e.texts.get(path) for e in entries])) for path in texted),
        ]
        self._rows: NDArray[Any] = np.fromiter(entries, np.object_, len(entries))
        self._row_of = {entry: row for row, entry in enumerate(entries)}
        self._present = np.ones(len(entries), np.bool_)
        self._whole = np.array([_is_covered(e, ranged, texted) for e in entries], np.bool_)
        assert len(self._row_of) == len(entries), "an entry has one row"

    def __len__(self) -> int:
        return len(self._row_of)

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(self._row_of)

    @property
    def removed(self) -> int:
        """The number of empty rows."""
        return len(self._rows) - len(self._row_of)

    def remove(self, entry: Entry[T]) -> None:
        """Empty the entry's row."""
        row = self._row_of.pop(entry)
        assert self._rows[row] is entry, "an entry is in its row"
        self._rows[row] = None
        self._present[row] = False

    def true_of(self, document: Document, about: Metadata) -> list[Entry[T]]:
        """Return the entries whose filter is TRUE for a document that leads to the bucket."""
        possible, sure = self._present, self._whole
        for read, column in self._columns:
            satisfied = column.judge(read(document))
            # Doubles can't tell this value from a neighbor, or it is an array: ask the filters of these rows
            # (test_a_value_of_any_kind_is_compared_as_filters_do).
            if satisfied is None:
                sure = sure & ~column.bound
            else:
                possible = possible & satisfied
        found: list[Entry[T]] = self._rows[possible & sure].tolist()
        return found + _asked(self._rows[possible > sure].tolist(), document, about)


def _asked(entries: Iterable[Entry[T]], document: Document, about: Metadata) -> list[Entry[T]]:
    """Return the entries that match, by evaluating each filter that the bucket does not decide."""
    if about is UNKNOWN:
        return [entry for entry in entries if entry.is_decided or entry.filter.matches(document)]
    return [entry for entry in entries if entry.is_decided or entry.filter.matches_about(document, about)]


def _frequent(demands: Iterable[Iterable[Path]]) -> set[Path]:
    """Return the paths that get a column."""
    counted = Counter(path for paths in demands for path in paths)
    return {path for path, count in counted.most_common(COLUMNS_MAX) if count >= PACKED_MIN}


def _is_covered(entry: Entry[T], ranged: set[Path], texted: set[Path]) -> bool:
    """Return whether the columns check everything that an entry demands."""
    return entry.whole and entry.ranges.keys() <= ranged and entry.texts.keys() <= texted
