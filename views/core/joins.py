"""Joins: the records of other topics, which are added to each record of a view's source.

A joined topic is held whole: all of its partitions, by SOW key. A record of the source finds its matches by the join
key, the text that its fields make. Usually that is the SOW key of the only match. A join that multiplies has its own
join keys, and any number of matches: then a record of the source makes a *row* for each of them.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import orjson

from sowline.config.topics import TopicDefinition
from sowline.config.views import Join
from sowline.errors import SowlineError
from sowline.groups.layout import grouped_value
from sowline.model.bookmark import PositionsByLog
from sowline.model.key import key_text
from sowline.model.path import Document, Path, reader
from sowline.model.position import Position
from sowline.protocol.change import Change
from views.core.states import Order, StateChange, States, group_key

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

    def __init__(self, join: Join, topic: TopicDefinition) -> None:
        self.join = join
        self.topic = topic
        self._key_of = _source_key(join, topic)
        self._own_key_of = _text_key([theirs for _, theirs in join.equalities]) if join.multiply else None
        self._bodies: dict[bytes, bytes] = {}
        self._by_key: defaultdict[bytes, set[bytes]] = defaultdict(set)
        """In a join that multiplies, the SOW keys of the records with a join key."""

    def put(self, change: Change) -> None:
        """Take a change of the topic."""
        sow_key = change.sow_key
        if (key := self._own_key(self._bodies.pop(sow_key, None))) != NO_MATCH:
            self._by_key[key].discard(sow_key)
            if not self._by_key[key]:
                del self._by_key[key]
        if change.body is not None:
            self._bodies[sow_key] = change.body
            if (key := self._own_key(change.body)) != NO_MATCH:
                self._by_key[key].add(sow_key)

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
            return (key,) if key in self._bodies else ()
        return self._by_key.get(key, ())

    def get(self, sow_key: bytes) -> Document:
        """Return the record with a SOW key."""
        document: Document = orjson.loads(self._bodies[sow_key])
        return document


class JoinedTables:
    """The tables of a view's joins, and up to which position of each joined topic they were filled."""

    def __init__(self, tables: Sequence[JoinedTable]) -> None:
        self.all = tables
        self.taken: PositionsByLog = {}
        """By the log of a joined topic, the position of each partition that was taken."""

    def __bool__(self) -> bool:
        return bool(self.all)

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

TakenOut = list[tuple[bytes, JoinedRows]]
"""Records that are to be joined again, each with its rows before."""


_RowKeys = tuple[bytes, *tuple[bytes | None, ...]]
"""The SOW key of a record of the source, and those of its matches in joins that multiply; None for no match."""

_Row = tuple[_RowKeys, Document]


class _Held(NamedTuple):
    """A record of the source: its body, when it last changed, and how many rows it makes."""

    body: bytes
    order: Order
    rows: int = 0


class _Only(NamedTuple):
    """Stands for the rows with one record of a joined topic: the number of the join, and the record's SOW key."""

    join: int
    sow_key: bytes

    def of(self, matches: Collection[bytes]) -> list[bytes] | None:
        """Return the record if it is among the matches; None if there are others only, which do not count here."""
        if self.sow_key in matches:
            return [self.sow_key]
        return None if matches else []


class JoinedStates:
    """The states of a view with joins in one source partition: its records, joined, in a view's states.

    It keeps the body of each record, and for each join which records have which join key.
    """

    def __init__(self, tables: JoinedTables, states: States) -> None:
        self._tables = tables
        self._states = states
        self._held: dict[bytes, _Held] = {}
        self._by_key: list[defaultdict[bytes, dict[bytes, int]]] = [defaultdict(dict) for _ in tables.all]
        """For each join, by join key: records of the source, each with the number of rows that look for a match."""

    def load(self, changes: Iterator[Change]) -> None:
        """Add the newest change of each live record."""
        for change in changes:
            assert change.body is not None
            held = _Held(change.body, self._states.order_of(change))
            for row, document in self._entered(change.sow_key, held).items():
                self._states.add(row, document, held.order)

    def all(self) -> Iterator[StateChange]:
        """Yield all states."""
        return self._states.all()

    def change(self, change: Change) -> Iterable[StateChange]:
        """Apply a change of the source; return the last state of each group that it changes."""
        order = self._states.order_of(change)
        held = self._held.get(change.sow_key)
        before = {} if held is None else self._left(change.sow_key)
        self._held.pop(change.sow_key, None)
        now = {} if change.body is None else self._entered(change.sow_key, _Held(change.body, order))
        last: dict[str, StateChange] = {}
        self._replace(before, now, order, last)
        return last.values()

    def take_out(self, event: JoinedEvent) -> TakenOut:
        """Take out the rows that a joined record belongs to; `take_in` adds them again after its change."""
        change = event.change
        if change is None:
            return []
        found = {
            record
            for number in self._tables.of(event.log)
            for key in self._tables.all[number].concerned(change)
            for record in self._by_key[number].get(key, ())
        }
        only = self._only(event)
        return [(record, self._left(record, only)) for record in sorted(found)]

    def take_in(self, event: JoinedEvent, taken_out: TakenOut) -> Iterable[StateChange]:
        """Add the rows of the records that were taken out, as they are now; return the last state of each group."""
        only = self._only(event)
        last: dict[str, StateChange] = {}
        for record, before in taken_out:
            held = self._held[record]
            self._replace(before, self._entered(record, held, only), held.order, last)
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

    def _entered(self, record: bytes, held: _Held, only: _Only | None = None) -> JoinedRows:
        def note(number: int, key: bytes) -> None:
            rows = self._by_key[number][key]
            rows[record] = rows.get(record, 0) + 1

        rows = self._rows(record, held.body, only, note)
        held = held._replace(rows=held.rows + len(rows))
        self._held[record] = held
        _require_few(record, held.rows)
        return rows

    def _left(self, record: bytes, only: _Only | None = None) -> JoinedRows:
        def forget(number: int, key: bytes) -> None:
            rows = self._by_key[number][key]
            rows[record] -= 1
            if not rows[record]:
                del rows[record]
            if not rows:
                del self._by_key[number][key]

        held = self._held[record]
        rows = self._rows(record, held.body, only, forget)
        self._held[record] = held._replace(rows=held.rows - len(rows))
        return rows

    def _rows(
        self, record: bytes, body: bytes, only: _Only | None, note: Callable[[int, bytes], None]
    ) -> JoinedRows:
        """Return the rows of a record, those with one joined record if there is an `only`; `note` its join keys."""
        rows: list[_Row] = [((record,), orjson.loads(body))]
        for number, table in enumerate(self._tables.all):
            joined: list[_Row] = []
            for keys, document in rows:
                if (key := table.key_of(document)) != NO_MATCH:
                    note(number, key)
                found: Collection[bytes] | None = table.matches(key)
                if only is not None and only.join == number:
                    found = only.of(found or ())
                if found is not None:
                    _require_few(record, len(joined) + len(found))
                    joined += _with_matches(table, keys, document, found)
            rows = joined
        return {_row_key(keys): document for keys, document in rows}


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
