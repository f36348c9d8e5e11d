"""The pure core of a partition: (state, log records) → (new state, what to write to Kafka).

Nothing here knows Kafka, RocksDB or a clock: the same records on the same state give the same step, wherever
and whenever they are applied. A step is written to Kafka first and committed to the store after that.
"""

from collections.abc import Sequence
from dataclasses import replace

import orjson

from materializer.head import Head
from materializer.record import Record
from materializer.repeats import is_repeat, remember
from materializer.step import DeadLetter, Forward, Records, Step
from sowline.body import read_object
from sowline.bookmark import format_position
from sowline.change import DELETE, DELETED, EXPIRED, Change, Numbers
from sowline.command import (
    DEFINE,
    DELTA_PUBLISH,
    EXPIRE,
    PUBLISH,
    SOW_DELETE,
    Command,
    LogRecord,
    Origin,
    read_command,
)
from sowline.enrichment import Stage
from sowline.errors import SowlineError
from sowline.filter import About, Filter, compile_filter, require_deterministic
from sowline.key import key_text, partition_of, sow_key
from sowline.limits import read_define
from sowline.merge import merge
from sowline.position import Position
from sowline.topics import TopicDefinition

ORIGIN_BYTES = 4096
"""Room for the origin header of a forwarded record, and for Kafka's framing of its headers."""


class Applier:
    """Applies log records to the records of one partition and collects the step that they make."""

    def __init__(self, definition: TopicDefinition, partition: int, head: Head, records: Records) -> None:
        self._definition = definition
        self._partition = partition
        self._records = records
        self._preprocess = definition.preprocess
        self._enrich = definition.enrich
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
                self._apply_one(record)
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
        offset, time = record.offset, record.time
        self._resumed = offset == self._position.offset
        self._index = self._position.nth + 1 if self._resumed else 0
        self._offset = offset
        if not self._resumed:
            self._position = Position(self._era, offset)
        if time > self._time:
            self._time = time

    def _apply_one(self, record: LogRecord) -> None:
        command = read_command(record.headers)
        if command.origin is not None and not self._first_seen(command.origin):
            self._step.outcomes[str(record.offset)] = "repeat"
        elif command.command == DEFINE:
            self._define(record)
        elif not self._definition.has_sow:
            self._pass_on(record, command)
        elif command.command == EXPIRE:
            self._expire(record, command)
        elif command.command == SOW_DELETE or record.value is None:
            self._delete(record, command)
        else:
            self._publish(record, command)

    def _first_seen(self, origin: Origin) -> bool:
        highest = self._origins.get(origin.partition, -1)
        if origin.offset < highest or (origin.offset == highest and not self._resumed):
            return False
        self._origins[origin.partition] = origin.offset
        self._noted = True
        return True

    # publish and delta_publish

    def _publish(self, record: LogRecord, command: Command) -> None:
        body = self._checked_size(record.value or b"")
        document = read_object(body)
        if self._preprocess is not None:
            body = self._preprocess.apply(body, document, self._about(record, command))
        text = key_text(document, self._definition.key_paths)
        key = sow_key(self._definition.domain_prefix, text)
        current = self._records.get(key)
        if current is None and not self._is_mine(text):
            self._forward(record, command, text)
        elif current is not None and current.key_text != text:
            raise SowlineError(
                "key collision",
                f"expected the key text {current.key_text!r} under SOW key {key.decode()}, got {text!r}",
            )
        elif command.publisher is not None and current is not None and self._is_repeat(current, command):
            self._step.outcomes[str(record.offset)] = "repeat"
        else:
            if self._enrich is not None:
                about = self._about_record(record, command, key, current)
                before = self._before(current, self._enrich)
                body = self._enrich.apply(body, document, about, self._time / 1000, before)
            self._update(key, text, body, current, command)

    def _about(self, record: LogRecord, command: Command) -> About:
        """Return what is known of a message in whichever partition it is looked at."""
        size = len(record.value or b"")
        return About(topic=self._definition.name, size=size, correlation=command.correlation)

    def _about_record(self, record: LogRecord, command: Command, key: bytes, current: Record | None) -> About:
        """Return what is known of a message and of the record that it is for."""
        place = format_position(self._definition.log, self._partition, Position(self._era, record.offset))
        about = self._about(record, command)._replace(sow_key=key.decode(), bookmark=place)
        if current is None or current.body is None:
            return about
        return about._replace(updated=current.time / 1000)

    @staticmethod
    def _before(current: Record | None, stage: Stage) -> dict[str, object] | None:
        """Return the record's body as it is, parsed, if the stage asks for it."""
        if current is None or current.body is None or not stage.needs_previous:
            return None
        return read_object(current.body)

    def _update(self, key: bytes, text: str, body: bytes, current: Record | None, command: Command) -> None:
        previous = current.body if current is not None else None
        if previous is None:
            self._check_room()
        if command.command == DELTA_PUBLISH and previous is not None:
            body = merge(previous, body)
        self._checked_size(body)
        numbers = self._remember(current, command)
        expires = self._limits.due(self._time, command.expiration)
        op = command.command if command.command == DELTA_PUBLISH else PUBLISH
        position = self._change(key, body, previous, op, command, numbers=numbers, expires=expires)
        self._records.put(
            key, Record(body, text, position, self._time, expires, numbers, command.correlation)
        )
        self._live += previous is None

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

    # a topic without a SOW

    def _pass_on(self, record: LogRecord, command: Command) -> None:
        """Make a change of a message that becomes no record; its key is its place, for it has no other."""
        if record.value is None or command.command not in (PUBLISH, DELTA_PUBLISH):
            raise SowlineError(
                "no sow",
                f"expected a publish in topic {self._definition.name}, which has no SOW, got what is about a record",
            )
        body = self._checked_size(record.value)
        read_object(body)
        key = f"{self._partition}@{record.offset}".encode()
        self._change(key, body, None, PUBLISH, command, numbers=None)

    # sow_delete

    def _delete(self, record: LogRecord, command: Command) -> None:
        if command.filter is not None or command.keys is not None:
            if record.value:
                raise SowlineError(
                    "bad header", "expected one selector, got a body beside sow.filter or sow.keys"
                )
            self._delete_selected(record, command)
        else:
            self._delete_named(record, command)

    def _delete_selected(self, record: LogRecord, command: Command) -> None:
        if command.filter is not None:
            keys = self._matching(command.filter)
        else:
            keys = sorted({key.encode() for key in command.keys or ()})
        self._forward_to_all(record, command)
        found = [(key, current) for key in keys if (current := self._records.get(key)) is not None]
        live = [(key, current) for key, current in found if self._can_go(current, command)]
        outcome = f"deleted {self._index + len(live)}"
        for key, current in live[:-1]:
            self._remove(key, current, command, last=False)
        for key, current in live[-1:]:
            self._remove(key, current, command, outcome=outcome)
        if not live:
            self._step.outcomes[str(record.offset)] = outcome

    def _matching(self, text: str) -> list[bytes]:
        filter = compile_filter(text)
        require_deterministic(filter, "the filter of a sow_delete")
        return [key for key, record in self._records.scan() if self._matches(filter, key, record)]

    def _matches(self, filter: Filter, key: bytes, record: Record) -> bool:
        """Ask the filter of a record; one that is gone has no content."""
        body = record.body or b"{}"
        if not filter.needs_about:
            return filter.matches(orjson.loads(body))
        about = About(
            sow_key=key.decode(),
            topic=self._definition.name,
            size=len(body),
            updated=record.time / 1000,
            correlation=record.correlation,
        )
        return filter.matches_about(orjson.loads(body), about)

    def _delete_named(self, record: LogRecord, command: Command) -> None:
        text = self._named(record, command)
        key = sow_key(self._definition.domain_prefix, text)
        current = self._records.get(key)
        if current is None and not self._is_mine(text):
            self._forward(record, command, text)
        elif current is not None and current.key_text == text and self._can_go(current, command):
            self._remove(key, current, command, outcome="deleted 1")
        else:
            repeat = current is not None and self._is_repeat(current, command)
            self._step.outcomes[str(record.offset)] = "repeat" if repeat else "deleted 0"

    def _named(self, record: LogRecord, command: Command) -> str:
        """Return the key text that a delete names: by its body, or else by its Kafka key."""
        if record.value:
            document = read_object(self._checked_size(record.value))
            if self._preprocess is not None:
                self._preprocess.apply(record.value, document, self._about(record, command))
            return key_text(document, self._definition.key_paths)
        text = self._text_of(record.key or b"")
        if not text:
            raise SowlineError(
                "key missing", "expected a body or a Kafka key that names the record to delete"
            )
        return text

    @staticmethod
    def _text_of(key: bytes) -> str:
        try:
            return key.decode()
        except UnicodeDecodeError as error:
            raise SowlineError("bad key", f"expected UTF-8 in the Kafka key, got {key!r}") from error

    def _can_go(self, current: Record, command: Command) -> bool:
        return current.body is not None and not self._is_repeat(current, command)

    def _remove(
        self,
        key: bytes,
        current: Record,
        command: Command,
        *,
        op: str = DELETE,
        reason: str = DELETED,
        last: bool = True,
        outcome: str | None = None,
    ) -> None:
        numbers = self._remember(current, command)
        position = self._change(
            key,
            None,
            current.body,
            op,
            command,
            numbers=numbers,
            last=last,
            outcome=outcome,
            reason=reason,
        )
        memory = Record(None, current.key_text, position, self._time, None, numbers) if numbers else None
        self._records.put(key, memory)
        self._live -= 1

    # what the owner writes

    def _expire(self, record: LogRecord, command: Command) -> None:
        """Remove a record that is due, if its last update is still the one that said so."""
        if record.value:
            raise SowlineError("bad header", "expected an expire without a body, got one")
        if record.key is None:
            raise SowlineError(
                "key missing", "expected a Kafka key that names the record to expire, got none"
            )
        text = self._text_of(record.key)
        key = sow_key(self._definition.domain_prefix, text)
        current = self._records.get(key)
        if current is not None and current.key_text == text and self._is_due(current, command):
            self._remove(key, current, command, op=EXPIRE, reason=EXPIRED)
        else:
            self._step.outcomes[str(record.offset)] = "noop"

    def _is_due(self, current: Record, command: Command) -> bool:
        unchanged = current.body is not None and current.position == command.guard
        reached = current.expires is not None and current.expires <= self._time
        return unchanged and reached and self._limits.may_expire

    def _define(self, record: LogRecord) -> None:
        """Change the topic's lifetime and limits from here on."""
        if record.key is not None:
            raise SowlineError("bad definition", "expected a define without a Kafka key, got one")
        _, now = read_define(record.value)
        if now == self._limits:
            self._step.outcomes[str(record.offset)] = "noop"
            return
        self._numbers_since = self._remembered_since()
        self._limits = now
        self._step.outcomes[str(record.offset)] = "applied"
        self._noted = True

    def _remembered_since(self) -> int:
        """Return the log time from which on numbers count. What was out of a window stays so in a longer one."""
        return max(self._time - self._limits.repeat_window, self._numbers_since)

    # what all commands share

    def _change(
        self,
        key: bytes,
        body: bytes | None,
        previous: bytes | None,
        op: str,
        command: Command,
        *,
        numbers: Numbers | None,
        last: bool = True,
        reason: str | None = None,
        expires: int | None = None,
        outcome: str | None = None,
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
            )
        )
        self._index += 1
        self._position = self._last_change = position
        return position

    def _is_repeat(self, current: Record, command: Command) -> bool:
        return is_repeat(current.numbers, command, self._remembered_since())

    def _remember(self, current: Record | None, command: Command) -> Numbers | None:
        numbers = current.numbers if current is not None else None
        if command.publisher is None and numbers is None:
            return None
        numbers, pushed_out = remember(numbers, command, self._time, self._remembered_since())
        self._step.publishers_pushed_out += pushed_out
        return numbers

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
