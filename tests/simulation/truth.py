"""What is true: the model of each partition's log, and the checks of everything that says something about it."""

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Any

from msgspec.structs import astuple

from sowline.changes.change import AGAIN, DELETE, Change
from sowline.changes.event import Event, read_event
from sowline.changes.progress import Progress
from sowline.commands.command import DEFINE, LogRecord
from sowline.config.topic_definition import TopicDefinition
from sowline.language.emodb.writes import Writes
from sowline.model.key import partition_of
from sowline.model.limits import Limits
from sowline.model.position import Position
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import decode_record
from sowline_materializer.store.integrity import survey
from sowline_query_service.index.rows import Rows
from sowline_query_service.replica.timeline import Timeline
from sowline_query_service.topics.state import ServedTopics
from tests.memory_store import MemoryStore
from tests.property.document_model import DocumentModel
from tests.property.model import Account, Body, Effect, PartitionModel
from tests.property.supplied_model import SuppliedDocumentModel, SuppliedModel
from tests.simulation.broker import Broker, Written
from tests.simulation.schema_truth import SchemaEntries, TypedModel

Statement = tuple[bytes | None, Writes | None]
"""What an event says of a record: its body, and the account of a document's writes."""


class Untrue(AssertionError):
    """A service said what is not so."""


def hold(is_so: bool, *what: object) -> None:
    """Raise `Untrue` where something is not so."""
    if not is_so:
        raise Untrue(" ".join(str(each) for each in what))


class Truth:
    """The model of every partition, which has replayed its log as far as that was asked for."""

    def __init__(self, definition: TopicDefinition, broker: Callable[[], Broker]) -> None:
        self.definition = definition
        self._broker = broker
        count = range(definition.partitions)
        self._entries = [SchemaEntries() for _ in count]
        self.declared = [definition.limits]
        """The limits of all definitions so far."""
        self._first_limits: dict[int, Limits] = {}
        """Those of each partition at its beginning, once it was opened."""
        self.models = [self._model(number, definition.limits) for number in count]
        self._positions: list[list[tuple[int, int]]] = [[] for _ in count]
        self._replayed = [0 for _ in count]
        self._emitted = [0 for _ in count]
        self._progress: list[set[tuple[int, int]]] = [set() for _ in count]
        """The positions of progress events."""
        self._forwarded: list[list[tuple[int, int, int]]] = [[] for _ in count]
        self.dead: set[tuple[int, int, str]] = set()
        self.stale_writes = 0
        self._newest: list[dict[bytes, tuple[Position, Statement]]] = [{} for _ in count]
        self._newest_of_all = [Position(0, -1) for _ in count]
        self._wrong: list[dict[bytes, int]] = [{} for _ in count]
        self._accounts: dict[tuple[int, int], Account | None] = {}
        self._keys: dict[str, bytes] = {}

    def _model(self, number: int, limits: Limits) -> PartitionModel:
        definition = self.definition
        given = (
            number,
            definition.partitions,
            definition.declared.domain_prefix,
            limits.record_bytes_max,
            limits.repeat_window,
            limits.expiration,
            limits.records_max,
        )
        if definition.documents:
            kind = DocumentModel if definition.key_paths else SuppliedDocumentModel
            template = json.loads(limits.template or "{}")
            return kind(*given, log_id=self._log_id, table=definition.name, template=template)
        if definition.reader is not None:
            known = self._entries[number]
            return TypedModel(*given, log_id=self._log_id, reader=definition.reader, entries=known)
        return (PartitionModel if definition.key_paths else SuppliedModel)(*given, log_id=self._log_id)

    def _note_opened(self, number: int, limits: Limits) -> None:
        """Begin the model of a partition with the limits of its first owner, which may have read a later definition.

        Later ones are on the log (seeds 757, 1310 and 1389).
        """
        if number in self._first_limits:
            return
        self._first_limits[number] = limits
        hold(limits in self.declared, number, "begins with limits that were never declared:", limits)
        if limits != self.declared[0]:
            self.models[number] = self._model(number, limits)
            self._positions[number], self._forwarded[number] = [], []
            self._replayed[number] = 0

    @property
    def _log_id(self) -> str:
        """Kafka's id of the log."""
        return f"{self.definition.log}-0"

    @property
    def typed_models(self) -> list[TypedModel]:
        """The models, at their logs' ends, of a topic whose message type has schemas."""
        models = [self.model(number) for number in range(self.definition.partitions)]
        return [model for model in models if isinstance(model, TypedModel)]

    def is_held(self, number: int) -> bool:
        """Whether log records wait for a schema."""
        self.model(number)
        return self._replayed[number] < len(self._broker().parts[self.definition.log, number].held)

    def model(self, number: int) -> PartitionModel:
        """Return the model at its log's end, or before the first record that waits for a schema."""
        model, held = self.models[number], self._broker().parts[self.definition.log, number].held
        new = held[self._replayed[number] :]
        if new and isinstance(model, TypedModel):
            new = list(takewhile(lambda one: model.is_resolved(_log_record(one)), new))
        if new:
            model.replay(map(_log_record, new))
            self._replayed[number] += len(new)
            self._forwarded[number] += [(one.at, *origin) for one in new if (origin := self._origin(one))]
            self._positions[number] += [
                effect.position for effect in model.effects[len(self._positions[number]) :]
            ]
        return model

    def last(self, number: int) -> int:
        """Return the offset of a log's last record that can be applied."""
        return max(self.model(number).states)

    def key(self, text: str) -> bytes:
        """Return the SOW key of a key text."""
        if text not in self._keys:
            self._keys[text] = self.definition.key_rule.sow_key(text)
        return self._keys[text]

    def state(self, number: int, offset: int) -> dict[bytes, Body]:
        """Return the records by SOW key after a log record."""
        states = self.model(number).states
        hold(offset in states, "there is no log record at", offset)
        return {self.key(text): body for text, body in states[offset].items()}

    def accounts(self, number: int, offset: int) -> dict[bytes, Account]:
        """Return what is known of documents, also of those that are gone, by SOW key after a log record."""
        model = self.model(number)
        if not isinstance(model, DocumentModel):
            return {}
        return {self.key(text): account for text, account in model.known[offset].items()}

    def state_at(self, number: int, position: Position) -> dict[bytes, tuple[Body, Account | None]] | None:
        """Return the records by SOW key at a position, with what is known of documents; None where there is none.

        The position may be within a log record.
        """
        if position.offset not in self.model(number).states:
            return None
        state: dict[bytes, Body | None] = dict(self.state(number, position.offset))
        accounts: dict[bytes, Account | None] = dict(self.accounts(number, position.offset))
        for effect in self.effects(number, position, Position(position.era, position.offset, 1 << 30)):
            key = self.key(effect.key)
            state[key], accounts[key] = effect.before, effect.account_before
        return {key: (body, accounts.get(key)) for key, body in state.items() if body is not None}

    @property
    def may_expire_wholly(self) -> bool:
        """Whether the changes topic may be without a word of where it stands: it was lost."""
        return any(
            self._broker().parts[self.definition.changes, number].generation
            for number in range(self.definition.partitions)
        )

    @property
    def may_expire(self) -> bool:
        """Whether changes went that somebody could have wanted."""
        return self._broker().lost > 0 or self.may_expire_wholly

    def effects(self, number: int, after: Position, upto: Position) -> list[Effect]:
        """Return what happened after a position, up to another."""
        model, positions = self.model(number), self._positions[number]
        start = bisect_right(positions, (after.offset, after.nth))
        end = bisect_right(positions, (upto.offset, upto.nth))
        return model.effects[start:end]

    # the changes topic, and the dead letters

    def written(self, message: Written) -> None:
        """Check what a worker has written."""
        topic, number = message.partition_id
        if topic == self.definition.changes:
            event = read_event(message.name or b"", message.body, message.about)
            if isinstance(event, Progress) and event.position.offset < 0:
                self._note_opened(number, event.limits)
            self._note_key(number, message, event)
            if isinstance(event, Change):
                self._accounts[number, message.at] = _account(event.writes)
                self._check_change(number, event)
            else:
                self._progress[number].add((event.position.offset, event.position.nth))
                self._check_after(number, event.position, event.after, inclusive=True)
                hold(event.position.offset in self.model(number).states, "no log record at", event.position)
        elif topic == self.definition.kafka.schema_log:
            self._entries[number].add(message.name, message.body)
        elif topic == self.definition.kafka.dead:
            partition, _, offset = (message.name or b"").decode().partition("@")
            reason = dict(message.about or [])["sow.reason"]
            assert reason is not None
            self.dead.add((int(partition), int(offset), reason.decode()))

    def _check_change(self, number: int, event: Change) -> None:
        position = event.position.offset, event.position.nth
        model, positions = self.model(number), self._positions[number]
        index = bisect_left(positions, position)
        there = index < len(positions) and positions[index] == position
        if event.op == AGAIN:
            if event.value is None:
                known = self.state(number, position[0]), self.accounts(number, position[0])
                hold(not any(event.sow_key in each for each in known), number, "again without what is", event)
                return
            hold(there, number, "again what never was", event)
            effect = model.effects[index]
            found = event.sow_key, _body(event.body), _account(event.writes)
            expected = self.key(effect.key), effect.now, effect.account
            hold(found == expected, number, event, "again, but", effect)
            return
        hold(there, number, "a change that never was", event)
        effect = model.effects[index]
        found = event.sow_key, _body(event.previous), _body(event.body)
        hold(found == (self.key(effect.key), effect.before, effect.now), number, event, "but", effect)
        accounts = _account(event.writes_before), _account(event.writes)
        hold(accounts == (effect.account_before, effect.account), number, event, "but", effect)
        if self.definition.documents:
            hold(event.key_text == effect.key, number, event, "but", effect)
            hold(event.op == DELETE or event.outcome == effect.outcome, number, event, "but", effect)
            hold((event.op == DEFINE) != effect.is_write, number, event, "but", effect)
        self._check_after(number, event.position, event.after, inclusive=False)
        self._check_ended(number, index)
        hold(index <= self._emitted[number], number, "changes left out before", event.position)
        self.stale_writes += index < self._emitted[number]
        self._emitted[number] = max(self._emitted[number], index + 1)

    def _check_ended(self, number: int, index: int) -> None:
        """Check that a progress event has ended a `define` before the first change of another log record."""
        effects, positions = self.model(number).effects, self._positions[number]
        if index and not effects[index - 1].is_write and positions[index - 1][0] != positions[index][0]:
            (offset, nth), upto = positions[index - 1], positions[index]
            # It may be the event of a later log record that has changed nothing, such as a refused one (seed 170).
            ended = any((offset, nth + 1) <= one < upto for one in self._progress[number])
            hold(ended, number, "no event ends the define at", offset)

    def _check_after(self, number: int, position: Position, after: Position, *, inclusive: bool) -> None:
        self.model(number)
        positions, pair = self._positions[number], (position.offset, position.nth)
        before = (bisect_right if inclusive else bisect_left)(positions, pair)
        expected = positions[before - 1] if before else (-1, 0)
        hold((after.offset, after.nth) == expected, number, position, "says after", after, "not", expected)

    # what is kept

    def committed(self, path: Path, store: MemoryStore) -> None:
        """Check a partition's store after a commit."""
        data = store.checkpoint()
        if not data:
            return
        checkpoint, number = Checkpoint.decode(data), int(path.name)
        hold(survey(store).checksum == store.checksum(), path, "the tally is wrong")
        if not checkpoint.complete:
            return
        model = self.model(number)
        hold(checkpoint.position.offset in model.states, path, "no log record at", checkpoint.position)
        state, accounts = (of(number, checkpoint.position.offset) for of in (self.state, self.accounts))
        records = {key: decode_record(entry) for key, entry in store.scan()}
        live = {key: json.loads(record.body) for key, record in records.items() if record.body is not None}
        known = {key: _account(record.writes) for key, record in records.items() if record.writes is not None}
        hold(live == state, path, "holds", live, "at", checkpoint.position, "not", state)
        hold(known == accounts, path, "knows", known, "at", checkpoint.position, "not", accounts)
        self._check_put_right(number, checkpoint)
        origins = self._origins(number, checkpoint.position.offset)
        hold(
            checkpoint.origins == origins,
            path,
            "knows origins",
            checkpoint.origins,
            "not",
            origins,
            "at",
            checkpoint.position,
        )
        hold(checkpoint.records == len(live), path, "counts", checkpoint.records, "records, not", len(live))

    def _origins(self, number: int, offset: int) -> dict[int, int]:
        """Return the highest origin per partition among a log's records up to an offset."""
        highest: dict[int, int] = {}
        for at, partition, origin in self._forwarded[number]:
            if at <= offset:
                highest[partition] = max(origin, highest.get(partition, -1))
        return highest

    def _check_put_right(self, number: int, checkpoint: Checkpoint) -> None:
        """An owner that stands behind all that was written has repaired, up to where it looked, what others wrote."""
        if not checkpoint.stale_keys and checkpoint.position == self._newest_of_all[number]:
            left = [key for key, at in self._wrong[number].items() if at < checkpoint.changes_end]
            hold(not left, number, "does not repair", left, "at", checkpoint.position)

    def replica(self, name: str, state: ServedTopics, number: int) -> None:
        """Check a replica's part between two instants."""
        topic = state.topics[self.definition.name]
        rows, partition = topic.rows, topic.partitions[number]
        captured = rows.capture(rows.of_partition(number, 0, rows.end))
        found = {key: json.loads(body) for key, body in zip(captured.keys, captured.bodies, strict=True)}
        expected = self.state(number, partition.held.offset)
        hold(found == expected, name, number, "holds", found, "at", partition.held, "not", expected)
        self._check_known(name, number, rows, partition.held)
        if partition.timeline is not None and not self.may_expire_wholly:
            self._check_timeline(name, number, partition.timeline, partition.held)

    def _check_known(self, name: str, number: int, rows: Rows, held: Position) -> None:
        """Check what a replica's part knows of documents."""
        live = {key: rows.rare[row].known for key, row in rows.numbers.items() if row in rows.rare}
        known = {
            key: _account(of.writes)
            for key, of in (live | rows.deleted).items()
            if of is not None and partition_of(of.id, self.definition.partitions) == number
        }
        expected = self.accounts(number, held.offset)
        hold(known == expected, name, number, "knows", known, "at", held, "not", expected)

    def _check_timeline(self, name: str, number: int, timeline: Timeline, held: Position) -> None:
        """Check that a replica knows where the changes tell each write to a document; too old ones may be missing."""
        since = max(timeline.floor, self._broker().clock() - self.definition.declared.history_ttl)
        writes: dict[bytes, list[Account]] = {}
        for effect in self.effects(number, Position(0, -1), held):
            if effect.account is not None and effect.is_write:
                writes.setdefault(self.key(effect.key), []).insert(0, effect.account)
        for key, accounts in writes.items():
            found = [self._accounts.get((number, noted.offset)) for noted in timeline.newest_first(key)]
            expected = [account for account in accounts if account.last >= since or account in found]
            hold(found == expected, name, number, "tells", found, "at", held, "not", expected)

    def stale_keys(self, number: int) -> bool:
        """Tell whether compaction would keep an event of the changes that is not its key's newest."""
        return bool(self._wrong[number])

    def lose_changes(self) -> None:
        """Forget what the changes topic held."""
        for number in range(self.definition.partitions):
            self._newest[number], self._wrong[number] = {}, {}

    def _note_key(self, number: int, message: Written, event: Event) -> None:
        """Note whether a key's last event says what its newest says; where the partition stands, all may say."""
        self._newest_of_all[number] = max(event.position, self._newest_of_all[number])
        if isinstance(event, Progress):
            return
        says = event.body, event.writes
        position, newest = self._newest[number].get(event.sow_key, (event.position, says))
        if event.position >= position:
            position, newest = self._newest[number][event.sow_key] = event.position, says
        if says == newest:
            self._wrong[number].pop(event.sow_key, None)
        else:
            self._wrong[number][event.sow_key] = message.at

    def loads(self, number: int) -> None:
        """Check what a replica would load from the changes."""
        newest: dict[bytes, Change] = {}
        for message in self._broker().parts[self.definition.changes, number].held:
            event = read_event(message.name or b"", message.body, message.about)
            if isinstance(event, Change):
                held = newest.get(event.sow_key)
                if held is None or held.position < event.position:
                    newest[event.sow_key] = event
        found = {key: json.loads(event.body) for key, event in newest.items() if event.body is not None}
        expected = self.state(number, self.last(number))
        hold(found == expected, number, "the changes load to", found, "not", expected)
        known = {key: _account(event.writes) for key, event in newest.items() if event.writes is not None}
        accounts = self.accounts(number, self.last(number))
        hold(known == accounts, number, "the changes load to", known, "not", accounts)

    def settled(self) -> None:
        """Check, at the end, that every log record is accounted for."""
        forwards: dict[int, set[tuple[int, int]]] = defaultdict(set)
        for number in range(self.definition.partitions):
            for message in self._broker().parts[self.definition.log, number].held:
                if origin := self._origin(message):
                    forwards[origin[0]].add((number, origin[1]))
        for number, model in enumerate(self.models):
            dead = {(offset, reason) for partition, offset, reason in self.dead if partition == number}
            hold(dead == set(model.dead), number, "dead letters", dead, "not", model.dead)
            hold(forwards[number] == set(model.forwards), number, "forwards", forwards[number])

    def _origin(self, message: Written) -> tuple[int, int] | None:
        """Return where a forwarded record was first written; nothing for another, and for a copy from another log."""
        found = dict(message.about or []).get("sow.origin") or b""
        log_id, _, position = found.decode().partition(":")
        if log_id != self._log_id:
            return None
        partition, offset = position.split("@")
        return int(partition), int(offset)


def _log_record(written: Written) -> LogRecord:
    return LogRecord(written.at, written.time, written.name, written.body, written.about)


def _body(data: bytes | None) -> Any:
    return None if data is None else json.loads(data)


def _account(writes: Writes | None) -> Account | None:
    return None if writes is None else Account(*astuple(writes))
