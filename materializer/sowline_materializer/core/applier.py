"""The pure core of a partition: (state, log records) → (new state, what to write to Kafka).

Nothing here knows Kafka, RocksDB or a clock: the same records on the same state give the same step, wherever
and whenever they are applied. A step is written to Kafka first and committed to the store after that.
"""

from collections.abc import Sequence
from functools import partial

from sowline.changes.change import Change
from sowline.codecs.codec import CompilerAway
from sowline.codecs.typed_bodies import TypedBodies
from sowline.commands.command import (
    DEFINE,
    DELTA,
    DELTA_PUBLISH,
    EXPIRE,
    PARTIALS,
    PUBLISH,
    SOW_DELETE,
    Command,
    LogRecord,
    read_command,
)
from sowline.config.command_key import keyed_body
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.model.body import read_object
from sowline.native import share
from sowline_materializer.core.batch_state import BatchState, Target
from sowline_materializer.core.bodies import RecordBodies
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.deduplication import Deduplication
from sowline_materializer.core.definer import Definer
from sowline_materializer.core.deletes import Deletes
from sowline_materializer.core.document_writer import DocumentWriter
from sowline_materializer.core.documents import delta_of
from sowline_materializer.core.forwards import Forwards
from sowline_materializer.core.limit_checks import checked_size, require_time
from sowline_materializer.core.record import Record
from sowline_materializer.core.step import REPEAT, Accelerator, Records, Step
from sowline_materializer.core.views import ViewFold
from sowline_materializer.core.writer import RecordWriter, Writer, first_position


class Applier:
    """Applies log records to the State of the World of one partition and collects the resulting step. For each log
    record it drops a copy that was seen before, executes the command, and turns a refusal into a dead letter. A write
    finds its record, is forwarded if its key belongs to another partition, and is dropped if it is a repeat. The
    outcomes without a change are `repeat`, `foreign`, `forwarded`, `noop`, `deleted 0`, `applied` (of a define) and
    `dead`.

    What changes from one log record to the next is the `BatchState`; deduplication, forwards, deletes and the writer
    of records or documents share it.
    """

    def __init__(
        self,
        definition: TopicDefinition,
        partition: int,
        checkpoint: Checkpoint,
        records: Records,
        accelerator: Accelerator | None = None,
        bodies: TypedBodies | None = None,
    ) -> None:
        self._definition = definition
        self._accelerator = accelerator
        self._key_rule = definition.key_rule
        self._records = records
        self._state = state = BatchState(definition, partition, checkpoint, records)
        self._bodies = RecordBodies(state, bodies)
        self._deduplication = deduplication = Deduplication(state)
        self._forwards = Forwards(state)
        self._documents = DocumentWriter(state, deduplication) if definition.documents else None
        self._writer: Writer = self._documents or RecordWriter(state, deduplication, self._bodies)
        self._deletes = Deletes(state, deduplication, self._forwards, self._writer, self._bodies)
        self._definer = Definer(state, deduplication, self._documents, bodies)
        self._appended_of = self._forwards.appended
        view = definition.view
        self._view = None if view is None else ViewFold(definition, view, state, accelerator)
        self.applying: int | None = None
        """The offset of the log record that is being applied; None while the native core applies several."""

    def apply(self, batch: Sequence[LogRecord], resume_at: bytes = b"") -> Step:
        """Apply the records, which are in log order and newer than the checkpoint, and return the step.

        A step that ends within the changes of a log record has an incomplete checkpoint; the caller applies the
        record again. Raise `NeedsOwnSteps` for such a record among others. `resume_at` is the SOW key after the last
        one that the step before it changed, if that is known.
        """
        state = self._state
        state.is_alone, state.resume_at = len(batch) == 1, resume_at
        if self._accelerator is None:
            self._apply_run(batch)
        else:
            accelerated = partial(self._accelerator.apply, batch, state=state)
            share(len(batch), accelerated, lambda start, stop: self._apply_run(batch[start:stop]))
        if batch:
            assert state.position.offset == batch[-1].offset, (
                "the whole batch was applied, by both cores together"
            )
            state.out.step.checkpoint = state.checkpoint()
        return state.out.step

    def _apply_run(self, records: Sequence[LogRecord]) -> None:
        state = self._state
        state.out.step.others += records
        for record in records:
            self.applying = record.offset
            state.begin(record)
            # A refused record must not stop the partition: a publisher that writes one bad message would then block
            # all others. It becomes a dead letter, and the records after it are applied
            # (test_what_can_not_be_applied_is_a_dead_letter).
            try:
                self._apply_one(record, read_command(record.headers))
            # Whether a compiler runs is not in the log: a replay would decide otherwise. The worker starts again.
            except CompilerAway:
                raise
            except SowlineError as error:
                state.out.add_dead_letter(record, error)
            # A forward or a `define` changes the checkpoint without a change event. If it were not reported
            # before the next change, an owner that loads the changes topic would hold that change but not the origin,
            # and apply the forward again (test_an_origin_without_a_change_is_reported_before_the_next_change).
            if state.out.has_unreported_news:
                state.end()
        self.applying = None

    def _apply_one(self, record: LogRecord, command: Command) -> None:
        """Execute the command; raise SowlineError if it is refused."""
        require_time(record)
        if command.key is not None and not (self._key_rule.takes_header and self._definition.has_sow):
            raise SowlineError(
                "bad header",
                f"expected no sow.key: the definition of topic {self._definition.name} does not have it",
            )
        if (
            # Origins are compared first, before the command is looked at. A forwarding owner that crashes after its
            # forward writes it again: [forward of 1@7, crash, forward of 1@7]. The second copy has no effect
            # (test_a_forwarded_record_is_applied_once).
            command.origin is not None
            and (dropped := self._deduplication.dropped(command.origin)) is not None
        ):
            self._state.out.set_outcome(dropped)
        elif command.command == DEFINE:
            self._definer.define(record, command)
        elif self._view is not None:
            self._fold(self._view, record, command)
        elif not self._definition.has_sow:
            self._pass_on(record, command)
        elif command.command == EXPIRE:
            self._deletes.expire(record, command)
        elif command.command == DELTA:
            self._delta(record, command)
        elif command.command == SOW_DELETE or record.value is None:
            self._deletes.delete(record, command)
        elif command.command == PARTIALS:
            raise SowlineError(
                "bad header",
                f"expected partial states only in the log of a view, got them in topic {self._definition.name}",
            )
        else:
            self._publish(record, command)

    def _publish(self, record: LogRecord, command: Command) -> None:
        checked_size(self._state.limits, record.value or b"")
        given = keyed_body(
            self._definition, self._bodies.as_json(record, command), command, self._appended_of
        )
        target = self._target(given.key_text, record, command)
        if target is not None:
            self._writer.write(target, given)

    def _fold(self, view: ViewFold, record: LogRecord, command: Command) -> None:
        if command.command != PARTIALS:
            raise SowlineError(
                "view",
                f"expected partial states in the log of view {self._definition.name}, got a {command.command}:"
                " publish to the topics that it reads",
            )
        view.apply(record)

    def _delta(self, record: LogRecord, command: Command) -> None:
        if self._documents is None:
            raise SowlineError(
                "no documents",
                f"expected documents: true in the definition of topic {self._definition.name}, for a delta",
            )
        assert self._writer is self._documents, "a topic of documents has one writer"
        text = self._key_rule.named(record, command)
        self._key_rule.check(text)
        delta = delta_of(checked_size(self._state.limits, record.value or b""))
        target = self._target(text, record, command)
        if target is not None:
            self._documents.fold(target, delta)

    def _target(self, text: str, record: LogRecord, command: Command) -> Target | None:
        """Return the record that a write is for; None if the write is a repeat, or is forwarded to the partition of
        its key.
        """
        key = self._key_rule.sow_key(text)
        current = self._records.get(key)
        if current is None:
            if not self._forwards.owns(text):
                self._forwards.to_owner(record, command, text)
                return None
        elif current.key_text != text:
            # A SOW key is a hash of 64 bits. Two key texts with one hash would overwrite each other without notice
            # (test_another_key_text_under_the_same_sow_key_is_refused).
            raise _collision(key, current, text)
        elif command.publisher is not None and self._deduplication.is_repeat(current, command):
            self._state.out.set_outcome(REPEAT)
            return None
        return Target(key, text, current, record, command)

    def _pass_on(self, record: LogRecord, command: Command) -> None:
        """Turn a message in a topic without a SOW into a change. Its partition and offset serve as its key."""
        assert not self._definition.has_sow, "only a topic without a SOW passes messages on"
        if record.value is None or command.command not in (PUBLISH, DELTA_PUBLISH):
            raise SowlineError(
                "no sow",
                f"expected a publish in topic {self._definition.name}, which has no SOW, got a command for a record",
            )
        state = self._state
        checked_size(state.limits, record.value)
        body = checked_size(state.limits, self._bodies.as_json(record, command).value or b"")
        read_object(body)
        change = Change(
            sow_key=f"{state.partition}@{record.offset}".encode(),
            body=body,
            previous=None,
            position=state.next_position(),
            after=state.last_change,
            op=PUBLISH,
            time=state.time,
            correlation=command.correlation,
            schema_id=self._bodies.schema_id,
            origin=first_position(command),
        )
        state.add_change(change)


def _collision(key: bytes, current: Record, text: str) -> SowlineError:
    assert current.key_text != text, "one key text collides with no other"
    return SowlineError(
        "key collision",
        f"expected the key text {current.key_text!r} under SOW key {key.decode()}, got {text!r}",
    )
