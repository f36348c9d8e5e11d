"""Joins: the records of other topics, which are added to each record of a view's source.

A joined topic is held whole: all of its partitions, by SOW key, in memory or on disk (`sowline_views.core.spilling`).
A record of the source finds its matches by the join key, the text that its fields make. Usually that is the SOW key
of the only match. A join that multiplies has its own join keys, and any number of matches: then a record of the
source makes a *row* for each of them.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

import orjson

from sowline.changes.change import Change
from sowline.config.topic_definition import TopicDefinition
from sowline.config.views import Join
from sowline.errors import SowlineError
from sowline.language.groups.layout import grouped_value
from sowline.model.bookmark import PositionsByLog
from sowline.model.key import key_text
from sowline.model.path import Document, Path, reader
from sowline.model.position import Position, position_of
from sowline_views.core.spilling import BYTES, SpillCodec, SpillIndex, SpillMap, SpillSpace
from sowline_views.core.states import Order, StateChange, States, group_key

NO_MATCH: Final = b""
"""The join key of a record that has none: a field is absent, or can't be a key. No SOW key is empty."""

ROWS_MAX: Final = 10_000
"""Rows that a record of the source makes in a view with joins that multiply."""

JoinKeyOf = Callable[[Document], bytes]


class JoinedEvent(NamedTuple):
    """An event of a joined topic: the position in its log, and the change if it is one."""

    log: str
    partition: int
    position: Position
    change: Change | None = None


class JoinedTable:
    """The records of a joined topic."""

    def __init__(self, join: Join, topic: TopicDefinition, space: SpillSpace | None = None) -> None:
        """Hold the records in `space`; without one, all of them in memory."""
        self.join = join
        self.topic = topic
        self.space = SpillSpace() if space is None else space
        self._key_of = _source_key(join, topic)
        self._own_key_of = _text_key([theirs for _, theirs in join.equalities]) if join.multiply else None
        self._bodies = SpillMap(self.space, BYTES)
        self._by_key = SpillIndex(self.space)
        """In a join that multiplies, the SOW keys of the records with a join key."""

    def put(self, change: Change) -> None:
        """Take a change of the topic."""
        sow_key = change.sow_key
        if self._own_key_of is not None:
            before, now = self._own_key(self._bodies.get(sow_key)), self._own_key(change.body)
            if before not in (NO_MATCH, now):
                self._by_key.add(before, sow_key, -1)
            if now not in (NO_MATCH, before):
                self._by_key.add(now, sow_key, 1)
        if change.body is None:
            self._bodies.remove(sow_key)
        else:
            self._bodies[sow_key] = change.body

    def _own_key(self, body: bytes | None) -> bytes:
        """Return the join key of a record of the topic, in a join that multiplies."""
        return NO_MATCH if body is None or self._own_key_of is None else self._own_key_of(orjson.loads(body))

    def concerned(self, change: Change) -> set[bytes]:
        """Return the join keys of records that a change of the topic, which is not taken yet, concerns."""
        if self._own_key_of is None:
            return {change.sow_key}
        return {self._own_key(body) for body in (self._bodies.get(change.sow_key), change.body)} - {NO_MATCH}

    def key_of(self, document: Document) -> bytes:
        """Return the join key of a record of the source; `NO_MATCH` if it can have none."""
        return self._key_of(document)

    def matches(self, key: bytes) -> Collection[bytes]:
        """Return the SOW keys of the records with a join key."""
        if self._own_key_of is None:
            return () if self._bodies.get(key) is None else (key,)
        return self._by_key.members(key)

    def has_match(self, key: bytes, sow_key: bytes) -> bool:
        """Whether a record has a join key, in a join that multiplies."""
        return self._by_key.has(key, sow_key)

    def has_matches(self, key: bytes) -> bool:
        """Whether any records have a join key, in a join that multiplies."""
        return self._by_key.has_any(key)

    def get(self, sow_key: bytes) -> Document:
        """Return the record with a SOW key."""
        body = self._bodies.get(sow_key)
        assert body is not None, "it is a match"
        document: Document = orjson.loads(body)
        return document


class JoinedTables:
    """The tables of a view's joins, and up to which position of each joined topic they were filled."""

    def __init__(self, tables: Sequence[JoinedTable]) -> None:
        """`tables` are in one space."""
        self.all = tables
        self.taken: PositionsByLog = {}
        """By the log of a joined topic, the position of each partition that was taken."""

    def __bool__(self) -> bool:
        return bool(self.all)

    @property
    def space(self) -> SpillSpace:
        """The space of the tables."""
        return self.all[0].space

    def of(self, log: str) -> list[int]:
        """Return the numbers of the joins of the topic with this log."""
        return [number for number, table in enumerate(self.all) if table.topic.log == log]

    def put(self, event: JoinedEvent) -> None:
        """Take an event into all tables of its topic."""
        self.taken.setdefault(event.log, {})[event.partition] = event.position
        if event.change is not None:
            for number in self.of(event.log):
                self.all[number].put(event.change)


def _source_key(join: Join, topic: TopicDefinition) -> JoinKeyOf:
    """Return a function that makes the join key from fields of a record of the source."""
    if join.multiply:
        return _text_key([own for own, _ in join.equalities])
    identity = topic.identity
    return _grouped_key(join, identity) if identity.view is not None else _field_key(join, identity)


def _text_key(paths: Sequence[Path]) -> JoinKeyOf:
    """Return a function that makes the key text of some fields; `NO_MATCH` if they can't be a key."""
    readers = [(str(number), reader(path)) for number, path in enumerate(paths)]
    names = [(name,) for name, _ in readers]

    def key_of(document: Document) -> bytes:
        values: dict[str, Any] = {name: read(document) for name, read in readers}
        try:
            return key_text(values, names).encode()
        except SowlineError:
            return NO_MATCH

    return key_of


def _field_key(join: Join, topic: TopicDefinition) -> JoinKeyOf:
    """Return a function that makes the SOW key from fields of a document, as the topic does from its key fields."""
    ours = {tuple(map(str, theirs.steps)): own for own, theirs in join.equalities}
    text_of, rule = _text_key([ours[path] for path in topic.key_paths]), topic.key_rule

    def key_of(document: Document) -> bytes:
        text = text_of(document)
        return NO_MATCH if text == NO_MATCH else rule.sow_key(text.decode())

    return key_of


def _grouped_key(join: Join, topic: TopicDefinition) -> JoinKeyOf:
    """Return a function that makes the SOW key of a group from fields of a document."""
    ours = {str(theirs): reader(own) for own, theirs in join.equalities}
    assert topic.view is not None
    readers = [ours[str(path)] for path in topic.view.grouping_paths]

    def key_of(document: Document) -> bytes:
        values = [grouped_value(read(document)) for read in readers]
        return group_key(orjson.dumps(values)).encode()

    return key_of


JoinedRows = dict[bytes, Document]
"""By their SOW keys in the view, what a record of the source makes with the records that belong to it."""

JoinKeys = list[tuple[int, bytes]]
"""The join keys that the rows of a record of the source look for, each with the number of its join."""


class MadeRows(NamedTuple):
    """The rows of a record of the source, and the join keys that they look for."""

    rows: JoinedRows
    keys: JoinKeys


TakenOut = list[tuple[bytes, MadeRows]]
"""Records that are to be joined again, each with its rows before."""


_RowKeys = tuple[bytes, *tuple[bytes | None, ...]]
"""The SOW key of a record of the source, and those of its matches in joins that multiply; None for no match."""

_Row = tuple[_RowKeys, Document]


class _Held(NamedTuple):
    """A record of the source: its body, when it last changed, and how many rows it makes."""

    body: bytes
    order: Order
    rows: int

    def encode(self) -> bytes:
        """Return it as bytes."""
        time, partition, position = self.order
        return _HELD.pack(time, partition, *position, self.rows) + self.body

    @classmethod
    def decode(cls, key: bytes, data: bytes) -> "_Held":
        """Return what `encode` has encoded."""
        time, partition, era, offset, nth, rows = _HELD.unpack_from(data)
        return cls(data[_HELD.size :], (time, partition, position_of((era, offset, nth))), rows)


_HELD: Final = Struct(">6q")

HELD_BYTES: Final = 300
"""Approximate bytes in memory of a record of the source, in addition to its body."""

_HELD_CODEC: Final = SpillCodec[_Held](_Held.encode, _Held.decode, lambda held: HELD_BYTES + len(held.body))


class _Only(NamedTuple):
    """Stands for the rows with one record of a joined topic: the number of the join, and the record's SOW key."""

    join: int
    sow_key: bytes

    def of(self, table: JoinedTable, key: bytes) -> list[bytes] | None:
        """Return the record if it has this join key; None if only others have it, which do not count here."""
        if table.has_match(key, self.sow_key):
            return [self.sow_key]
        return None if table.has_matches(key) else []


class JoinedStates:
    """The states of a view with joins in one source partition: its records, joined, in a view's states.

    It keeps the body of each record, and for each join which records have which join key.
    """

    def __init__(self, tables: JoinedTables, states: States) -> None:
        self._tables = tables
        self._states = states
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
            assert change.body is not None
            order, made = self._states.order_of(change), self._rows(change.sow_key, change.body)
            self._hold(change.sow_key, _Held(change.body, order, len(made.rows)))
            self._note(change.sow_key, [], made.keys)
            for row, document in made.rows.items():
                self._states.add(row, document, order)

    def all(self) -> Iterator[StateChange]:
        """Yield all states."""
        return self._states.all()

    def change(self, change: Change) -> Iterable[StateChange]:
        """Apply a change of the source; return the last state of each group that it changes."""
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
        self._replace(before.rows, now.rows, order, last)
        return last.values()

    def take_out(self, event: JoinedEvent) -> TakenOut:
        """Return the rows that a joined record belongs to; `take_in` replaces them after its change."""
        change = event.change
        if change is None:
            return []
        found = {
            record
            for number in self._tables.of(event.log)
            for key in self._tables.all[number].concerned(change)
            for record in self._by_key[number].members(key)
        }
        only = self._only(event)
        return [(record, self._rows(record, self._of(record).body, only)) for record in sorted(found)]

    def take_in(self, event: JoinedEvent, taken_out: TakenOut) -> Iterable[StateChange]:
        """Replace the rows that were taken out by those of now; return the last state of each group."""
        only = self._only(event)
        last: dict[str, StateChange] = {}
        for record, before in taken_out:
            held = self._of(record)
            now = self._rows(record, held.body, only)
            if len(now.rows) != len(before.rows):
                self._hold(record, held._replace(rows=held.rows - len(before.rows) + len(now.rows)))
            self._note(record, before.keys, now.keys)
            self._replace(before.rows, now.rows, held.order, last)
        return last.values()

    def _only(self, event: JoinedEvent) -> _Only | None:
        """Return the rows that a change of a joined record can concern; None if that may be any of its records'."""
        numbers = self._tables.of(event.log)
        if event.change is None or len(numbers) > 1 or not self._tables.all[numbers[0]].join.multiply:
            return None
        return _Only(numbers[0], event.change.sow_key)

    def _replace(
        self, before: JoinedRows, now: JoinedRows, order: Order, last: dict[str, StateChange]
    ) -> None:
        for row in {**before, **now}:
            for one in self._states.replace(row, before.get(row), now.get(row), order):
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
        counts = Counter(now)
        counts.subtract(before)
        for (number, key), count in counts.items():
            if count:
                self._by_key[number].add(key, record, count)

    def _rows(self, record: bytes, body: bytes, only: _Only | None = None) -> MadeRows:
        """Return the rows of a record as the joined topics are now; those with one joined record if there is an
        `only`.
        """
        rows: list[_Row] = [((record,), orjson.loads(body))]
        noted: JoinKeys = []
        for number, table in enumerate(self._tables.all):
            joined: list[_Row] = []
            for keys, document in rows:
                if (key := table.key_of(document)) != NO_MATCH:
                    noted.append((number, key))
                found = (
                    only.of(table, key) if only is not None and only.join == number else table.matches(key)
                )
                if found is not None:
                    _require_few(record, len(joined) + len(found))
                    joined += _with_matches(table, keys, document, found)
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


def _with_matches(
    table: JoinedTable, keys: _RowKeys, document: Document, found: Collection[bytes]
) -> Iterator[_Row]:
    """Yield a row with each match; without one, the row itself in a left join, and nothing in an inner join."""
    join = table.join
    if not found:
        if join.kind == "left":
            document.pop(join.name, None)
            yield ((*keys, None) if join.multiply else keys), document
        return
    for sow_key in sorted(found):
        row = {**document, join.name: table.get(sow_key)}
        yield ((*keys, sow_key) if join.multiply else keys), row


def _row_key(keys: _RowKeys) -> bytes:
    """Return the SOW key of a row: its record's, or those of several as JSON, or a hash if that is long."""
    if len(keys) == 1:
        return keys[0]
    return group_key(orjson.dumps([None if key is None else key.decode() for key in keys])).encode()
