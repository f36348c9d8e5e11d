"""The pure core of a partition: (state, log records) → (new state, what to write to Kafka).

Nothing here knows Kafka, RocksDB or a clock: the same records on the same state give the same step, wherever
and whenever they are applied. A step is written to Kafka first and committed to the store after that.
"""

import orjson

from materializer.documents import DELETION, Documents, delta_of, literal, write_of
from materializer.head import Head
from materializer.record import Record
from materializer.step import Records
from materializer.stepping import Stepping
from sowline.body import read_object
from sowline.bookmark import format_position
from sowline.change import DELETE, DELETED, EXPIRED
from sowline.command import (
    DEFINE,
    DELTA,
    DELTA_PUBLISH,
    EXPIRE,
    PUBLISH,
    SOW_DELETE,
    Command,
    LogRecord,
)
from sowline.document import Delta
from sowline.enrichment import Stage
from sowline.errors import SowlineError
from sowline.filter import About, Filter, compile_filter, require_deterministic
from sowline.filter.about import document_about
from sowline.key import check_key_text, key_text, sow_key
from sowline.limits import read_define
from sowline.merge import merge
from sowline.position import Position
from sowline.topics import TopicDefinition


class Applier(Stepping):
    """Applies log records to the records of one partition and collects the step that they make."""

    def __init__(self, definition: TopicDefinition, partition: int, head: Head, records: Records) -> None:
        super().__init__(definition, partition, head, records)
        self._key_paths = definition.key_paths
        self._domain = definition.domain_prefix
        self._preprocess = definition.preprocess
        self._enrich = definition.enrich
        self._documents = Documents(definition) if definition.documents else None

    def _apply_one(self, record: LogRecord, command: Command) -> None:
        if command.origin is not None and not self._first_seen(command.origin):
            self._step.outcomes[str(record.offset)] = "repeat"
        elif command.command == DEFINE:
            self._define(record)
        elif not self._definition.has_sow:
            self._pass_on(record, command)
        elif command.command == EXPIRE:
            self._expire(record, command)
        elif command.command == DELTA:
            self._delta(record, command)
        elif command.command == SOW_DELETE or record.value is None:
            self._delete(record, command)
        else:
            self._publish(record, command)

    # publish and delta_publish

    def _publish(self, record: LogRecord, command: Command) -> None:
        body = self._checked_size(record.value or b"")
        document = read_object(body)
        if self._preprocess is not None:
            body = self._preprocess.apply(body, document, self._about(record, command))
        text = key_text(document, self._key_paths)
        key = sow_key(self._domain, text)
        current = self._records.get(key)
        if current is None:
            if not self._is_mine(text):
                self._forward(record, command, text)
                return
        elif current.key_text != text:
            raise _collision(key, current, text)
        elif command.publisher is not None and self._is_repeat(current, command):
            self._step.outcomes[str(record.offset)] = "repeat"
            return
        if self._documents is not None:
            if command.command == DELTA_PUBLISH and current is not None and current.body is not None:
                document = read_object(merge(current.body, body))
            self._write(key, text, literal(document), current, record, command)
            return
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
        elif command.command == DELTA_PUBLISH:
            body = merge(previous, body)
        self._checked_size(body)
        numbers = self._remember(current, command)
        expires = self._limits.due(self._time, command.expiration)
        op = DELTA_PUBLISH if command.command == DELTA_PUBLISH else PUBLISH
        position = self._change(key, body, previous, op, command, numbers, expires)
        record = Record(body, text, position, self._time, expires, numbers, command.correlation)
        self._records.put(key, record)
        if previous is None:
            self._live += 1

    # documents

    def _delta(self, record: LogRecord, command: Command) -> None:
        if self._documents is None:
            raise SowlineError(
                "no documents",
                f"expected documents: true in the definition of topic {self._definition.name}, for a delta",
            )
        text = self._text_of(record.key or b"")
        check_key_text(text, self._key_paths)
        delta = delta_of(self._checked_size(record.value or b""))
        key = sow_key(self._domain, text)
        current = self._records.get(key)
        if current is None and not self._is_mine(text):
            self._forward(record, command, text)
        elif current is not None and current.key_text != text:
            raise _collision(key, current, text)
        elif current is not None and self._is_repeat(current, command):
            self._step.outcomes[str(record.offset)] = "repeat"
        else:
            self._write(key, text, delta, current, record, command)

    def _write(
        self,
        key: bytes,
        text: str,
        delta: Delta,
        current: Record | None,
        record: LogRecord,
        command: Command,
        *,
        op: str | None = None,
        reason: str = DELETED,
        last: bool = True,
        outcome: str | None = None,
    ) -> None:
        """Make a change of a write to a document, whatever it does to the content."""
        assert self._documents is not None, "the topic holds documents"
        write = write_of(delta, record, command, self._partition, self._time)
        made = self._documents.written(text, current, write)
        previous = current.body if current is not None else None
        if made.body is not None:
            if previous is None:
                self._check_room()
            self._checked_size(made.body)
        numbers = self._remember(current, command)
        expires = self._limits.due(self._time, command.expiration) if made.body is not None else None
        position = self._change(
            key,
            made.body,
            previous,
            op or command.command,
            command,
            numbers,
            expires,
            last=last,
            reason=reason if made.body is None and previous is not None else None,
            outcome=outcome or made.outcome,
            key_text=text,
            writes=made.writes,
            writes_before=current.writes if current is not None else None,
            text=record.value if command.command == DELTA else None,
        )
        correlation = command.correlation if made.body is not None else None
        self._records.put(
            key, Record(made.body, text, position, self._time, expires, numbers, correlation, made.writes)
        )
        self._live += (made.body is not None) - (previous is not None)

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
        self._change(key, body, None, PUBLISH, command, None)

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
            self._remove(key, current, record, command, last=False)
        for key, current in live[-1:]:
            self._remove(key, current, record, command, outcome=outcome)
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
        if record.writes is not None:
            about = document_about(about, record.key_text, record.writes)
        return filter.matches_about(orjson.loads(body), about)

    def _delete_named(self, record: LogRecord, command: Command) -> None:
        text = self._named(record, command)
        key = sow_key(self._domain, text)
        current = self._records.get(key)
        if current is None and not self._is_mine(text):
            self._forward(record, command, text)
        elif current is not None and current.key_text == text and self._can_go(current, command):
            self._remove(key, current, record, command, outcome="deleted 1")
        else:
            repeat = current is not None and self._is_repeat(current, command)
            self._step.outcomes[str(record.offset)] = "repeat" if repeat else "deleted 0"

    def _named(self, record: LogRecord, command: Command) -> str:
        """Return the key text that a delete names: by its body, or else by its Kafka key."""
        if record.value:
            document = read_object(self._checked_size(record.value))
            if self._preprocess is not None:
                self._preprocess.apply(record.value, document, self._about(record, command))
            return key_text(document, self._key_paths)
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
        record: LogRecord,
        command: Command,
        *,
        op: str = DELETE,
        reason: str = DELETED,
        last: bool = True,
        outcome: str | None = None,
    ) -> None:
        if self._documents is not None:
            text = current.key_text
            self._write(
                key,
                text,
                DELETION,
                current,
                record,
                command,
                op=op,
                reason=reason,
                last=last,
                outcome=outcome,
            )
            return
        numbers = self._remember(current, command)
        position = self._change(
            key,
            None,
            current.body,
            op,
            command,
            numbers,
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
        key = sow_key(self._domain, text)
        current = self._records.get(key)
        if current is not None and current.key_text == text and self._is_due(current, command):
            self._remove(key, current, record, command, op=EXPIRE, reason=EXPIRED)
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


def _collision(key: bytes, current: Record, text: str) -> SowlineError:
    return SowlineError(
        "key collision",
        f"expected the key text {current.key_text!r} under SOW key {key.decode()}, got {text!r}",
    )
