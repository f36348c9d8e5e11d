"""Going through log records one by one, and collecting the step that they make. Pure.

What a record's command does is said in `core`; here is what all commands share: where the partition stands, the
changes in their order, repeats, forwards, and limits.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from materializer.head import Head
from materializer.record import Record
from materializer.repeats import is_repeat, remember
from materializer.step import DeadLetter, Forward, Records, Step
from sowline.change import Change, Numbers
from sowline.command import Command, LogRecord, Origin, read_command
from sowline.document.writes import Writes
from sowline.errors import SowlineError
from sowline.key import partition_of
from sowline.position import Position
from sowline.topics import TopicDefinition

ORIGIN_BYTES = 4096
"""Room for the origin header of a forwarded record, and for Kafka's framing of its headers."""


class Stepping(ABC):
    """Goes through log records over the records of one partition. A subclass says what the commands do."""

    def __init__(self, definition: TopicDefinition, partition: int, head: Head, records: Records) -> None:
        self._definition = definition
        self._partition = partition
        self._records = records
        self._step = Step(head)
        self._era = head.position.era
        self._time = head.time
        self._position = head.position
        self._last_change = head.last_change
        self._origins = dict(head.origins)
        self._limits = head.limits
        self._numbers_since = head.numbers_since
        self._live = head.records
        self._offset = -1
        self._index = 0
        self._resumed = False
        self._noted = False
        self._untold: Head | None = None

    def apply(self, batch: Sequence[LogRecord]) -> Step:
        """Apply the records, which are in log order and newer than the head, and return the step."""
        for record in batch:
            self._begin(record)
            try:
                self._apply_one(record, read_command(record.headers))
            except SowlineError as error:
                self._step.dead.append(DeadLetter(record, error.reason, error.message))
                self._step.outcomes[str(record.offset)] = f"dead:{error.reason}"
            if self._noted:
                self._noted = False
                self._untold = None if self._index else self._head()
        if batch:
            self._step.head = self._head()
        return self._step

    def _head(self) -> Head:
        """Return the head behind the record that was just applied."""
        return replace(
            self._step.head,
            position=self._position,
            last_change=self._last_change,
            time=self._time,
            origins=dict(self._origins),
            complete=True,
            limits=self._limits,
            numbers_since=self._numbers_since,
            records=self._live,
        )

    def _begin(self, record: LogRecord) -> None:
        """Move to the record. Changes of it that the state holds already (a recovery cut short) count on."""
        self._offset = offset = record.offset
        self._resumed = offset == self._position.offset
        if self._resumed:
            self._index = self._position.nth + 1
        else:
            self._index = 0
            self._position = Position(self._era, offset)
        if record.time > self._time:
            self._time = record.time

    @abstractmethod
    def _apply_one(self, record: LogRecord, command: Command) -> None:
        """Do what the command asks for; raises SowlineError where it is refused."""

    def _first_seen(self, origin: Origin) -> bool:
        highest = self._origins.get(origin.partition, -1)
        if origin.offset < highest or (origin.offset == highest and not self._resumed):
            return False
        self._origins[origin.partition] = origin.offset
        self._noted = True
        return True

    # what a partition takes

    def _checked_size(self, body: bytes) -> bytes:
        if len(body) > self._limits.record_bytes_max:
            raise SowlineError(
                "too large",
                f"expected a record of at most {self._limits.record_bytes_max} bytes, got {len(body)}",
            )
        return body

    def _check_room(self) -> None:
        share = self._limits.share(self._definition.partitions)
        if share is not None and self._live >= share:
            raise SowlineError(
                "too many records",
                f"expected an update, or less than {share} records in partition {self._partition} "
                f"({self._limits.records_max} in all), got a new one beside {self._live}",
            )

    # changes

    def _change(
        self,
        key: bytes,
        body: bytes | None,
        previous: bytes | None,
        op: str,
        command: Command,
        numbers: Numbers | None,
        expires: int | None = None,
        *,
        last: bool = True,
        reason: str | None = None,
        outcome: str | None = None,
        key_text: str | None = None,
        writes: Writes | None = None,
        writes_before: Writes | None = None,
        text: bytes | None = None,
    ) -> Position:
        if self._untold is not None:
            self._step.untold.append((len(self._step.changes), self._untold))
            self._untold = None
        position = Position(self._era, self._offset, self._index) if self._index else self._position
        self._step.changes.append(
            Change(
                key,
                body,
                previous,
                position,
                self._last_change,
                op,
                self._time,
                last,
                reason,
                expires,
                command.correlation,
                numbers,
                command.origin,
                outcome,
                key_text,
                None,
                writes,
                writes_before,
                text,
            )
        )
        self._index += 1
        self._position = self._last_change = position
        return position

    # repeats

    def _is_repeat(self, current: Record, command: Command) -> bool:
        return is_repeat(current.numbers, command, self._remembered_since())

    def _remember(self, current: Record | None, command: Command) -> Numbers | None:
        numbers = current.numbers if current is not None else None
        if command.publisher is None and numbers is None:
            return None
        numbers, pushed_out = remember(numbers, command, self._time, self._remembered_since())
        self._step.publishers_pushed_out += pushed_out
        return numbers

    def _remembered_since(self) -> int:
        """Return the log time from which on numbers count. What was out of a window stays so in a longer one."""
        return max(self._time - self._limits.repeat_window, self._numbers_since)

    # forwards

    def _is_mine(self, text: str) -> bool:
        return partition_of(text, self._definition.partitions) == self._partition

    def _forward(self, record: LogRecord, command: Command, text: str) -> None:
        if command.origin is not None:
            raise SowlineError("bad header", "expected a record with sow.origin to be in its own partition")
        self._check_fits(record)
        owner = partition_of(text, self._definition.partitions)
        self._step.forwards.append(Forward(owner, record, Origin(self._partition, record.offset)))
        self._step.outcomes[str(record.offset)] = f"forwarded {owner}"

    def _check_fits(self, record: LogRecord) -> None:
        """Refuse a record whose key and headers are so large that with an origin the log would not take it."""
        parts = [
            record.key,
            record.value,
            *(part for name, value in record.headers or () for part in (name, value)),
        ]
        size = sum(len(part) for part in parts if part is not None)
        if size > self._limits.log_bytes_max - ORIGIN_BYTES:
            raise SowlineError(
                "too large", f"expected a record that can be forwarded, got {size} bytes with its headers"
            )

    def _forward_to_all(self, record: LogRecord, command: Command) -> None:
        if command.origin is None:
            self._check_fits(record)
            origin = Origin(self._partition, record.offset)
            others = (p for p in range(self._definition.partitions) if p != self._partition)
            self._step.forwards.extend(Forward(other, record, origin) for other in others)
