"""Joins in memory: source partitions in two processes, each with its joined topics, and the materializer of the view.

A process takes changes of joined topics late, and an owner that has lost its partition still writes what it has. At
each message boundary, a partition of the view is compared with a plain recomputation at the positions that it names.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

import orjson

from sowline.changes.change import Change
from sowline.changes.changes_reader import ChangesReader, Phase
from sowline.changes.event import Event
from sowline.changes.partials import Partials, read_partials
from sowline.changes.progress import Progress
from sowline.commands.command import PARTIALS, Headers, LogRecord
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import Topics
from sowline.config.views import Join
from sowline.model.bookmark import PositionsByLog, parse_bookmark
from sowline.model.key import partition_of
from sowline.model.position import Position, before_the_log
from sowline_materializer.core.applier import Applier
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.store.overlay import Overlay
from sowline_views.core.joined_tables import JoinedEvent, JoinedTables, joined_table
from sowline_views.core.outgoing import Outgoing
from sowline_views.core.source_partition import SourcePartition, take_joined
from sowline_views.core.spilling import SpillSpace
from tests.memory_store import MemoryStore

Row = dict[str, Any]
COMMAND: Headers = [("sow.command", PARTIALS.encode())]
SOURCE = "orders"
PROCESSES = 2


class Side:
    """The records of one topic, now and at each position, and the changes that were made."""

    def __init__(self, topic: TopicDefinition) -> None:
        self.topic = topic
        self._held: list[dict[bytes, Change]] = [{} for _ in range(topic.partitions)]
        self._positions = [before_the_log() for _ in range(topic.partitions)]
        self._changed = self._positions.copy()
        self._states: list[dict[Position, dict[bytes, Row]]] = [{before_the_log(): {}} for _ in self._held]

    def text_of(self, record: Row) -> str:
        """Return the key text of a record."""
        identity = self.topic.identity
        if identity.view is not None:
            return _json([record[str(path)[1:]] for path in identity.view.grouping_paths])
        text = identity.key_rule.given(record, None) or ""
        return text if identity is self.topic else identity.key_rule.sow_key(text).decode()

    def change(self, record: Row, *, is_deleted: bool) -> tuple[int, Change] | None:
        """Publish or delete a record; return the change and its partition, None if there is nothing to delete."""
        text = self.text_of(record)
        key, number = self.topic.key_rule.sow_key(text), partition_of(text, self.topic.partitions)
        held = self._held[number].pop(key, None)
        if is_deleted and held is None:
            return None
        after, position = self._changed[number], Position(0, self._positions[number].offset + 1)
        change = Change(
            sow_key=key,
            body=None if is_deleted else orjson.dumps(record),
            previous=None if held is None else held.body,
            position=position,
            after=after,
            op="publish",
            time=position.offset,
        )
        if not is_deleted:
            self._held[number][key] = change
        self._changed[number] = position
        self._move(number, position)
        return number, change

    def report(self, number: int) -> Progress:
        """Return a progress event: a log record has made no change."""
        self._move(number, Position(0, self._positions[number].offset + 1))
        return self.progress(number)

    def _move(self, number: int, position: Position) -> None:
        self._positions[number] = position
        self._states[number][position] = {
            key: orjson.loads(change.body or b"") for key, change in self._held[number].items()
        }

    def live(self, number: int) -> list[Change]:
        """Return the newest changes of a partition's records."""
        return list(self._held[number].values())

    def progress(self, number: int) -> Progress:
        """Return a progress event that makes a load of these changes whole."""
        return Progress(self._positions[number], self._changed[number], 0, {}, "", "", 0, {})

    def at(self, positions: Mapping[int, Position]) -> dict[bytes, Row]:
        """Return the records at positions of some partitions."""
        return {
            key: row
            for number, position in positions.items()
            for key, row in self._states[number][position].items()
        }

    @property
    def positions(self) -> dict[int, Position]:
        """The newest position of each partition."""
        return dict(enumerate(self._positions))


class JoiningProcess:
    """A process of the service `views`: its tables, what it has not taken of the joined topics, and its owners."""

    def __init__(self, tables: JoinedTables) -> None:
        self.tables = tables
        self.waiting: deque[JoinedEvent] = deque()
        self.owners: dict[int, SourcePartition] = {}


class MergedPartition:
    """A partition of the view, as the materializer keeps it."""

    def __init__(self, view: TopicDefinition, number: int) -> None:
        self.store = MemoryStore()
        self.checkpoint = Checkpoint()
        self._view = view
        self._number = number

    def apply(self, value: bytes) -> None:
        """Apply the next message."""
        overlay = Overlay(self.store)
        applier = Applier(self._view, self._number, self.checkpoint, overlay)
        step = applier.apply([LogRecord(self.checkpoint.next_offset, 0, None, value, COMMAND)])
        assert not step.dead, step.dead
        written = overlay.written(self.store.checksum())
        self.store.commit(written.entries, written.checksum, b"", written.expiries)
        self.checkpoint = step.checkpoint
        reported = [change.taken for change in step.changes if change.reflects is not None]
        assert reported in ([], [self.checkpoint.taken.get(read_partials(value).partition)])

    @property
    def records(self) -> dict[str, Row]:
        """The records by key text."""
        overlay = Overlay(self.store)
        return {key.decode(): orjson.loads(one.body or b"") for key, one in overlay.scan()}


class Joins:
    """A view, its topics, the processes that compute it, and its partitions."""

    records_max = 2
    """Records of a source partition that are joined again before others get a turn."""

    def __init__(
        self,
        topics: Topics,
        view: str,
        new_space: Callable[[], SpillSpace] = SpillSpace,
        native: ModuleType | None = None,
    ) -> None:
        self._new_space, self._native = new_space, native
        self.view = topics.named(view)
        assert self.view.view is not None
        self.joins = self.view.view.joins
        self.sides = {name: Side(topics.named(name)) for name in self.view.view.read_topics}
        self.messages: list[list[Partials]] = [[] for _ in range(self.view.partitions)]
        self.merged = [MergedPartition(self.view, number) for number in range(self.view.partitions)]
        self.source = self.sides[SOURCE]
        self.processes = [JoiningProcess(self._tables(topics)) for _ in range(PROCESSES)]
        self.late: list[SourcePartition] = []
        self._generations = [0] * self.source.topic.partitions
        for number in range(self.source.topic.partitions):
            self.take_over(number, 0)

    def _tables(self, topics: Topics) -> JoinedTables:
        space = self._new_space()
        tables = JoinedTables([joined_table(join, topics.named(join.topic), space) for join in self.joins])
        for table in tables.all:
            for number in range(table.topic.partitions):
                tables.put(JoinedEvent(table.topic.log, number, before_the_log()))
        return tables

    def write(self, messages: Iterable[Outgoing]) -> None:
        """Append messages to the log of the view, apply them, and compare the view at each boundary."""
        for number, message in messages:
            self.messages[number].append(message)
            self.merged[number].apply(message.encode())
            # A topic that is joined to itself is in the view as of two positions. It names the lower one.
            if message.ends and all(join.topic != SOURCE for join in self.joins):
                self._compare(number)

    def take_over(self, number: int, process: int) -> None:
        """A process owns a source partition: it takes what the joined topics have by now, and writes its snapshot."""
        self._generations[number] += 1
        for one in self.processes:
            if number in one.owners:
                self.late.append(one.owners.pop(number))
                self.late[-1].close()
        taking = self.processes[process]
        self.take_joined(process, len(taking.waiting))
        reader = ChangesReader("", 1)
        reader.aim(0, 0)
        owner = SourcePartition(
            self.view,
            number,
            self.source.topic.partitions,
            reader,
            taking.tables,
            self._generations[number],
            self.source.topic.log,
            self._native,
        )
        events: list[Event] = [*self.source.live(number), self.source.progress(number)]
        for event in events:
            owner.take(event, 0)
        assert reader.look(0) is Phase.COMPLETE
        reader.follow()
        owner.end_load()
        while owner.is_sending_snapshot:
            self.write(owner.take_snapshot(1))
        taking.owners[number] = owner

    def change(self, topic: str, record: Row, *, is_deleted: bool) -> None:
        """Write a record to a topic."""
        if (made := self.sides[topic].change(record, is_deleted=is_deleted)) is not None:
            number, change = made
            self._took(topic, number, change)

    def report(self, topic: str, number: int) -> None:
        """A log record of a topic has made no change."""
        number %= self.sides[topic].topic.partitions
        self._took(topic, number, self.sides[topic].report(number))

    def _took(self, topic: str, number: int, event: Event) -> None:
        """Owners of the source take an event at once, those of the joined topics wait."""
        change = event if isinstance(event, Change) else None
        joined = JoinedEvent(self.sides[topic].topic.log, number, event.position, change)
        for process in self.processes:
            if topic == SOURCE and number in process.owners:
                self.write(process.owners[number].take(event, 0))
            if any(join.topic == topic for join in self.joins):
                process.waiting.append(joined)

    def take_joined(self, process: int, count: int) -> None:
        """A process takes changes of joined topics that wait."""
        one = self.processes[process]
        for _ in range(min(count, len(one.waiting))):
            event, owners = one.waiting.popleft(), one.owners.values()
            for _, messages in take_joined(event, one.tables, owners, self.records_max):
                self.write(messages)

    def flush(self, *, also_idle: bool) -> None:
        """Owners write what they have taken."""
        for process in self.processes:
            for owner in process.owners.values():
                self.write(owner.flush(also_idle=also_idle))

    def flush_late(self) -> None:
        """Owners that have lost their partition write what they have taken."""
        for owner in self.late:
            self.write(owner.flush(also_idle=True))

    def settle(self) -> None:
        """Everything is taken and written; then the view reflects it."""
        for number in range(PROCESSES):
            self.take_joined(number, len(self.processes[number].waiting))
        self.flush(also_idle=True)
        for number, merged in enumerate(self.merged):
            self._compare(number)
            assert set(merged.checkpoint.taken) == set(range(self.source.topic.partitions))
            for owner, bookmark in merged.checkpoint.taken.items():
                assert parse_bookmark(bookmark) == self._newest(owner)

    def _newest(self, owner: int) -> PositionsByLog:
        found = {self.sides[join.topic].topic.log: self.sides[join.topic].positions for join in self.joins}
        found.setdefault(self.source.topic.log, {})[owner] = self.source.positions[owner]
        return found

    # the recomputation

    def _compare(self, number: int) -> None:
        """Compare a partition of the view with its recomputation at the positions that it names."""
        expected = {
            key: row
            for key, row in self.recomputed(self.merged[number].checkpoint.taken).items()
            if partition_of(key, self.view.partitions) == number
        }
        assert self.merged[number].records == expected

    def recomputed(self, taken: Mapping[int, str]) -> dict[str, Row]:
        """Return the view by key text, computed from the topics at what each owner of the source has taken."""
        rows: list[tuple[str, Row]] = []
        for owner, bookmark in taken.items():
            positions = parse_bookmark(bookmark)
            at_owner = {owner: positions[self.source.topic.log][owner]}
            for key, order in self.source.at(at_owner).items():
                joined = [([key.decode()], order)]
                for join in self.joins:
                    joined = list(self._joined(join, joined, positions))
                rows += [(keys[0] if len(keys) == 1 else _json(keys), row) for keys, row in joined]
        assert self.view.view is not None
        grouping = [_steps(str(path)) for path in self.view.view.grouping_paths]
        if not grouping:
            return {key: _projected(self.view, [row]) for key, row in rows}
        groups: dict[str, list[Row]] = defaultdict(list)
        for _, row in rows:
            groups[_json([_value(row, steps) for steps in grouping])].append(row)
        return {key: _projected(self.view, members) for key, members in groups.items()}

    def _joined(
        self, join: Join, rows: list[tuple[list[str], Row]], positions: PositionsByLog
    ) -> Iterable[tuple[list[str], Row]]:
        """Yield the rows with each record that fits, and the keys of the records that multiply them."""
        side = self.sides[join.topic]
        records = side.at(positions[side.topic.log])
        for keys, row in rows:
            found = [(key, record) for key, record in records.items() if _fits(join, side.topic, row, record)]
            for key, record in found:
                yield [*keys, *_more(join, key.decode())], {**row, join.name: record}
            if not found and join.kind == "left":
                yield (
                    [*keys, *_more(join, None)],
                    {name: value for name, value in row.items() if name != join.name},
                )


def _more(join: Join, key: str | None) -> list[Any]:
    return [key] if join.multiply else []


def _json(values: list[Any]) -> str:
    return orjson.dumps(values).decode()


def _steps(path: str) -> list[str]:
    return path[1:].split("/")


def _value(row: Any, steps: list[str]) -> Any:
    for step in steps:
        row = row.get(step) if isinstance(row, dict) else None
    return row


def _fits(join: Join, topic: TopicDefinition, row: Row, record: Row) -> bool:
    """Whether a record belongs to a row: the texts of their fields are equal, or the values that a view groups by."""
    pairs = [
        (_value(row, _steps(str(own))), _value(record, _steps(str(theirs))))
        for own, theirs in join.equalities
    ]
    if not join.multiply and topic.identity.view is not None:
        return all(_json([own]) == _json([theirs]) for own, theirs in pairs)
    texts = [(text_of(own), text_of(theirs)) for own, theirs in pairs]
    return all(own is not None and own == theirs for own, theirs in texts)


def text_of(value: Any) -> str | None:
    """Return the text of a field in a key; None for what can be none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | str) else None


def _projected(view: TopicDefinition, rows: list[Row]) -> Row:
    """Return a record of a view: its grouping fields, COUNT, MAX of integers, and fields that it renames."""
    assert view.view is not None
    assert view.view.projected is not None
    body: Row = {}
    for field in view.view.projected.fields:
        text, _, name = field.text.partition(" AS ")
        if text == "COUNT(1)":
            value: Any = len(rows)
        elif text.startswith("MAX("):
            value = max(_value(row, _steps(text[4:-1])) for row in rows)
        else:
            value = _value(rows[0], _steps(text))
        *parents, last = _steps(name or text)
        at = body
        for step in parents:
            at = at.setdefault(step, {})
        at[last] = value
    return body
