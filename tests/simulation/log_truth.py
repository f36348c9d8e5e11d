"""What is true of a topic whose logs are replaced: each era applies its own log to the state that it began with."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sowline.changes.change import AGAIN, Change
from sowline.changes.event import read_event
from sowline.commands.command import LogRecord
from sowline.config.topic_definition import TopicDefinition
from sowline.model.position import Position
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import decode_record
from sowline_materializer.store.integrity import survey
from sowline_query_service.topics.state import ServedTopics
from tests.memory_store import MemoryStore
from tests.property.model import Body, Kept, PartitionModel
from tests.simulation.broker import Part, Written
from tests.simulation.truth import hold


@dataclass
class EraModel(PartitionModel):
    """The model of one era; it remembers also what it would be the base of."""

    kept_at: dict[int, dict[str, Kept]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """The state before the log is the base of the era."""
        super().__post_init__()
        self._keep_state(-1)

    def _keep_state(self, offset: int) -> None:
        super()._keep_state(offset)
        self.kept_at[offset] = dict(self.kept)


@dataclass
class Era:
    """An era of a partition: the partition of a log that it applies, and the last change before it."""

    part: Part
    base: Position
    model: EraModel
    replayed: int = -1

    def replay(self) -> EraModel:
        """Return the model where what is committed of the log ends."""
        new = [one for one in self.part.held if self.replayed < one.at < self.part.stable]
        self.model.replay(LogRecord(one.at, one.time, one.name, one.body, one.about) for one in new)
        self.replayed = new[-1].at if new else self.replayed
        return self.model


class LogTruth:
    """The model of each era of each partition, and the checks of all that says something about them."""

    may_expire = False

    def __init__(self, definition: TopicDefinition) -> None:
        self.definition = definition
        self.logs: dict[str, list[Part]] = {}
        """The partitions of each log that there ever was, by its id."""
        self._eras: list[dict[int, Era]] = [{} for _ in range(definition.partitions)]
        self._unread: list[list[Change]] = [[] for _ in range(definition.partitions)]
        """Changes of eras of which it is not yet said which log they apply."""
        self.letters: list[Written] = []
        """The dead letters that were written."""

    def is_applied(self, number: int, held: Position) -> bool:
        """Whether a position is the last one of the present log."""
        era, part = self._eras[number].get(held.era), self._present(number)
        return era is not None and era.part is part and held.offset == max(era.replay().states)

    def is_present(self, number: int, held: Position) -> bool:
        """Whether a position is one of the present log."""
        era = self._eras[number].get(held.era)
        return era is not None and era.part is self._present(number)

    def applies(self, number: int, held: Position, log_id: str) -> bool:
        """Whether a position is one of the log with this id."""
        era = self._eras[number].get(held.era)
        return era is not None and era.part is self.logs[log_id][number]

    def _present(self, number: int) -> Part:
        return list(self.logs.values())[-1][number]

    def _is_of(self, number: int, position: Position, base: Position, log_id: str) -> Era:
        """Return the era of a position; it must apply the log with this id."""
        hold(log_id in self.logs, number, "an era of a log that never was:", position, log_id)
        part, eras = self.logs[log_id][number], self._eras[number]
        if position.era not in eras:
            # Where the era began with a change, that change says after what.
            firsts = [one.after for one in self._unread[number] if one.position.era == position.era]
            base = (firsts or [base])[0]
            eras[position.era] = Era(part, base, self._model(number, position, base))
        era = eras[position.era]
        hold(
            era.part is part, number, position, "is said to be of", log_id, "but its era applies another log"
        )
        if base.era != position.era:
            hold(era.base == base, number, position, "says that its era begins after", base, "not", era.base)
        return era

    def _model(self, number: int, position: Position, base: Position) -> EraModel:
        definition, limits = self.definition, self.definition.limits
        kept: dict[str, Kept] = {}
        if position.era:
            hold(
                base.era in self._eras[number], number, position, "begins after an era that never was:", base
            )
            kept = dict(self._eras[number][base.era].replay().kept_at[base.offset])
        given = number, definition.partitions, definition.declared.domain_prefix, limits.record_bytes_max
        return EraModel(*given, limits.repeat_window, kept=kept)

    # the changes topic

    def written(self, message: Written) -> None:
        """Check an event that a worker has written."""
        number = message.partition_id[1]
        event = read_event(message.name or b"", message.body, message.about)
        if isinstance(event, Change):
            self._unread[number].append(event)
        else:
            era = self._is_of(number, event.position, event.after, event.log_id)
            hold(
                event.position.offset in era.replay().states, number, "there is no record at", event.position
            )
        self._read(number)

    def _read(self, number: int) -> None:
        """Check the changes of which it is known by now which log they apply."""
        unread, self._unread[number] = self._unread[number], []
        for event in unread:
            era = self._eras[number].get(event.position.era)
            if era is None:
                self._unread[number].append(event)
            elif event.op != AGAIN:
                self._check_change(number, event, era)

    def _check_change(self, number: int, event: Change, era: Era) -> None:
        effects = era.replay().effects
        at = [effect.position for effect in effects]
        position = event.position.offset, event.position.nth
        hold(position in at, number, "a change that never was", event)
        index = at.index(position)
        effect = effects[index]
        found = event.sow_key, _body(event.previous), _body(event.body)
        expected = self.definition.key_rule.sow_key(effect.key), effect.before, effect.now
        hold(found == expected, number, event, "but", effect)
        before = Position(event.position.era, *at[index - 1]) if index else era.base
        hold(event.after == before, number, event.position, "says after", event.after, "not", before)

    # what is kept, and what is served

    def committed(self, path: Path, store: MemoryStore) -> None:
        """Check a partition's store after a commit."""
        data = store.checkpoint()
        if not data:
            return
        checkpoint, number = Checkpoint.decode(data), int(path.name)
        hold(survey(store).checksum == store.checksum(), path, "the tally is wrong")
        # The state of an era without records is the state before it.
        self._is_of(number, checkpoint.position, checkpoint.last_change, checkpoint.log_id)
        self._read(number)
        records = {key: decode_record(entry) for key, entry in store.scan()}
        live = {key: json.loads(record.body) for key, record in records.items() if record.body is not None}
        self._check_state(number, live, checkpoint.position, path)

    def replica(self, name: str, state: ServedTopics, number: int) -> None:
        """Check a replica's part between two instants."""
        topic = state.topics[self.definition.name]
        held, rows = topic.partitions[number].held, topic.rows
        captured = rows.capture(rows.of_partition(number, 0, rows.end))
        found = {key: json.loads(body) for key, body in zip(captured.keys, captured.bodies, strict=True)}
        if held.era in self._eras[number]:
            self._check_state(number, found, held, name)

    def _check_state(self, number: int, found: dict[bytes, Body], at: Position, who: object) -> None:
        states = self._eras[number][at.era].replay().states
        hold(at.offset in states, who, number, "there is no log record at", at)
        expected = {self.definition.key_rule.sow_key(key): body for key, body in states[at.offset].items()}
        hold(found == expected, who, number, "holds", found, "at", at, "not", expected)

    def check_read(self) -> None:
        """Every era has said which log it applies."""
        hold(not any(self._unread), "changes of an era that does not say which log it applies:", self._unread)

    def check_letters(self) -> None:
        """Each dead letter is a refused record; all that the present log has are there, and nothing else is."""
        found = [_letter(one) for one in self.letters]
        eras = [(number, era) for number, eras in enumerate(self._eras) for era in eras.values()]
        expected = [letter for number, era in eras for letter in _letters(number, era)]
        for letter in found:
            hold(letter in expected, "a dead letter of no refused record:", letter)
        for number, era in eras:
            if era.part is self._present(number):
                missing = [letter for letter in _letters(number, era) if letter not in found]
                hold(not missing, "no dead letter:", missing)

    # how far a reader is behind

    def count_behind(self, number: int, held: Position, before: int) -> int:
        """Return how many records of the present log, behind a position, were written before a time (ms)."""
        return sum(one.at > held.offset and one.time < before for one in self._present(number).held)

    def check_fresh(self, number: int, held: Position, before: int) -> None:
        """A state is said to be fresh: all that was written to the log before a time (ms) is applied.

        What is in an open transaction, or behind it, is not.
        """
        written = [one for one in self._present(number).held if one.time < before]
        if written:
            is_so = self.is_present(number, held) and held.offset >= written[-1].at
            hold(is_so, number, "is said to be fresh at", held, "without", written[-1].at)


def _letters(number: int, era: Era) -> Iterator[tuple[Any, ...]]:
    """Return what the dead letters of an era have; for headers that can't be read, what stands for them."""
    held = {one.at: one for one in era.part.held}
    for offset, reason in era.replay().dead:
        record = held[offset]
        original_key = [] if record.name is None else [("sow.original_key", record.name)]
        letter_key = f"{number}@{offset}".encode()
        yield letter_key, record.body, [*(record.about or []), *original_key, ("sow.reason", reason.encode())]


def _letter(letter: Written) -> tuple[Any, ...]:
    return letter.name, letter.body, [one for one in letter.about or [] if one[0] != "sow.message"]


def _body(data: bytes | None) -> Any:
    return None if data is None else json.loads(data)
