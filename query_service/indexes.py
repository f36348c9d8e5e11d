"""The indexes of one topic, and which road a query takes over them.

A memo index is made when a query first needs it, or at the start if the topic's definition names it; hash
indexes are made at the start. All are kept up to date: rows that have changed are noted, and taken in some
thousands at a time, at the latest when a query asks.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from query_service.index.column import Column
from query_service.index.hash_index import HashIndex
from query_service.index.ranks import ranks
from query_service.index.read import Values, reader_of
from query_service.index.vector import evaluate, needed_paths, prepare, split
from query_service.key_road import sow_keys_of
from query_service.memory import Memory
from query_service.roads import HASH_INDEX, KEY, KEYS, MEMO_INDEX, SCAN, Road
from query_service.rows import RowNumbers, Rows
from sowline.filter import Filter
from sowline.filter.printer import text_of
from sowline.filter.tree import Node, conjunction
from sowline.order import Order
from sowline.path import Path, parse_path
from sowline.topics import TopicDefinition

CHUNK = 1000
"""Bodies read before others get a turn."""

AT_ONCE = 5000
"""So many changed rows are taken in without a pause, when a query asks."""

SELECTIVE = 10
"""A hash index that leaves more than one in so many records is not worth its verification, if columns are there."""

Work = Callable[[float], None]


class Indexes:
    """All indexes over the rows of one topic; used from the event loop only."""

    def __init__(self, definition: TopicDefinition, rows: Rows, memory: Memory) -> None:
        self._definition = definition
        self._rows = rows
        self._memory = memory
        self._columns: dict[Path, Column] = {}
        self._hashes: list[HashIndex] = []
        self._making: list[Column | HashIndex] = []
        self._lock = asyncio.Lock()
        self._refused: dict[Path, int] = {}
        memory.add(self)

    # making

    @property
    def are_declared(self) -> bool:
        """Whether the topic's definition names indexes."""
        return bool(self._definition.indexes or self._definition.hash_indexes)

    async def make_declared(self) -> None:
        """Make the indexes that the topic's definition names."""
        paths = [parse_path(text) for text in self._definition.indexes]
        hashes = [
            HashIndex([parse_path(text) for text in fields]) for fields in self._definition.hash_indexes
        ]
        await self._make(paths, hashes, lambda seconds: None)

    def at_hand(self, filter: Filter, order: Order) -> bool:
        """Tell whether a query can be answered at once."""
        wanted = _wanted(filter, order)
        missing = [path for path in wanted if self._is_missing(path)]
        if missing and self._rows.end > CHUNK:
            return False
        if missing and not self._lock.locked():
            self._make_at_once(missing)
        if any(map(self._is_missing, wanted)) or len(self._rows.changed or ()) > AT_ONCE:
            return False
        return not any(True for _ in self._judging(filter))

    async def build(self, filter: Filter, order: Order, work: Work) -> None:
        """Make what a query needs, in steps; others get turns in between."""
        await self._make(_wanted(filter, order), [], work)
        while len(self._rows.changed or ()) > AT_ONCE:
            began = time.monotonic()
            self._refresh(CHUNK)
            work(time.monotonic() - began)
            await asyncio.sleep(0)
        for _ in self._judging(filter):
            await asyncio.sleep(0)

    def _judging(self, filter: Filter) -> Iterator[None]:
        """Let columns judge the strings that they have not judged yet, some milliseconds of work at a step."""
        terms = [term for term in _split(filter)[0] if needed_paths([term]) <= self._columns.keys()]
        yield from prepare(terms, self._columns)

    def _is_missing(self, path: Path) -> bool:
        if path in self._columns:
            return False
        refused = self._refused.get(path)
        return refused is None or self._rows.end < refused // 2

    async def _make(self, paths: Iterable[Path], hashes: list[HashIndex], work: Work) -> None:
        async with self._lock:
            columns = [Column(path) for path in paths if self._is_missing(path)]
            if not columns and not hashes:
                return
            self._begin(columns, hashes)
            try:
                start = 0
                while start < self._rows.end:
                    began = time.monotonic()
                    self._fill(start, columns, hashes)
                    start += CHUNK
                    work(time.monotonic() - began)
                    await asyncio.sleep(0)
                self._done(columns, hashes)
            finally:
                self._making = []

    def _make_at_once(self, paths: Iterable[Path]) -> None:
        columns = [Column(path) for path in paths]
        self._begin(columns, [])
        self._fill(0, columns, [])
        self._done(columns, [])
        self._making = []

    def _begin(self, columns: list[Column], hashes: list[HashIndex]) -> None:
        self._making = [*columns, *hashes]
        if self._rows.changed is None:
            self._rows.changed = set()

    def _fill(self, start: int, columns: list[Column], hashes: list[HashIndex]) -> None:
        """Take the next rows into new indexes; those taken before are kept up to date meanwhile."""
        bodies = self._rows.bodies[start : start + CHUNK]
        self._put(
            slice(start, start + len(bodies)), range(start, start + len(bodies)), bodies, columns, hashes
        )

    def _done(self, columns: list[Column], hashes: list[HashIndex]) -> None:
        self._columns |= {column.path: column for column in columns}
        self._hashes += hashes
        for path in self._memory.make_room(self, [column.path for column in columns]):
            self._refused[path] = self._rows.end

    # keeping up to date

    def keep_up(self) -> None:
        """Take in some of the changed rows, if they have become many."""
        if len(self._rows.changed or ()) > AT_ONCE:
            self._refresh(2 * CHUNK)

    def _refresh(self, limit: int | None = None) -> None:
        changed = self._rows.changed
        if not changed:
            return
        numbers = list(changed) if limit is None else [changed.pop() for _ in range(min(limit, len(changed)))]
        if limit is None:
            changed.clear()
        columns = [*self._columns.values(), *(made for made in self._making if isinstance(made, Column))]
        hashes = [*self._hashes, *(made for made in self._making if isinstance(made, HashIndex))]
        bodies = [self._rows.bodies[number] for number in numbers]
        for start in range(0, len(numbers), CHUNK):
            some = numbers[start : start + CHUNK]
            self._put(np.array(some), some, bodies[start : start + CHUNK], columns, hashes)

    def _put(
        self,
        where: slice | RowNumbers,
        numbers: Sequence[int],
        bodies: list[bytes | None],
        columns: list[Column],
        hashes: list[HashIndex],
    ) -> None:
        paths = tuple(dict.fromkeys([c.path for c in columns] + [p for h in hashes for p in h.paths]))
        if not paths or not bodies:
            return
        values = dict(zip(paths, _reader(paths)(bodies), strict=True))
        for column in columns:
            column.put_rows(where, values[column.path])
        for index in hashes:
            entries = zip(numbers, bodies, *(values[path] for path in index.paths), strict=True)
            for number, body, *fields in entries:
                if body is None:
                    index.clear(number)
                else:
                    index.put(number, fields)

    # memory

    @property
    def nbytes(self) -> int:
        """An estimate of the memory that all indexes take."""
        columns = sum(column.nbytes for column in self._columns.values())
        return columns + sum(index.nbytes for index in self._hashes)

    @property
    def paths(self) -> frozenset[Path]:
        """The paths that have a memo index."""
        return frozenset(self._columns)

    def bytes_of(self, path: Path) -> int:
        """An estimate of the memory that one memo index takes."""
        return self._columns[path].nbytes

    def drop(self, path: Path) -> None:
        """Forget a memo index; a query that needs it makes it again."""
        self._columns.pop(path, None)

    # roads

    def road(self, filter: Filter, sow_keys: tuple[bytes, ...]) -> Road:
        """Return the road to the records that match, as they are at this instant."""
        if sow_keys:
            return Road(KEYS, checks=[(self._rows.found(sow_keys), filter)])
        keys = sow_keys_of(filter.tree, self._definition)
        if keys is not None:
            index = ",".join(self._definition.key)
            return Road(KEY, checks=[(self._rows.found(keys), filter)], index=index)
        self._refresh()
        return self._hash_road(filter) or self._memo_road(filter) or self._scan(filter)

    def _scan(self, filter: Filter) -> Road:
        note = ""
        if refused := [str(path) for path in _wanted(filter, Order()) if path in self._refused]:
            note = f"index_bytes_max leaves no room for {', '.join(refused)}"
        return Road(SCAN, checks=[(self._rows.all(), filter)], note=note)

    def _hash_road(self, filter: Filter) -> Road | None:
        found = [(rows, index) for index in self._hashes if (rows := index.lookup(filter.tree)) is not None]
        if not found:
            return None
        rows, index = min(found, key=lambda pair: len(pair[0]))
        if len(rows) * SELECTIVE > len(self._rows) > CHUNK:
            return None
        fields = ",".join(map(str, index.paths))
        return Road(HASH_INDEX, checks=[(np.array(sorted(rows), np.int64), filter)], index=fields)

    def _memo_road(self, filter: Filter) -> Road | None:
        """Let columns decide what they can: the closure of the rest, or of all, is asked of what they leave."""
        terms, others = _split(filter)
        usable = [term for term in terms if needed_paths([term]) <= self._columns.keys()]
        if not usable:
            return None
        rest = _filter_of(tuple(term for term in terms if term not in usable) + others)
        paths = needed_paths(usable)
        self._memory.use(self, paths)
        found = evaluate(usable, {path: self._columns[path] for path in paths}, self._rows.end)
        certain = np.flatnonzero(found.certain)
        road = Road(
            MEMO_INDEX,
            index=",".join(sorted(map(str, paths))),
            indexed=text_of(conjunction(usable)),
        )
        if rest is None:
            road.decided = certain
        else:
            road.checks.append((certain, rest))
        if found.undecided is not None and (undecided := np.flatnonzero(found.undecided)).size:
            road.checks.append((undecided, filter))
        return road

    def ranks(self, order: Order, rows: RowNumbers) -> list[NDArray[np.float64]] | None:
        """Return, for each term of the order, a number per row to sort by; None where columns can't tell."""
        found: list[NDArray[np.float64]] = []
        for term in order.terms:
            column = self._columns.get(term.path)
            of_all = None if column is None else ranks(column, self._rows.end, text=term.text)
            if of_all is None or (of_all.hard is not None and of_all.hard[rows].any()):
                return None
            values = of_all.values[rows]
            found.append(-values if term.descending else values)
        self._memory.use(self, order.paths)
        return found


@lru_cache(maxsize=1024)
def _split(filter: Filter) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """The conjuncts that columns can decide, and what is left as one conjunct, if anything is."""
    terms, rest = split(filter.tree)
    return tuple(terms), () if rest is None else (rest,)


@lru_cache(maxsize=1024)
def _filter_of(terms: tuple[Node, ...]) -> Filter | None:
    return Filter(conjunction(terms)) if terms else None


@lru_cache(maxsize=64)
def _reader(paths: tuple[Path, ...]) -> Callable[[Sequence[bytes | None]], Values]:
    return reader_of(paths)


def _wanted(filter: Filter, order: Order) -> list[Path]:
    """The paths of the memo indexes that a query would use."""
    return sorted(needed_paths(_split(filter)[0]) | order.paths, key=str)
