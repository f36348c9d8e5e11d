"""The state of a partition that moves from log record to log record of a batch. Pure."""

from dataclasses import replace

import msgspec

from sowline.changes.change import Change
from sowline.commands.command import Command, LogRecord
from sowline.config.topic_definition import TopicDefinition
from sowline.model.bookmark import PositionsByLog, format_bookmark, lay_over, parse_bookmark
from sowline.model.log_time import times_after
from sowline.model.position import Position, position_of
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.collector import StepCollector
from sowline_materializer.core.record import Record
from sowline_materializer.core.step import Records


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
    """Position, log time, limits and counts after the last log record. The parts of an `Applier` share it.

    `time` is that of the current log record: log time, or its producer's time if that is later. `index` numbers the
    changes of the current log record, `resumed` says that the state holds its first ones already. `complete` is false
    after a step that ends before the last of them. A resumed command over many records continues at the SOW key
    `resume_at`. `definition_digest` is that of the definition at this position. `is_alone` says that the batch is one
    log record. `out` gets the step.
    """

    __slots__ = (
        "complete",
        "definition",
        "definition_digest",
        "index",
        "is_alone",
        "last_change",
        "limits",
        "live_records",
        "log_id",
        "log_time",
        "numbers_since",
        "offset",
        "origins",
        "out",
        "partition",
        "position",
        "records",
        "reflected",
        "resume_at",
        "resumed",
        "taken",
        "time",
    )

    def __init__(
        self,
        definition: TopicDefinition,
        partition: int,
        checkpoint: Checkpoint,
        records: Records,
    ) -> None:
        assert checkpoint.records >= 0, "a count of live records is never negative"
        self.definition = definition
        self.definition_digest = checkpoint.definition
        self.partition = partition
        self.records = records
        self.out = StepCollector(checkpoint)
        self.time = self.log_time = checkpoint.time
        self.position = checkpoint.position
        self.last_change: Position = checkpoint.last_change
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
        self.resume_at = b""
        self.is_alone = False
        self.complete = True

    def begin(self, record: LogRecord) -> None:
        """Move to the log record. Continue after the changes of it that the state already holds (an interrupted
        recovery).
        """
        assert record.offset >= self.position.offset, "a batch is in log order, from its checkpoint on"
        self.offset = offset = record.offset
        self.out.begin(offset)
        # A delete by filter makes many changes, and a crash can leave some of them in Kafka. [changes 4.0 and 4.1,
        # crash, 4.0 and 4.1 found]: the record is read again, and its next change must be 4.2. With 4.0, followers
        # would drop two of the remaining deletions as repeats (test_a_delete_cut_short_goes_on_where_it_was).
        self.resumed = offset == self.position.offset
        if self.resumed:
            self.index = self.position.nth + 1
        else:
            self.index = 0
            self.position = position_of((self.position.era, offset, 0))
        before = self.log_time
        self.log_time, self.time = times_after(self.log_time, record.time, record.time_type)
        assert before <= self.log_time <= self.time, "log time never runs back, and no record is older"

    def end(self) -> None:
        """Finish a log record with news."""
        # A change event carries the origin of its own log record, so only a record that does not end with a change
        # leaves news to report (test_an_origin_without_a_change_is_reported_before_the_next_change).
        assert self.out.has_unreported_news, "a log record without news is not reported"
        self.out.end(None if self.position == self.last_change else self.checkpoint())

    def checkpoint(self) -> Checkpoint:
        """Return the checkpoint after the current log record."""
        assert self.last_change <= self.position, "no change is of a log record that is yet to be applied"
        assert self.live_records >= 0, "a count of live records is never negative"
        return replace(
            self.out.step.checkpoint,
            position=self.position,
            last_change=self.last_change,
            time=self.log_time,
            definition=self.definition_digest,
            origins=dict(self.origins),
            reflected=dict(self.reflected),
            taken=dict(self.taken),
            complete=self.complete,
            limits=self.limits,
            numbers_since=self.numbers_since,
            records=self.live_records,
        )

    # what a view reflects

    def reflect(self, source: int, position: Position, taken: PositionsByLog, *, is_all: bool) -> None:
        """Note the position up to which a source partition is reflected, and what its owner has taken by then.

        `is_all` if `taken` has all of that, and not only what has moved.
        """
        assert source not in self.reflected or position > self.reflected[source], (
            "a reflected position only grows"
        )
        self.reflected[source] = position
        before = self.taken.pop(source, None)
        held = {} if before is None or is_all else parse_bookmark(before)
        if whole := lay_over(held, taken):
            self.taken[source] = format_bookmark(whole)

    # the changes of the log record

    @property
    def first_key(self) -> bytes:
        """The SOW key at which a command over many records begins: the first one, or where it continues."""
        # Looking at the records before it again in each step would take a time that grows with the square of their
        # number.
        return self.resume_at if self.resumed else b""

    def end_without_change(self) -> None:
        """Move behind the changes of this log record: a progress event ends it, and not the last of them."""
        # Followers drop an event at the position of the last change: the end needs one of its own.
        self.position = self.next_position()

    def next_position(self) -> Position:
        """Return the position of the next change of this log record."""
        index = self.index
        return Position(self.position.era, self.offset, index) if index else self.position

    def add_change(self, change: Change) -> None:
        """Append a change, made at `next_position` and after `last_change`, to the step."""
        assert change.after == self.last_change, (
            "each change names the one before it: followers find a gap by that"
        )
        assert change.position > self.last_change, "positions of changes increase"
        if self.time != self.log_time:
            change = msgspec.structs.replace(change, log_time=self.log_time)
        self.out.add_change(change)
        self.index += 1
        self.position = self.last_change = change.position
