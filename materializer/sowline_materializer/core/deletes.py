"""Commands that remove records: deletes of one record or of many, and the `expire` of the owner. Pure."""

from collections.abc import Iterable, Iterator

import orjson

from sowline.changes.change import EXPIRED
from sowline.commands.command import EXPIRE, Command, LogRecord
from sowline.commands.key_rule import decoded_key
from sowline.config.command_key import named_key
from sowline.errors import SowlineError
from sowline.language.filter import Filter, Metadata, compile_filter, require_deterministic
from sowline.language.filter.metadata import document_about
from sowline.model.log_time import TIME_MAX
from sowline_materializer.core.batch_state import BatchState, Target
from sowline_materializer.core.bodies import RecordBodies
from sowline_materializer.core.deduplication import Deduplication
from sowline_materializer.core.forwards import Forwards
from sowline_materializer.core.limit_checks import checked_size
from sowline_materializer.core.portions import portion
from sowline_materializer.core.record import Record
from sowline_materializer.core.step import REPEAT
from sowline_materializer.core.writer import Removal, Writer


class Deletes:
    """Removes the records that a delete names or selects, and records that have expired."""

    def __init__(
        self,
        state: BatchState,
        deduplication: Deduplication,
        forwards: Forwards,
        writer: Writer,
        bodies: RecordBodies,
    ) -> None:
        self._state = state
        self._deduplication = deduplication
        self._forwards = forwards
        self._writer = writer
        self._bodies = bodies
        self._key_rule = state.definition.key_rule

    def delete(self, record: LogRecord, command: Command) -> None:
        """Delete the record that the command names, or those that it selects."""
        if command.filter is None and command.keys is None:
            self._delete_named(record, command)
            return
        if record.value:
            raise SowlineError(
                "bad header", "expected one selector, got a body together with sow.filter or sow.keys"
            )
        self._delete_selected(record, command)

    def _delete_selected(self, record: LogRecord, command: Command) -> None:
        state = self._state
        # The records before that key are deleted, or can't be.
        start = state.first_key
        if command.filter is not None:
            keys = self._matching(command.filter, start)
        else:
            keys = iter(sorted(key for one in set(command.keys or ()) if (key := one.encode()) >= start))
        targets, is_last = portion(self._to_delete(keys, record, command), state)
        # Only the partition that the publisher wrote to has the command. The other partitions hold matching records,
        # too; each gets a copy, and decides by its own state (test_a_delete_for_all_goes_to_all_others). Kafka had
        # the copies before the first change: those who resume write none again.
        if not state.resumed:
            self._forwards.to_all(record, command)
        last_index = state.index + len(targets)
        outcome = f"deleted {last_index}"
        # All changes but the last say that more follow. A reader shows none of them before the last has come: it
        # would otherwise show half of a command (test_a_delete_by_filter_makes_many_changes_in_key_order).
        for target in targets[:-1]:
            self._writer.remove(target, Removal(last=False))
        for target in targets[-1:]:
            self._writer.remove(target, Removal(outcome=outcome) if is_last else Removal(last=False))
        assert state.index == last_index, "each record that is deleted makes one change"
        state.complete = is_last
        if not targets:
            state.out.set_outcome(outcome)

    def _to_delete(self, keys: Iterable[bytes], record: LogRecord, command: Command) -> Iterator[Target]:
        for key in keys:
            current = self._state.records.get(key)
            if current is not None and self._can_delete(current, command):
                yield Target(key, current.key_text, current, record, command)

    def _matching(self, text: str, start: bytes) -> Iterator[bytes]:
        filter = compile_filter(text)
        require_deterministic(filter, "the filter of a sow_delete")
        return (key for key, record in self._state.records.scan(start) if self._matches(filter, key, record))

    def _matches(self, filter: Filter, key: bytes, record: Record) -> bool:
        """Whether the filter matches a record; a deleted one has no content."""
        body = record.body or b"{}"
        if not filter.needs_about:
            return filter.matches(orjson.loads(body))
        metadata = Metadata(
            sow_key=key.decode(),
            topic=self._state.definition.name,
            size=len(body),
            updated=record.time / 1000,
            correlation=record.correlation,
        )
        if record.writes is not None:
            metadata = document_about(metadata, record.key_text, record.writes)
        return filter.matches_about(orjson.loads(body), metadata)

    def _delete_named(self, record: LogRecord, command: Command) -> None:
        state = self._state
        checked_size(state.limits, record.value or b"")
        named = self._bodies.as_json(record, command) if record.value else record
        text = named_key(state.definition, named, command, self._forwards.appended)
        key = self._key_rule.sow_key(text)
        current = state.records.get(key)
        if current is None and not self._forwards.owns(text):
            self._forwards.to_owner(record, command, text)
        elif current is not None and current.key_text == text and self._can_delete(current, command):
            # Two key texts may share a SOW key, a hash of 64 bits. Without the comparison a delete of the one would
            # remove the record of the other.
            self._writer.remove(Target(key, text, current, record, command), Removal(outcome="deleted 1"))
        else:
            repeat = current is not None and self._deduplication.is_repeat(current, command)
            state.out.set_outcome(REPEAT if repeat else "deleted 0")

    def _can_delete(self, current: Record, command: Command) -> bool:
        return current.body is not None and not self._deduplication.is_repeat(current, command)

    def expire(self, record: LogRecord, command: Command) -> None:
        """Remove a record that has expired, unless it was updated after its owner appended the command."""
        if record.value:
            raise SowlineError("bad header", "expected an expire without a body, got one")
        if record.key is None:
            raise SowlineError(
                "key missing", "expected a Kafka key that names the record to expire, got none"
            )
        text = decoded_key(record.key)
        key = self._key_rule.sow_key(text)
        current = self._state.records.get(key)
        if current is not None and current.key_text == text and self._is_due(current, command):
            assert current.expires is not None, "only a record with a due time expires"
            target = Target(key, text, current, record, command)
            self._writer.remove(target, Removal(op=EXPIRE, reason=EXPIRED))
        else:
            self._state.out.set_outcome("noop")

    def _is_due(self, current: Record, command: Command) -> bool:
        state = self._state
        # [K due at position 5, update 6 of K, expire of K as of 5]: the update came first in the log, so K lives.
        # Without the guard an update in time would be lost (test_an_update_in_time_keeps_the_record).
        unchanged = current.body is not None and current.position == command.guard
        # The owner asked by its own clock. If that is ahead of the broker's, the record is not due yet in log time
        # (test_an_expire_before_its_time_is_harmless).
        # A due time beyond the year 9999 comes from a time that no producer can have meant: the record was due
        # sometime in the past (test_a_due_time_that_never_comes_is_over).
        due = current.expires
        reached = due is not None and (due <= state.time or due > TIME_MAX)
        return unchanged and reached and state.limits.may_expire
