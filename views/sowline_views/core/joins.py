"""Joins: the records of other topics, which are added to each record of a view's source.

A record of the source finds its matches by the join key, the text that its fields make. Usually that is the SOW key
of the only match. A join that multiplies has its own join keys, and any number of matches: then a record of the
source makes a *row* for each of them.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

import orjson

from sowline.changes.change import Change
from sowline.errors import SowlineError
from sowline.model.path import Document
from sowline.model.position import position_of
from sowline_views.core.join_keys import NO_MATCH
from sowline_views.core.joined_tables import JoinedEvent, JoinedTables, MultipliedTable, Row, RowKeys
from sowline_views.core.native_groups import JoinedRow, NativeGroupedStates
from sowline_views.core.spilling import SpillCodec, SpillIndex, SpillMap
from sowline_views.core.states import Order, StateChange, States, group_key

ROWS_MAX: Final = 10_000
"""The maximum number of rows of one record of the source in a view with joins that multiply."""

JoinedRows = dict[bytes, Document]
"""By SOW key in the view, the rows that a record of the source makes with its matches."""

JoinKeys = list[tuple[int, bytes]]
"""The join keys that the rows of a record of the source look for, each with the number of its join."""


class MadeRows(NamedTuple):
    """The rows of a record of the source, and the join keys that they look for."""

    rows: JoinedRows
    keys: JoinKeys


TakenOut = list[tuple[bytes, MadeRows]]
"""Records that must be joined again, each with its earlier rows."""


class _Held(NamedTuple):
    """A record of the source: its body, when it last changed, and how many rows it makes."""

    body: bytes
    order: Order
    rows: int

    def encode(self) -> bytes:
        """Return it as bytes."""
        assert self.rows >= 0, "a count of rows is never negative"
        time, partition, position = self.order
        return _HELD.pack(time, partition, *position, self.rows) + self.body

    @classmethod
    def decode(cls, key: bytes, data: bytes) -> "_Held":
        """Return the record that `encode` has encoded."""
        time, partition, era, offset, nth, rows = _HELD.unpack_from(data)
        assert rows >= 0, "a count of rows is never negative"
        return cls(data[_HELD.size :], (time, partition, position_of((era, offset, nth))), rows)


_HELD: Final = Struct(">6q")

HELD_BYTES: Final = 300
"""Approximate bytes in memory of a record of the source, in addition to its body."""

_HELD_CODEC: Final = SpillCodec[_Held](_Held.encode, _Held.decode, lambda held: HELD_BYTES + len(held.body))


class _NativeRow(NamedTuple):
    """The only row of a record in joins on keys, if it has one, and the join keys that it looks for."""

    row: JoinedRow | None
    keys: JoinKeys


class _Only(NamedTuple):
    """Stands for the rows with one record of a joined topic: the number of the join, and the record's SOW key."""

    join: int
    sow_key: bytes


class JoinedStates:
    """The states of a view with joins in one source partition: joins the records, and keeps the states of the rows.

    It keeps the body of each record and, for each join, the records of each join key.
    """

    def __init__(self, tables: JoinedTables, states: States) -> None:
        self._tables = tables
        self._states = states
        self._native = states if isinstance(states, NativeGroupedStates) and states.has_join_keys else None
        self._held = SpillMap(tables.space, _HELD_CODEC)
        self._by_key = [SpillIndex(tables.space) for _ in tables.all]
        """For each join, by join key: records of the source, each with the number of rows that look for a match."""

    def close(self) -> None:
        """Remove all records. Call nothing else after that."""
        for part in (self._held, *self._by_key):
            part.close()

    def load(self, changes: Iterator[Change]) -> None:
        """Add the newest change of each live record."""
        for change in changes:
            assert change.body is not None, "a load has live records only"
            order, made = self._states.order_of(change), self._rows(change.sow_key, change.body)
            self._hold(change.sow_key, _Held(change.body, order, len(made.rows)))
            self._note(change.sow_key, [], made.keys)
            for row, document in made.rows.items():
                self._states.add(row, document, order)

    def take_loaded(self) -> Iterator[StateChange]:
        """Yield all states."""
        return self._states.take_loaded()

    def change(self, change: Change) -> Iterable[StateChange]:
        """Apply a change of the source; return the last state of each group that it changes."""
        made = None if self._native is None else self._changed_natively(self._native, change)
        return self._changed(change) if made is None else made

    def _changed_natively(
        self, native: NativeGroupedStates, change: Change
    ) -> Collection[StateChange] | None:
        """Apply a change of the source; return None, without any effect, if only Python can."""
        record, held = change.sow_key, self._held.get(change.sow_key)
        before = self._native_row(native, None if held is None else held.body)
        now = self._native_row(native, change.body)
        # Nothing is stored before this call: if only Python can read a record, it starts from the same state.
        made = None if before is None or now is None else native.change_rows(before.row, now.row)
        if before is None or now is None or made is None:
            return None
        if change.body is None:
            self._held.remove(record)
        else:
            rows = 0 if now.row is None else 1
            self._hold(record, _Held(change.body, native.order_of(change), rows))
        assert (self._held.get(record) is None) is (change.body is None), "exactly the live records are held"
        self._note(record, before.keys, now.keys)
        return made

    def _native_row(self, native: NativeGroupedStates, body: bytes | None) -> "_NativeRow | None":
        """Return the row of a record, as `_rows` does; None if only Python can find its matches."""
        if body is None:
            return _NativeRow(None, [])
        keys = native.join_keys(body)
        if keys is None:
            return None
        noted: JoinKeys = []
        joined: list[bytes | None] = []
        for number, (table, key) in enumerate(zip(self._tables.all, keys, strict=True)):
            noted.append((number, key))
            # The key is noted even without a match: by it, this record is found when its match arrives.
            match = table.body(key)
            if match is None and table.join.kind == "inner":
                return _NativeRow(None, noted)
            joined.append(match)
        return _NativeRow((body, joined), noted)

    def _changed(self, change: Change) -> Iterable[StateChange]:
        record, order = change.sow_key, self._states.order_of(change)
        held = self._held.get(record)
        before = now = MadeRows({}, [])
        if held is not None:
            before = self._rows(record, held.body)
        if change.body is None:
            self._held.remove(record)
        else:
            now = self._rows(record, change.body)
            self._hold(record, _Held(change.body, order, len(now.rows)))
        self._note(record, before.keys, now.keys)
        last: dict[str, StateChange] = {}
        assert (self._held.get(record) is None) is (change.body is None), "exactly the live records are held"
        self._replace(before.rows, now.rows, order, last)
        return last.values()

    def concerned(self, event: JoinedEvent) -> list[bytes]:
        """Return the records that a joined record belongs to, before or after its change, which is not taken yet."""
        change = event.change
        if change is None:
            return []
        found = {
            record
            for number in self._tables.of(event.log)
            for key in self._tables.all[number].concerned(change)
            for record in self._by_key[number].members(key)
        }
        return sorted(found)

    def take_out(self, event: JoinedEvent, records: Iterable[bytes]) -> TakenOut:
        """Return the rows of some of these records; `take_in` replaces them after the change."""
        only = self._only(event)
        return [(record, self._rows(record, self._of(record).body, only)) for record in records]

    def take_in(self, event: JoinedEvent, taken_out: TakenOut) -> Iterable[StateChange]:
        """Replace the rows that were taken out with the current ones; return the last state of each group."""
        only = self._only(event)
        last: dict[str, StateChange] = {}
        for record, before in taken_out:
            held = self._of(record)
            now = self._rows(record, held.body, only)
            # With an `only`, these are just the rows with one joined record. The other rows stay.
            if len(now.rows) != len(before.rows):
                self._hold(record, held._replace(rows=held.rows - len(before.rows) + len(now.rows)))
            self._note(record, before.keys, now.keys)
            self._replace(before.rows, now.rows, held.order, last)
        return last.values()

    def _only(self, event: JoinedEvent) -> _Only | None:
        """Return which rows a change of a joined record can affect; None if it can affect any row."""
        numbers = self._tables.of(event.log)
        # In a topic that is joined twice, a change may affect rows of either join (test_joins_equal_a_recomputation).
        if event.change is None or len(numbers) > 1:
            return None
        assert numbers, "an event is of a joined topic"
        if not isinstance(self._tables.all[numbers[0]], MultipliedTable):
            return None
        return _Only(numbers[0], event.change.sow_key)

    def _replace(
        self, before: JoinedRows, now: JoinedRows, order: Order, last: dict[str, StateChange]
    ) -> None:
        for row in {**before, **now}:
            for one in self._states.replace(row, before.get(row), now.get(row), order):
                # Several rows of a record may be in one group: a state between them would show half a change.
                last[one.key] = one

    def _of(self, record: bytes) -> _Held:
        held = self._held.get(record)
        assert held is not None, "an index has only records that are held"
        return held

    def _hold(self, record: bytes, held: _Held) -> None:
        self._held[record] = held
        _require_few(record, held.rows)

    def _note(self, record: bytes, before: JoinKeys, now: JoinKeys) -> None:
        """Note that the rows of a record look for other join keys than before."""
        if before == now:
            return
        # Counted, because two rows of a record may look for one key. When one of them stops, the other must still see
        # that key's changes (test_joins_equal_a_recomputation).
        counts = Counter(now)
        counts.subtract(before)
        assert counts.total() == len(now) - len(before), "each key is counted as often as it is looked for"
        for (number, key), count in counts.items():
            if count:
                self._by_key[number].add(key, record, count)

    def _rows(self, record: bytes, body: bytes, only: _Only | None = None) -> MadeRows:
        """Return a record's rows as the joined topics are now; with `only`, just the rows with that record."""
        rows: list[Row] = [((record,), orjson.loads(body))]
        noted: JoinKeys = []
        for number, table in enumerate(self._tables.all):
            joined: list[Row] = []
            for keys, document in rows:
                if (key := table.key_of(document)) != NO_MATCH:
                    noted.append((number, key))
                found: Collection[bytes] | None
                if only is not None and only.join == number and isinstance(table, MultipliedTable):
                    found = table.only(key, only.sow_key)
                else:
                    found = table.matches(key)
                # None: only other records match, so these rows stay as they are.
                if found is not None:
                    _require_few(record, len(joined) + len(found))
                    joined += table.rows(keys, document, found)
            rows = joined
        return MadeRows({_row_key(keys): document for keys, document in rows}, noted)


def _require_few(record: bytes, rows: int) -> None:
    # Joins that multiply make the product of their matches: it must not fill the memory.
    if rows > ROWS_MAX:
        raise SowlineError(
            "too large",
            f"expected at most {ROWS_MAX} rows for each record of the source, got more for {record.decode()}: join by"
            " more fields, or without multiply",
        )


def _row_key(keys: RowKeys) -> bytes:
    """Return the SOW key of a row: the key of its only record, or several keys as JSON, hashed if that is long."""
    assert keys[0], "no SOW key is empty"
    # Without a join that multiplies, the view's records keep the keys of the source: readers look them up by these.
    if len(keys) == 1:
        return keys[0]
    return group_key(orjson.dumps([None if key is None else key.decode() for key in keys])).encode()
