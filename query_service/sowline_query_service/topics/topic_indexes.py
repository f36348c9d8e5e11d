"""The indexes of one topic, and the choice of an access path for a query.

A memo index is made when a query first needs it, or at the start if the topic's definition names it. Hash indexes are
made at the start. Changed rows are noted and indexed some thousands at a time, at the latest when a query needs them.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType

import numpy as np

from sowline.config.topic_definition import TopicDefinition
from sowline.language.expressions.order import Order
from sowline.language.filter import ALL, Filter
from sowline.language.filter.tree import Node, conjunction
from sowline.model.path import Path, parse_path
from sowline.serving.cooperative import Spend, in_steps, uncounted
from sowline_query_service.index.access_path import HASH_INDEX, KEY, KEYS, MEMO_INDEX, SCAN, AccessPath
from sowline_query_service.index.budget import Memory
from sowline_query_service.index.column import Column
from sowline_query_service.index.dictionary import Dictionary
from sowline_query_service.index.filling import NATIVE_BODIES_MAX, index_rows
from sowline_query_service.index.hash_index import HashIndex
from sowline_query_service.index.key_lookup import sow_keys_of
from sowline_query_service.index.ranks import Ranks, Sorting, ranks
from sowline_query_service.index.refusals import Refusals
from sowline_query_service.index.rows import Rows
from sowline_query_service.index.vector import evaluate, needed_paths, prepare, split

TURN_ROWS_MAX = 1000
"""Bodies to read before other tasks run."""

AT_ONCE = 5000
"""Changed rows up to which a query indexes them in one step."""

TEXTS_AT_ONCE = 10_000
DICTIONARY_BYTES_AT_ONCE = 1 << 20
"""Limits of a dictionary. Above them, its strings are compared with a filter in steps, before the query."""

RANKED_SHARE = 100
"""If a query sorts less than one in this many rows, reading their bodies is faster than ranking all rows."""

PREPARED_MAX = 1000

SELECTIVE = 10
"""A hash index that finds more than one in this many records is not used: memo indexes are faster then."""

_DONE = object()


@dataclass(frozen=True, slots=True)
class IndexStatistics:
    """The kind of an index, the paths of its fields, an estimate of its memory, and how many queries have used it."""

    kind: str
    fields: str
    bytes: int
    uses: int


class Indexes:
    """All indexes over the rows of one topic; used from the event loop only."""

    def __init__(
        self, definition: TopicDefinition, rows: Rows, memory: Memory, native: ModuleType | None = None
    ) -> None:
        """Make no index yet. `native` is the module of the native core."""
        self._native = native
        self._definition = definition
        self._rows = rows
        self._memory = memory
        self._columns: dict[Path, Column] = {}
        self._hashes: list[HashIndex] = []
        self._making: list[Column | HashIndex] = []
        self._lock = asyncio.Lock()
        self._refusals = Refusals()
        self._unweighed = 0
        """Rows indexed since the memory of the indexes was last compared with its limit."""
        self._uses: Counter[str] = Counter()
        """The number of queries that searched or sorted with an index, by its fields."""
        self._prepared: set[Filter] = set()
        """The filters of queries that are about to start, with strings already compared."""
        self._keys_of = lru_cache(maxsize=4)(lambda filter: sow_keys_of(filter.tree, definition))
        memory.add(self)

    # making

    async def make_declared(self) -> None:
        """Make the indexes that the topic's definition names."""
        await self._make(*_declared(self._definition), uncounted)
        # The definition may have changed meanwhile.
        self._hashes = [index for index in self._hashes if index.paths in _hashed(self._definition)]

    def redefine(self, definition: TopicDefinition) -> None:
        """Take another definition, and drop hash indexes that it does not have; `make_declared` makes the others."""
        self._definition = definition
        self._hashes = [index for index in self._hashes if index.paths in _hashed(definition)]

    def at_hand(self, filter: Filter, order: Order) -> bool:
        """Return whether a query can start at once; make missing indexes if the topic is small."""
        wanted = self._wanted(filter, order)
        missing = self._missing(wanted)
        if missing and self._rows.end > TURN_ROWS_MAX:
            return False
        if missing and not self._lock.locked():  # one that is being made must not be made twice
            self._make_at_once(wanted)
        if self._missing(wanted) or len(self._rows.changed or ()) > AT_ONCE:
            return False
        return filter in self._prepared or next(self._prepare(filter), _DONE) is _DONE

    async def build(self, filter: Filter, order: Order, work: Spend) -> None:
        """Make the indexes that a query needs, in steps; other tasks run in between."""
        await self._make(self._wanted(filter, order), [], work)
        await in_steps(self._prepare(filter), work)
        self._note_prepared(filter)
        await in_steps(self._catch_up(), work)

    def _wanted(self, filter: Filter, order: Order) -> frozenset[Path]:
        """Return the paths whose memo indexes a query would use; none if keys or a hash index find few records."""
        if self._keys_of(filter) is not None or self._found(filter) is not None:
            return frozenset()
        return needed_paths(_split(filter)[0]) | order.paths

    def _missing(self, wanted: frozenset[Path]) -> list[Path]:
        """Return the paths whose memo indexes must be made first, in the order of their names."""
        missing = (p for p in wanted if p not in self._columns and not self._refusals.applies(p, wanted))
        return sorted(missing, key=str)

    def _prepare(self, filter: Filter) -> Iterator[None]:
        """Compare the strings of long dictionaries with the filter, some milliseconds of work in each step."""
        terms = self._usable(filter)
        columns = {path: self._columns[path] for path in needed_paths(terms)}
        if any(_is_long(column.dictionary) for column in columns.values()):
            yield from prepare(terms, columns)

    def _note_prepared(self, filter: Filter) -> None:
        # Results may be dropped from the cache, and changes may bring new strings. A query that prepared again each
        # time might never start, so it waits only once.
        if len(self._prepared) >= PREPARED_MAX:
            self._prepared.clear()
        self._prepared.add(filter)

    def _catch_up(self) -> Iterator[None]:
        while len(self._rows.changed or ()) > AT_ONCE:
            self._refresh(TURN_ROWS_MAX)
            yield

    async def _make(self, wanted: frozenset[Path], hashes: list[HashIndex], work: Spend) -> None:
        async with self._lock:  # before looking: another query may be making the same index
            columns = [Column(path) for path in self._missing(wanted)]
            hashes = [one for one in hashes if all(one.paths != index.paths for index in self._hashes)]
            if columns or hashes:
                with self._being_made(columns, hashes, wanted) as filling:
                    await in_steps(filling, work)

    def _make_at_once(self, wanted: frozenset[Path]) -> None:
        with self._being_made([Column(path) for path in self._missing(wanted)], [], wanted) as filling:
            deque(filling, maxlen=0)

    @contextmanager
    def _being_made(
        self, columns: list[Column], hashes: list[HashIndex], wanted: frozenset[Path]
    ) -> Iterator[Iterator[None]]:
        """Lend the steps that fill new indexes; after them, the indexes exist."""
        assert not self._making, "some indexes are made at a time"
        self._making = [*columns, *hashes]
        self._refusals.awaited(wanted)
        self._use(wanted)
        if self._rows.changed is None:
            self._rows.changed = set()  # from here on: a row may change after its step
        try:
            yield self._fill_all(columns, hashes)
            self._done(columns, hashes)
        finally:
            self._making = []

    def _fill_all(self, columns: list[Column], hashes: list[HashIndex]) -> Iterator[None]:
        """Add the rows to new indexes in steps. `_refresh` keeps rows that were added before up to date."""
        for column in columns:
            column.reserve(self._rows.end)
        step = TURN_ROWS_MAX if self._native is None or hashes else NATIVE_BODIES_MAX
        start = 0
        while start < self._rows.end:
            stop = min(start + step, self._rows.end)
            rows = slice(start, stop), range(start, stop)
            index_rows(self._native, *rows, self._rows.bodies, start, columns, hashes)
            start = stop
            yield

    def _done(self, columns: list[Column], hashes: list[HashIndex]) -> None:
        assert all(column.path not in self._columns for column in columns), "an index is made once"
        self._columns |= {column.path: column for column in columns}
        self._hashes += hashes
        assert len({index.paths for index in self._hashes}) == len(self._hashes), "an index is made once"
        for column in columns:
            self._refusals.made(column.path)
        self._use(column.path for column in columns)
        self._memory.make_room()

    # keeping up to date

    def keep_up(self, left_max: int = AT_ONCE) -> None:
        """If more than `left_max` changed rows wait, index some, so that at most that many are left for a query."""
        changed = len(self._rows.changed or ())
        if changed > left_max:
            self._refresh(max(2 * TURN_ROWS_MAX, changed - left_max))

    def _refresh(self, rows_max: int | None = None) -> None:
        changed = self._rows.changed
        if not changed:
            return
        numbers = (
            list(changed) if rows_max is None else [changed.pop() for _ in range(min(rows_max, len(changed)))]
        )
        if rows_max is None:
            changed.clear()
        columns = [*self._columns.values(), *(made for made in self._making if isinstance(made, Column))]
        hashes = [*self._hashes, *(made for made in self._making if isinstance(made, HashIndex))]
        bodies = [self._rows.bodies[number] for number in numbers]
        for start in range(0, len(numbers), TURN_ROWS_MAX):
            some = numbers[start : start + TURN_ROWS_MAX]
            index_rows(self._native, np.array(some), some, bodies, start, columns, hashes)
        assert rows_max is not None or not self._rows.changed, "after a whole refresh no row is behind"
        self._unweighed += len(numbers)
        if self._unweighed >= TURN_ROWS_MAX:
            self._unweighed = 0
            self._memory.make_room()

    # memory

    def _use(self, paths: Iterable[Path]) -> None:
        self._memory.use(self, [path for path in paths if path in self._columns])

    @property
    def nbytes(self) -> int:
        """The estimated memory of all indexes, in bytes."""
        columns = sum(column.nbytes for column in self._columns.values())
        return columns + sum(index.nbytes for index in self._hashes)

    def statistics(self) -> tuple[IndexStatistics, ...]:
        """Return the statistics of each index, without the changed rows that `keep_up` has left."""
        hashes = ((HASH_INDEX, ",".join(map(str, index.paths)), index.nbytes) for index in self._hashes)
        memos = ((MEMO_INDEX, str(path), column.nbytes) for path, column in self._columns.items())
        return tuple(
            IndexStatistics(kind, fields, nbytes, self._uses[fields])
            for kind, fields, nbytes in (*hashes, *memos)
        )

    @property
    def paths(self) -> frozenset[Path]:
        """The paths that have a memo index."""
        return frozenset(self._columns)

    def bytes_of(self, path: Path) -> int:
        """Return the estimated memory of one memo index, in bytes."""
        return self._columns[path].nbytes

    def drop(self, path: Path, *, was_alone: bool = False) -> None:
        """Drop a memo index; a query that needs it makes it again if there is enough memory."""
        del self._columns[path]
        self._refusals.dropped(path)
        if was_alone:
            self._refusals.too_large(path)

    # access paths

    def access_path(self, filter: Filter, sow_keys: tuple[bytes, ...]) -> AccessPath:
        """Return the access path to the records that match at this instant."""
        if sow_keys:
            return AccessPath(KEYS, checks=[(self._rows.found(sow_keys), filter)], keys=sow_keys)
        if filter == ALL:
            return AccessPath(SCAN, decided=self._rows.all())
        keys = self._keys_of(filter)
        if keys is not None:
            index = ",".join(self._definition.key_sent)
            return AccessPath(KEY, checks=[(self._rows.found(keys), filter)], index=index, keys=tuple(keys))
        self._use(needed_paths(_split(filter)[0]))  # first: a refresh may drop the least recently used
        self._refresh()
        access_path = self._hash_path(filter)
        if access_path is None:
            access_path = self._memo_path(filter) or AccessPath(SCAN, checks=[(self._rows.all(), filter)])
            access_path.note = self._note(filter)
        self._prepared.discard(filter)
        self._refusals.answered(needed_paths(_split(filter)[0]))
        return access_path

    def blank_paths(self, filter: Filter, order: Order) -> frozenset[Path]:
        """Return the paths of a filter and an order whose memo indexes have never held a value."""
        paths = needed_paths(_split(filter)[0]) | order.paths
        return frozenset(path for path in paths if path in self._columns and self._columns[path].is_blank)

    def drop_mistyped(self, filter: Filter, order: Order) -> None:
        """Drop the memo indexes without a value that one query has used: its fields are most often typing errors.

        A second query shows that the field is meant, and keeps the index.
        """
        declared = set(map(parse_path, self._definition.declared.indexes))
        for path in self.blank_paths(filter, order) - declared:
            if self._uses[str(path)] <= 1:
                self._memory.forget(self, path)
                self.drop(path)

    def _note(self, filter: Filter) -> str:
        """Return a note if the memory limit prevented a better access path; otherwise an empty text."""
        lacking = needed_paths(_split(filter)[0]) - self._columns.keys()
        names = ", ".join(sorted(str(path) for path in lacking if path in self._refusals))
        return f"index_bytes_max leaves no room for {names}" if names else ""

    def _hash_path(self, filter: Filter) -> AccessPath | None:
        found = self._found(filter)
        if found is None:
            return None
        rows, index = found
        fields = ",".join(map(str, index.paths))
        self._uses[fields] += 1
        return AccessPath(HASH_INDEX, checks=[(np.array(sorted(rows), np.int64), filter)], index=fields)

    def _found(self, filter: Filter) -> tuple[list[int], HashIndex] | None:
        """Return the rows that the best hash index finds, and that index; None if no index finds few enough."""
        found = [(rows, index) for index in self._hashes if (rows := index.lookup(filter.tree)) is not None]
        if not found:
            return None
        rows, index = min(found, key=lambda pair: len(pair[0]))
        return None if len(rows) * SELECTIVE > len(self._rows) > TURN_ROWS_MAX else (rows, index)

    def _usable(self, filter: Filter) -> list[Node]:
        """Return the conjuncts whose memo indexes exist."""
        return [term for term in _split(filter)[0] if needed_paths([term]) <= self._columns.keys()]

    def _memo_path(self, filter: Filter) -> AccessPath | None:
        """Return an access path through memo indexes; None if none of them applies.

        The filter's other conjuncts are checked for rows that the columns accept, and the whole filter for rows that
        the columns can't decide.
        """
        terms, others = _split(filter)
        usable = self._usable(filter)
        if not usable:
            return None
        rest = _filter_of(tuple(term for term in terms if term not in usable) + others)
        columns = {path: self._columns[path] for path in needed_paths(usable)}
        self._uses.update(map(str, columns))
        return _path_by_columns(filter, usable, rest, columns, self._rows.end)

    def sorting(self, order: Order, count: int) -> Sorting | None:
        """Return a way to sort `count` rows by ranks; None if columns can't provide it, or it is faster without."""
        self._refusals.answered(order.paths)
        if count * RANKED_SHARE < self._rows.end or not order.paths <= self._columns.keys():
            return None
        self._use(order.paths)
        self._uses.update(map(str, order.paths))
        self._refresh()
        return _sorting(order, self._columns, self._rows.end)


def _sorting(order: Order, columns: Mapping[Path, Column], rows: int) -> Sorting | None:
    """Return the ranks of all rows for each term of an order; None if columns can't provide them."""
    found: list[Ranks] = []
    for term in order.terms:
        column = columns.get(term.path)
        of_all = None if column is None else ranks(column, rows, text=term.text)
        if of_all is None:
            return None
        found.append(of_all)
    return Sorting(tuple(found), tuple(term.descending for term in order.terms))


def _path_by_columns(
    filter: Filter, usable: list[Node], rest: Filter | None, columns: Mapping[Path, Column], end: int
) -> AccessPath:
    """Return the access path by columns that decide the `usable` conjuncts; `rest` are the others."""
    found = evaluate(usable, columns, end)
    assert len(found.certain) == end, "each row is judged"
    certain = np.flatnonzero(found.certain)
    fields = ",".join(sorted(map(str, columns)))
    access_path = AccessPath(MEMO_INDEX, index=fields, indexed=tuple(usable))
    if rest is None:
        access_path.decided = certain
    else:
        access_path.checks.append((certain, rest))
    # By the whole filter, not by `rest`: in these rows the columns could not decide their own conjuncts
    # (test_access_paths).
    if found.undecided is not None and (undecided := np.flatnonzero(found.undecided)).size:
        access_path.checks.append((undecided, filter))
    return access_path


@lru_cache(maxsize=1024)
def _split(filter: Filter) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """Return the conjuncts that columns can decide, and the rest as one conjunct, if there is any."""
    terms, rest = split(filter.tree)
    return tuple(terms), () if rest is None else (rest,)


@lru_cache(maxsize=1024)
def _filter_of(terms: tuple[Node, ...]) -> Filter | None:
    return Filter(conjunction(terms)) if terms else None


def _is_long(dictionary: Dictionary) -> bool:
    return len(dictionary) > TEXTS_AT_ONCE or dictionary.nbytes > DICTIONARY_BYTES_AT_ONCE


def _declared(definition: TopicDefinition) -> tuple[frozenset[Path], list[HashIndex]]:
    """Return the paths of the memo indexes that a definition names, and new hash indexes."""
    paths = frozenset(map(parse_path, definition.declared.indexes))
    return paths, [HashIndex(fields) for fields in _hashed(definition)]


def _hashed(definition: TopicDefinition) -> list[tuple[Path, ...]]:
    """Return the fields of each hash index that a definition names."""
    return [tuple(map(parse_path, fields)) for fields in definition.declared.hash_indexes]
