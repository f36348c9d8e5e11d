"""Writes to the records of a partition: a command's body becomes a record and a change. Pure."""

from typing import NamedTuple, Protocol

from sowline.changes.change import DELETE, DELETED, Change
from sowline.commands.command import DELTA_PUBLISH, PUBLISH, Command, Origin
from sowline.config.command_key import KeyedBody
from sowline.errors import SowlineError
from sowline_materializer.core.batch_state import BatchState, Target
from sowline_materializer.core.bodies import RecordBodies
from sowline_materializer.core.deduplication import Deduplication
from sowline_materializer.core.enricher import Enricher, Given
from sowline_materializer.core.limit_checks import checked_size, require_capacity
from sowline_materializer.core.record import record_after


class Removal(NamedTuple):
    """The fields of a removal's change: `last` is false on all but the last change of one command."""

    op: str = DELETE
    reason: str = DELETED
    last: bool = True
    outcome: str | None = None


class Writer(Protocol):
    """Writes the records of a topic of one kind: JSON records, or documents."""

    def write(self, target: Target, given: KeyedBody) -> None:
        """Insert or update the target's record with a body; raise SowlineError if it is refused."""

    def remove(self, target: Target, removal: Removal) -> None:
        """Remove the target's record, which must be live."""


class RecordWriter:
    """Writes JSON records: a publish replaces the body, a delta publish merges into it."""

    def __init__(self, state: BatchState, deduplication: Deduplication, bodies: RecordBodies) -> None:
        self._state = state
        self._bodies = bodies
        self._deduplication = deduplication
        definition, stage = state.definition, state.definition.enrich
        self._enricher = None if stage is None else Enricher(definition, stage, state.partition)
        self._computes = stage is not None or definition.preprocess is not None

    def write(self, target: Target, given: KeyedBody) -> None:
        """Insert or update the record."""
        state, command, current, body = self._state, target.command, target.current, given.body
        previous = None if current is None else current.body
        if self._enricher is not None:
            body = self._enriched(self._enricher, target, given)
        if previous is None:
            require_capacity(state)
        elif command.command == DELTA_PUBLISH:
            body = self._bodies.merged(previous, body)
        if self._computes or command.command == DELTA_PUBLISH:
            body = self._bodies.completed(body)
        if self._computes and self._bodies.are_typed:
            self._require_key(target, body)
        checked_size(state.limits, body)
        change = Change(
            sow_key=target.sow_key,
            body=body,
            previous=previous,
            position=state.next_position(),
            after=state.last_change,
            op=DELTA_PUBLISH if command.command == DELTA_PUBLISH else PUBLISH,
            time=state.time,
            expires=state.limits.due(state.time, command.expiration),
            correlation=command.correlation,
            numbers=self._deduplication.numbers_after(current, command),
            schema_id=self._bodies.schema_id,
            origin=None if command.origin is None else command.origin.source,
        )
        assert change.body is not None, "a publish leaves a live record"
        state.add_change(change)
        state.records.put(target.sow_key, record_after(change, target.key_text, state.time))
        if previous is None:
            state.live_records += 1

    def _require_key(self, target: Target, body: bytes) -> None:
        # FIX has no booleans, so a computed `true` becomes Y. An owner that loads the record from the changes topic
        # takes the key from its body, and would refuse the next message as another key under the same SOW key
        # (test_a_computed_key_must_be_the_one_of_the_record).
        text = self._state.definition.key_rule.text_of(target.sow_key, body)
        if text != target.key_text:
            raise SowlineError(
                "bad message",
                f"expected a computed key as records of the message type have it, got {target.key_text[:60]!r}, which"
                f" becomes {text[:60]!r}: compute that text",
            )

    def _enriched(self, enricher: Enricher, target: Target, given: KeyedBody) -> bytes:
        state, current, previous = self._state, target.current, target.previous
        about = Given(
            target.sow_key,
            state.position.era,
            target.log_record.offset,
            len(target.log_record.value or b""),
            target.command.correlation,
            state.time,
            None if current is None or previous is None else current.time,
            self._bodies.upgraded(previous) if previous is not None and enricher.needs_previous else None,
        )
        return enricher.enriched(given.body, given.document, about)

    def remove(self, target: Target, removal: Removal) -> None:
        """Remove the record. Its publishers' numbers are kept, so that repeats are still recognized."""
        state = self._state
        assert target.previous is not None, "only a live record is removed"
        change = Change(
            sow_key=target.sow_key,
            body=None,
            previous=target.previous,
            position=state.next_position(),
            after=state.last_change,
            op=removal.op,
            time=state.time,
            last=removal.last,
            reason=removal.reason,
            correlation=target.command.correlation,
            numbers=self._deduplication.numbers_after(target.current, target.command),
            origin=first_position(target.command),
            outcome=removal.outcome,
        )
        state.add_change(change)
        # A producer's time may be years ahead, and what is deleted after it would never be forgotten
        # (test_a_deletion_with_a_producers_time_is_forgotten).
        tombstone = record_after(change, target.key_text, state.log_time) if change.numbers else None
        state.records.put(target.sow_key, tombstone)
        state.live_records -= 1
        assert state.live_records >= 0, "a count of live records is never negative"


def first_position(command: Command) -> Origin | None:
    """Return the origin of a forwarded command; None if it was not forwarded."""
    return None if command.origin is None else command.origin.source
