"""The state of a partition that moves from log record to log record of a batch, and the step that they make. Pure."""

from dataclasses import replace

import msgspec

from sowline.changes.change import Change
from sowline.codecs.typed_bodies import TypedBodies
from sowline.commands.command import Command, LogRecord
from sowline.config.command_key import read_body
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.model.bookmark import PositionsByLog, format_bookmark, lay_over, parse_bookmark
from sowline.model.log_time import LOG_APPEND_TIME, TIME_MAX, is_time, times_after
from sowline.model.merge import merge
from sowline.model.position import Position, position_of
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import Record
from sowline_materializer.core.step import DeadLetter, Records, Step


class Target(msgspec.Struct, frozen=True, gc=False):
    """A command, and the record that it is for, as it was before: `current`, or None."""

    sow_key: bytes
    key_text: str
    current: Record | None
    log_record: LogRecord
    command: Command

    @property
    def previous(self) -> bytes | None:
        """The body before the command; None if there is no live record."""
        return None if self.current is None else self.current.body


class BatchState:
    """Position, log time, limits and counts behind the last log record. The parts of an `Applier` share it.

    `time` is that of the current log record: log time, or its producer's time if that is later. `index` numbers the
    changes of the current log record, `resumed` says that the state holds its first ones already.
    `schema_id` is what the message that was read last names.
    """

    __slots__ = (
        "_unreported",
        "bodies",
        "definition",
        "has_unreported_news",
        "index",
        "last_change",
        "limits",
        "live_records",
        "log_id",
        "log_time",
        "numbers_since",
        "offset",
        "origins",
        "partition",
        "position",
        "records",
        "reflected",
        "resumed",
        "schema_id",
        "step",
        "taken",
        "time",
    )

    def __init__(
        self,
        definition: TopicDefinition,
        partition: int,
        checkpoint: Checkpoint,
        records: Records,
        bodies: TypedBodies | None = None,
    ) -> None:
        self.bodies = bodies
        self.definition = definition
        self.partition = partition
        self.records = records
        self.step = Step(checkpoint)
        self.time = self.log_time = checkpoint.time
        self.position = checkpoint.position
        self.last_change = checkpoint.last_change
        self.log_id = checkpoint.log_id
        self.origins = dict(checkpoint.origins)
        self.reflected = dict(checkpoint.reflected)
        self.taken = dict(checkpoint.taken)
        self.limits = checkpoint.limits
        self.numbers_since = checkpoint.numbers_since
        self.live_records = checkpoint.records
        self.offset = -1
        self.index = 0
        self.resumed = False
        self.schema_id: int | None = None
        self.has_unreported_news = False
        self._unreported: Checkpoint | None = None

    def begin(self, record: LogRecord) -> None:
        """Move to the log record. Continue after the changes of it that the state already holds (an interrupted
        recovery).
        """
        self.offset = offset = record.offset
        # A delete by filter makes many changes, and a crash can leave some of them in Kafka. [changes 4.0 and 4.1,
        # crash, 4.0 and 4.1 found]: the record is read again, and its next change must be 4.2. With 4.0, followers
        # would drop two of the remaining deletions as repeats (test_a_delete_cut_short_goes_on_where_it_was).
        self.resumed = offset == self.position.offset
        if self.resumed:
            self.index = self.position.nth + 1
        else:
            self.index = 0
            self.position = position_of((self.position.era, offset, 0))
        self.log_time, self.time = times_after(self.log_time, record.time, record.time_type)

    def report_before(self, first_change: int) -> None:
        """Note that changes may have been appended to the step from that index on, without `add_change`."""
        step = self.step
        if self._unreported is not None and len(step.changes) > first_change:
            step.unreported.append((first_change, self._unreported))
            self._unreported = None

    def end(self) -> None:
        """Finish a log record with news: unless its changes report them, they are written before the next change."""
        self.has_unreported_news = False
        # A change event carries the origin and the limits of its own log record, so only a record without changes
        # leaves news to report (test_an_origin_without_a_change_is_reported_before_the_next_change).
        self._unreported = None if self.index else self.checkpoint()

    def checkpoint(self) -> Checkpoint:
        """Return the checkpoint after the current log record."""
        return replace(
            self.step.checkpoint,
            position=self.position,
            last_change=self.last_change,
            time=self.log_time,
            origins=dict(self.origins),
            reflected=dict(self.reflected),
            taken=dict(self.taken),
            complete=True,
            limits=self.limits,
            numbers_since=self.numbers_since,
            records=self.live_records,
        )

    # what a view reflects

    def reflect(self, source: int, position: Position, taken: PositionsByLog, *, is_all: bool) -> None:
        """Note the position up to which a source partition is reflected, and what its owner has taken by then.

        `is_all` if `taken` has all of that, and not only what has moved.
        """
        self.reflected[source] = position
        before = self.taken.pop(source, None)
        held = {} if before is None or is_all else parse_bookmark(before)
        if whole := lay_over(held, taken):
            self.taken[source] = format_bookmark(whole)

    # the outcome of the log record

    def next_position(self) -> Position:
        """Return the position of the next change of this log record."""
        index = self.index
        return Position(self.position.era, self.offset, index) if index else self.position

    def add_change(self, change: Change) -> None:
        """Append a change, made at `next_position` and after `last_change`, to the step."""
        step, changes = self.step, self.step.changes
        if self.time != self.log_time:
            change = msgspec.structs.replace(change, log_time=self.log_time)
        changes.append(change)
        step.commands[change.op] += 1
        if change.body is None:
            step.removed.append(change)
        if self._unreported is not None:
            self.report_before(len(changes) - 1)
        self.index += 1
        self.position = self.last_change = change.position

    def set_outcome(self, outcome: str) -> None:
        """Note the outcome of a log record that makes no change."""
        self.step.outcomes[str(self.offset)] = outcome

    def add_dead_letter(self, record: LogRecord, error: SowlineError) -> None:
        """Note that the log record is refused, and why."""
        self.step.dead.append(DeadLetter(record, error.reason, error.message))
        self.set_outcome(f"dead:{error.reason}")

    def note_news(self) -> None:
        """Note that the log record changes the checkpoint, which no change event reports."""
        self.has_unreported_news = True

    # bodies of message types with schemas

    def as_json(self, record: LogRecord, command: Command) -> LogRecord:
        """Return a log record with its body as JSON.

        Raise `bad message`, `unknown schema` or `incompatible schema` if its message can't be read, and `too large`
        if its JSON is larger than the topic allows.
        """
        bodies, reader = self.bodies, self.limits.schema
        if bodies is None or reader is None:
            if command.fields is not None:
                raise SowlineError(
                    "bad header",
                    "expected no sow.fields: the body of a JSON topic names what a delta changes",
                )
            return record
        body, self.schema_id = read_body(bodies, record.value or b"", reader, command)
        # JSON can be eight times as large as its message. To merge and write it would take up to 300 times the bytes
        # of the message in memory (test_json_that_is_too_large_is_not_merged).
        self.checked_size(body)
        return LogRecord(record.offset, record.time, record.key, body, record.headers)

    def upgraded(self, body: bytes) -> bytes:
        """Return a stored body under the present reader schema; JSON without one stays as it is."""
        bodies, reader = self.bodies, self.limits.schema
        return body if bodies is None or reader is None else bodies.upgraded(body, reader)

    def merged(self, body: bytes, delta: bytes) -> bytes:
        """Return a stored body after a delta, under the present reader schema."""
        bodies, reader = self.bodies, self.limits.schema
        if bodies is None or reader is None:
            return merge(body, delta)
        return bodies.codec(reader).merged(self.upgraded(body), delta)

    def completed(self, body: bytes) -> bytes:
        """Return the body of a record that was merged or enriched, as its schema has it; any JSON without one.

        Raise `incomplete record` or `bad message` if the schema has no such record.
        """
        bodies, reader = self.bodies, self.limits.schema
        return body if bodies is None or reader is None else bodies.codec(reader).completed(body)

    # the limits of the partition

    def require_time(self, record: LogRecord) -> None:
        """Raise `bad time` if the record has a time that no producer and no broker can mean."""
        if is_time(record.time):
            return
        if record.time > TIME_MAX:
            likely = (
                "the producer sends microseconds or nanoseconds as milliseconds"
                if record.time_type != LOG_APPEND_TIME
                else "the clock of the broker is wrong"
            )
        else:
            likely = "the producer sends no time, or a wrong one"
        raise SowlineError(
            "bad time",
            f"expected a time from 1970 to the year 9999, in ms since 1970, got {record.time}: probably {likely}",
        )

    def checked_size(self, body: bytes) -> bytes:
        """Return a body that is no larger than the topic allows; raises `too large`."""
        self.check_size(len(body))
        return body

    def check_size(self, size: int) -> None:
        """Raise `too large` if the topic allows no record of this size."""
        if size > self.limits.record_bytes_max:
            raise SowlineError(
                "too large", f"expected a record of at most {self.limits.record_bytes_max} bytes, got {size}"
            )

    def require_capacity(self) -> None:
        """Raise `too many records` if the partition takes no new record."""
        share = self.limits.share(self.definition.partitions)
        if share is not None and self.live_records >= share:
            raise SowlineError(
                "too many records",
                f"expected an update, or less than {share} records in partition {self.partition} "
                f"({self.limits.records_max} in all), got a new record where there are {self.live_records}",
            )
