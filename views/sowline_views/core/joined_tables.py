"""The records of joined topics, by SOW key: one kind of table for each kind of join.

A joined topic is held whole: all of its partitions, in memory or on disk (`sowline_views.core.spilling`).
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import orjson
from msgspec import structs

from sowline.changes.change import Change
from sowline.config.topic_definition import TopicDefinition
from sowline.config.views import Join
from sowline.model.bookmark import PositionsByLog
from sowline.model.path import Document
from sowline.model.position import Position
from sowline_views.core.join_keys import NO_MATCH, JoinKeyOf, source_key, text_key
from sowline_views.core.spilling import BYTES, SpillIndex, SpillMap, SpillSpace

RowKeys = tuple[bytes, *tuple[bytes | None, ...]]
"""The SOW key of a record of the source, and the keys of its matches in joins that multiply; None for no match."""

Row = tuple[RowKeys, Document]


class JoinedEvent(NamedTuple):
    """An event of a joined topic: the position in its log, and the change; None for a progress event."""

    log: str
    partition: int
    position: Position
    change: Change | None = None


class JoinedTable(ABC):
    """The records of a joined topic."""

    def __init__(self, join: Join, topic: TopicDefinition, key_of: JoinKeyOf, space: SpillSpace) -> None:
        self.join = join
        self.topic = topic
        self.space = space
        self._key_of = key_of
        self._bodies = SpillMap(space, BYTES)

    def put(self, change: Change) -> None:
        """Take a change of the topic."""
        if change.body is None:
            self._bodies.remove(change.sow_key)
        else:
            self._bodies[change.sow_key] = change.body

    def body(self, sow_key: bytes) -> bytes | None:
        """Return the body of the record with a SOW key; None if no record has it."""
        return self._bodies.get(sow_key)

    def key_of(self, document: Document) -> bytes:
        """Return the join key of a record of the source; `NO_MATCH` if it has none."""
        return self._key_of(document)

    @abstractmethod
    def concerned(self, change: Change) -> set[bytes]:
        """Return the join keys of the records that a change of the topic affects; the change is not taken yet."""

    @abstractmethod
    def matches(self, key: bytes) -> Collection[bytes]:
        """Return the SOW keys of the records with a join key."""

    @abstractmethod
    def keys_with(self, keys: RowKeys, match: bytes | None) -> RowKeys:
        """Return the keys of a row with this match; None for no match."""

    def rows(self, keys: RowKeys, document: Document, found: Collection[bytes]) -> Iterator[Row]:
        """Yield a row with each match; without one, the row itself in a left join, and nothing in an inner join."""
        if not found:
            if self.join.kind == "left":
                # A field of the record with the join's name would look like a match.
                document.pop(self.join.name, None)
                yield self.keys_with(keys, None), document
            return
        for sow_key in sorted(found):
            body = self.body(sow_key)
            assert body is not None, "it is a match"
            yield self.keys_with(keys, sow_key), {**document, self.join.name: orjson.loads(body)}


class KeyedTable(JoinedTable):
    """The table of a join on the topic's key: at most one record matches, and its SOW key is the join key."""

    def concerned(self, change: Change) -> set[bytes]:
        """Return the SOW key."""
        return {change.sow_key}

    def matches(self, key: bytes) -> Collection[bytes]:
        """Return the record with this SOW key, if it exists."""
        return () if self.body(key) is None else (key,)

    def keys_with(self, keys: RowKeys, match: bytes | None) -> RowKeys:
        """Return the keys as they are: the record of the source tells the row from all others."""
        return keys


class MultipliedTable(JoinedTable):
    """The table of a join that multiplies: its records have their own join keys, and any number may match."""

    def __init__(self, join: Join, topic: TopicDefinition, key_of: JoinKeyOf, space: SpillSpace) -> None:
        super().__init__(join, topic, key_of, space)
        self._own_key_of = text_key([theirs for _, theirs in join.equalities])
        self._by_key = SpillIndex(space)
        """The SOW keys of the records with a join key."""

    def put(self, change: Change) -> None:
        """Take a change of the topic."""
        sow_key = change.sow_key
        # The index comes first: `super().put` replaces the body that the earlier key is read from.
        before, now = self._own_key(self.body(sow_key)), self._own_key(change.body)
        if before not in (NO_MATCH, now):
            self._by_key.add(before, sow_key, -1)
        if now not in (NO_MATCH, before):
            self._by_key.add(now, sow_key, 1)
        assert now in (NO_MATCH, before) or self._by_key.has(now, sow_key), (
            "the index holds what the table does"
        )
        assert before in (NO_MATCH, now) or not self._by_key.has(before, sow_key), (
            "an earlier key finds it no more"
        )
        super().put(change)

    def _own_key(self, body: bytes | None) -> bytes:
        return NO_MATCH if body is None else self._own_key_of(orjson.loads(body))

    def concerned(self, change: Change) -> set[bytes]:
        """Return the join keys of the record, before and after the change."""
        return {self._own_key(body) for body in (self.body(change.sow_key), change.body)} - {NO_MATCH}

    def matches(self, key: bytes) -> Collection[bytes]:
        """Return the records with a join key."""
        return self._by_key.members(key)

    def keys_with(self, keys: RowKeys, match: bytes | None) -> RowKeys:
        """Return the keys with the match's key added: each match makes a row."""
        return (*keys, match)

    def only(self, key: bytes, sow_key: bytes) -> list[bytes] | None:
        """Return one record if it has this join key, `[]` if no record has it, and None if only other records do."""
        if self._by_key.has(key, sow_key):
            return [sow_key]
        # In a left join, `[]` makes the row without a match. That row is only due if no other record matches
        # (test_joins_equal_a_recomputation).
        return None if self._by_key.has_any(key) else []


def joined_table(join: Join, topic: TopicDefinition, space: SpillSpace | None = None) -> JoinedTable:
    """Return the empty table of a join. It holds its records in `space`; without one, all of them in memory."""
    space = SpillSpace() if space is None else space
    if join.multiply:
        return MultipliedTable(join, topic, text_key([own for own, _ in join.equalities]), space)
    return KeyedTable(join, topic, source_key(join, topic), space)


class JoinedTables:
    """The tables of a view's joins, and the position up to which each joined topic was read."""

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
        # Progress events count, too: without them, a view of an idle joined topic would seem to lag behind it.
        self.taken.setdefault(event.log, {})[event.partition] = event.position
        if event.change is not None:
            for number in self.of(event.log):
                self.all[number].put(event.change)

    def before(self, event: JoinedEvent) -> Change | None:
        """Return a change that undoes the change of an event, which is not taken yet."""
        numbers, change = self.of(event.log), event.change
        if change is None or not numbers:
            return None
        # The tables of a topic hold the same bodies, so the first one is enough.
        return structs.replace(change, body=self.all[numbers[0]].body(change.sow_key))

    def take_back(self, event: JoinedEvent, before: Change) -> None:
        """Show the record of an event as it was before, until the event is taken again."""
        assert event.change is not None, "only a change is taken back"
        assert event.change.sow_key == before.sow_key, "what undoes a change is of its record"
        for number in self.of(event.log):
            self.all[number].put(before)
