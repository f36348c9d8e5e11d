"""Writes to the documents of a partition: each is a delta, applied to the document, and makes a change. Pure."""

from collections.abc import Iterator

from sowline.changes.change import DELETED, Change
from sowline.commands.command import DEFINE, DELTA, DELTA_PUBLISH, Command, LogRecord
from sowline.config.command_key import KeyedBody
from sowline.language.emodb import Delta
from sowline.model.body import read_object
from sowline.model.limits import Limits
from sowline.model.merge import merge
from sowline_materializer.core.batch_state import BatchState, Target
from sowline_materializer.core.deduplication import Deduplication
from sowline_materializer.core.documents import DELETION, Documents, DocumentWrite, literal, size_of, write_of
from sowline_materializer.core.limit_checks import check_size, require_capacity
from sowline_materializer.core.record import record_after
from sowline_materializer.core.writer import Removal, first_position


class DocumentToReadAgain(Target, frozen=True, gc=False):
    """A document that reads differently after a `define`: `made` is how."""

    made: DocumentWrite


class DocumentWriter:
    """Writes documents. A deleted document is kept because of the metadata of its writes."""

    def __init__(self, state: BatchState, deduplication: Deduplication) -> None:
        self._state = state
        self._deduplication = deduplication

    @property
    def _documents(self) -> Documents:
        # By the template at this position of the log, which a `define` in the same batch may change.
        return Documents(self._state.definition, self._state.limits.template)

    def write(self, target: Target, given: KeyedBody) -> None:
        """Write a whole document, or the result of a delta publish."""
        document = given.document
        if target.command.command == DELTA_PUBLISH:
            content = self._documents.content_text(target.current)
            if content is not None:
                document = read_object(merge(content, given.body))
        self.fold(target, literal(document))

    def remove(self, target: Target, removal: Removal) -> None:
        """Delete the document."""
        assert target.previous is not None, "only a live document is removed"
        self.fold(target, DELETION, removal)

    def fold(self, target: Target, delta: Delta, removal: Removal | None = None) -> None:
        """Apply a write to the document and make a change, even if the content stays the same."""
        state, command, current = self._state, target.command, target.current
        write = write_of(delta, target.log_record, command, state.partition, state.time)
        made = self._documents.written(target.key_text, current, write)
        previous = None if current is None else current.body
        is_live = made.body is not None
        if made.body is not None:
            # A full partition still takes updates (test_a_lower_limit_harms_nothing_that_is_there).
            if previous is None:
                require_capacity(state)
            check_size(state.limits, made.size_bytes)
        op, reason, last, outcome = removal or (command.command, DELETED, True, None)
        change = Change(
            sow_key=target.sow_key,
            body=made.body,
            previous=previous,
            position=state.next_position(),
            after=state.last_change,
            op=op,
            time=state.time,
            last=last,
            reason=reason if not is_live and previous is not None else None,
            expires=state.limits.due(state.time, command.expiration) if is_live else None,
            correlation=command.correlation,
            numbers=self._deduplication.numbers_after(current, command),
            origin=first_position(command),
            outcome=outcome or made.outcome,
            key_text=target.key_text,
            writes=made.writes,
            writes_before=current.writes if current is not None else None,
            text=target.log_record.value if command.command == DELTA else None,
        )
        state.add_change(change)
        state.records.put(target.sow_key, record_after(change, target.key_text, state.time))
        state.live_records += is_live - (previous is not None)
        assert state.live_records >= 0, "a count of live records is never negative"

    def to_read_again(
        self, record: LogRecord, command: Command, limits: Limits
    ) -> Iterator[DocumentToReadAgain]:
        """Yield the documents that read differently with the template of other limits, from `first_key` on."""
        state, documents = self._state, self._documents
        for key, found in state.records.scan(state.first_key):
            # An owner that was killed within the `define` begins at the first document. Those that have been read
            # again have fields of the new template, which would count as their own
            # (test_an_owner_continues_a_template).
            is_done = state.resumed and found.position[:2] == state.position[:2]
            if not is_done and (made := documents.read_with(limits.template, found)) is not None:
                # A record is written only after it was read by its key.
                current = state.records.get(key)
                yield DocumentToReadAgain(key, found.key_text, current, record, command, made)

    def check_room(self, limits: Limits) -> None:
        """Raise `too large` if a document would exceed the limits with their template."""
        documents, most = self._documents, limits.record_bytes_max
        added = len((limits.template or "").encode()) + len("{}{}")
        for _, current in self._state.records.scan():
            size = size_of(current)
            if size + added > most and (made := documents.read_with(limits.template, current)) is not None:
                # A document that a lower limit has left too large stays, as long as it doesn't grow.
                check_size(limits, made.size_bytes if made.size_bytes > size else 0)

    def read_again(self, target: DocumentToReadAgain) -> None:
        """Make the change of a document that reads differently."""
        state, current, made = self._state, target.current, target.made
        assert current is not None, "it was found among the records"
        change = Change(
            sow_key=target.sow_key,
            body=made.body,
            previous=current.body,
            position=state.next_position(),
            after=state.last_change,
            op=DEFINE,
            time=state.time,
            # Only the progress event after the last one has the new limits. An owner that found all changes and not
            # that event would otherwise continue after the `define`, under the old ones
            # (test_an_owner_continues_a_template).
            last=False,
            expires=current.expires,
            correlation=current.correlation,
            numbers=self._deduplication.numbers_after(current, target.command),
            key_text=target.key_text,
            writes=made.writes,
            writes_before=current.writes,
        )
        state.add_change(change)
        state.records.put(target.sow_key, record_after(change, target.key_text, state.time))
