"""Joins: the records of other topics, which are added to each record of a view's source.

A joined topic is held whole: all of its partitions, by SOW key. A record of the source finds its match by the key
text that its fields make.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import orjson

from sowline.config.topics import TopicDefinition
from sowline.config.views import Join
from sowline.errors import SowlineError
from sowline.groups.layout import grouped_value
from sowline.model.bookmark import PositionsByLog
from sowline.model.key import key_text
from sowline.model.path import Document, reader
from sowline.model.position import Position
from sowline.protocol.change import Change
from views.core.states import Order, StateChange, States, group_key

NO_MATCH: Final = b""
"""The join key of a record that has none: a field is absent, or can't be a key. No SOW key is empty."""


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
        self._key_of = _grouped_key(join, topic) if topic.view is not None else _field_key(join, topic)
        self._bodies: dict[bytes, bytes] = {}

    def put(self, change: Change) -> None:
        """Take a change of the topic."""
        if change.body is None:
            self._bodies.pop(change.sow_key, None)
        else:
            self._bodies[change.sow_key] = change.body

    def key_of(self, document: Document) -> bytes:
        """Return the SOW key of the record that belongs to a document; `NO_MATCH` if there can be none."""
        return self._key_of(document)

    def get(self, sow_key: bytes) -> Document | None:
        """Return the record with a SOW key."""
        body = self._bodies.get(sow_key)
        return None if body is None else orjson.loads(body)


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


def _field_key(join: Join, topic: TopicDefinition) -> Callable[[Document], bytes]:
    """Return a function that makes the SOW key from fields of a document, as the topic does from its key fields."""
    ours = {tuple(map(str, theirs.steps)): reader(own) for own, theirs in join.equalities}
    paths, rule = topic.key_paths, topic.key_rule

    def key_of(document: Document) -> bytes:
        values: dict[str, Any] = {}
        for number, path in enumerate(paths):
            values[str(number)] = ours[path](document)
        try:
            return rule.sow_key(key_text(values, [(name,) for name in values]))
        except SowlineError:
            return NO_MATCH

    return key_of


def _grouped_key(join: Join, topic: TopicDefinition) -> Callable[[Document], bytes]:
    """Return a function that makes the SOW key of a group from fields of a document."""
    ours = {str(theirs): reader(own) for own, theirs in join.equalities}
    assert topic.view is not None
    readers = [ours[str(path)] for path in topic.view.grouping_paths]

    def key_of(document: Document) -> bytes:
        values = [grouped_value(read(document)) for read in readers]
        return group_key(orjson.dumps(values)).encode()

    return key_of


TakenOut = list[tuple[bytes, Document | None]]
"""Records that are to be joined again, each with its document before."""


class JoinedStates:
    """The states of a view with joins in one source partition: its records, joined, in a view's states.

    It keeps the body of each record, and for each join which records have which join key.
    """

    def __init__(self, tables: JoinedTables, states: States) -> None:
        self._tables = tables
        self._states = states
        self._rows: dict[bytes, tuple[bytes, Order]] = {}
        self._by_key: list[defaultdict[bytes, set[bytes]]] = [defaultdict(set) for _ in tables.all]

    def load(self, changes: Iterator[Change]) -> None:
        """Add the newest change of each live record."""
        for change in changes:
            self._put(change)
        for sow_key, (body, order) in self._rows.items():
            self._states.add(sow_key, self._entered(sow_key, body), order)

    def _put(self, change: Change) -> None:
        assert change.body is not None
        self._rows[change.sow_key] = change.body, self._states.order_of(change)

    def all(self) -> Iterator[StateChange]:
        """Yield all states."""
        return self._states.all()

    def change(self, change: Change) -> list[StateChange]:
        """Apply a change of the source."""
        held = self._rows.pop(change.sow_key, None)
        before = None if held is None else self._left(change.sow_key, held[0])
        now = None
        if change.body is not None:
            self._put(change)
            now = self._entered(change.sow_key, change.body)
        return self._states.replace(change.sow_key, before, now, self._states.order_of(change))

    def take_out(self, event: JoinedEvent) -> TakenOut:
        """Take out the records that a joined record belongs to; `take_in` adds them again after its change."""
        if event.change is None:
            return []
        sow_key = event.change.sow_key
        numbers = self._tables.of(event.log)
        keys = {key for number in numbers for key in self._by_key[number].get(sow_key, ())}
        return [(key, self._left(key, self._rows[key][0])) for key in sorted(keys)]

    def take_in(self, taken_out: TakenOut) -> list[StateChange]:
        """Add the records that were taken out, as they are now; return the last state of each group."""
        last: dict[str, StateChange] = {}
        for sow_key, before in taken_out:
            body, order = self._rows[sow_key]
            for one in self._states.replace(sow_key, before, self._entered(sow_key, body), order):
                last[one.key] = one
        return list(last.values())

    def _entered(self, sow_key: bytes, body: bytes) -> Document | None:
        return self._joined(body, lambda number, key: self._by_key[number][key].add(sow_key))

    def _left(self, sow_key: bytes, body: bytes) -> Document | None:
        def forget(number: int, key: bytes) -> None:
            rows = self._by_key[number][key]
            rows.discard(sow_key)
            if not rows:
                del self._by_key[number][key]

        return self._joined(body, forget)

    def _joined(self, body: bytes, note: Callable[[int, bytes], None]) -> Document | None:
        """Return a record with the records that belong to it; None if an inner join finds none."""
        document: Document = orjson.loads(body)
        is_whole = True
        for number, table in enumerate(self._tables.all):
            key = table.key_of(document)
            note(number, key)
            found = table.get(key)
            if found is not None:
                document[table.join.name] = found
            else:
                document.pop(table.join.name, None)
                is_whole = is_whole and table.join.kind == "left"
        return document if is_whole else None
