"""Forwards: log records that other partitions must apply. Pure."""

from sowline.commands.command import Command, CopyOf, LogRecord, Origin
from sowline.commands.key_generator import Appended
from sowline.config.command_key import owner_of
from sowline.errors import SowlineError
from sowline_materializer.core.batch_state import BatchState
from sowline_materializer.core.step import Forward

ORIGIN_BYTES = 4096
"""Space for the origin header of a forwarded record, and for Kafka's framing of its headers."""


class Forwards:
    """Forwards records to their owners, each with its origin in this log."""

    def __init__(self, state: BatchState) -> None:
        self._state = state

    def owns(self, key_text: str) -> bool:
        """Whether this partition owns the record with this key text."""
        return owner_of(self._state.definition, key_text) == self._state.partition

    def appended(self, record: LogRecord, command: Command) -> Appended:
        """Return where and when a record was first appended; a forwarded record has that in its headers."""
        origin, time = command.origin, command.origin_time
        if origin is not None and time is not None:
            return Appended(time, *origin.source)
        return Appended(self._state.time, self._state.partition, record.offset)

    def to_owner(self, record: LogRecord, command: Command, key_text: str) -> None:
        """Forward a record to the partition that owns its key; raises `bad header` if it was forwarded before."""
        # A forwarded record in the wrong partition would be forwarded without end, between partitions whose
        # definitions disagree.
        if command.origin is not None:
            raise SowlineError("bad header", "expected a record with sow.origin to be in its own partition")
        state = self._state
        # A key generator may use where and when a record was appended. The owner must use the original append, or the
        # same record would get another key there.
        if state.definition.key_rule.needs_append:
            headers = [*(record.headers or ()), ("sow.origin_time", b"%d" % state.time)]
            record = LogRecord(record.offset, record.time, record.key, record.value, headers)
        self._check_fits(record)
        owner = owner_of(state.definition, key_text)
        assert owner != state.partition, "a record is forwarded to another partition"
        state.out.step.forwards.append(Forward(owner, record, self._copy_of(record)))
        state.out.set_outcome(f"forwarded {owner}")

    def to_all(self, record: LogRecord, command: Command) -> None:
        """Forward a command for any record to all other partitions, unless it was forwarded to this one."""
        if command.origin is None:
            self._check_fits(record)
            origin = self._copy_of(record)
            state = self._state
            others = (p for p in range(state.definition.partitions) if p != state.partition)
            state.out.step.forwards.extend(Forward(other, record, origin) for other in others)

    def _copy_of(self, record: LogRecord) -> CopyOf:
        return CopyOf(self._state.log_id, Origin(self._state.partition, record.offset))

    def _check_fits(self, record: LogRecord) -> None:
        """Refuse a record whose key and headers are so large that the log would not take it with an origin."""
        parts = [
            record.key,
            record.value,
            *(part for name, value in record.headers or () for part in (name, value)),
        ]
        size = sum(len(part) for part in parts if part is not None)
        # The origin header makes the record larger. If Kafka refused it later, the worker would stop at this record
        # permanently. Refused here, it becomes a dead letter.
        if size > self._state.limits.log_bytes_max - ORIGIN_BYTES:
            raise SowlineError(
                "too large", f"expected a record small enough to forward, got {size} bytes with its headers"
            )
