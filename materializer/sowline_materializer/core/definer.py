"""The `define` commands of a partition's owner: they change a topic's limits, reader schema and template. Pure.

With another template, every document that reads differently gets a change at the offset of the `define`. The new
limits count from the last portion on, so an owner that was killed in between continues by the old ones.
"""

from dataclasses import replace

from sowline.codecs.typed_bodies import TypedBodies
from sowline.commands.command import Command, LogRecord
from sowline.errors import SowlineError
from sowline.language.emodb.template import check_template, read_template
from sowline.model.limits import Limits, names_template, read_define
from sowline.model.nesting import check_nesting
from sowline_materializer.core.batch_state import BatchState
from sowline_materializer.core.deduplication import Deduplication
from sowline_materializer.core.document_writer import DocumentWriter
from sowline_materializer.core.documents import LEVELS_MAX
from sowline_materializer.core.portions import portion


class Definer:
    """Applies `define` commands to a partition. A topic of documents has `documents`."""

    def __init__(
        self,
        state: BatchState,
        deduplication: Deduplication,
        documents: DocumentWriter | None,
        bodies: TypedBodies | None,
    ) -> None:
        self._state = state
        self._deduplication = deduplication
        self._documents = documents
        self._typed = bodies

    def define(self, record: LogRecord, command: Command) -> None:
        """Change the topic's limits from here on; raise SowlineError if the command is refused."""
        if record.key is not None:
            raise SowlineError("bad definition", "expected a define without a Kafka key, got one")
        state = self._state
        was, limits = read_define(record.value)
        held = state.limits
        limits = replace(
            limits,
            schema=self._next_reader(was, limits),
            template=limits.template if names_template(was, limits) else held.template,
            is_template_changed=held.is_template_changed,
        )
        if limits == held:
            state.out.set_outcome("noop")
            return
        if limits.template != held.template:
            limits = replace(limits, is_template_changed=True)
            if not self._read_again(record, command, limits):
                return
        # A deleted record's numbers are cleared after the window, at a time that the log does not determine. With a
        # longer window, those not cleared yet would count again, and a replay would take other commands as repeats
        # (test_numbers_out_of_the_window_stay_out_of_a_longer_one).
        state.numbers_since = self._deduplication.numbers_since()
        state.limits = limits
        assert state.numbers_since <= state.log_time, "numbers count from a time that the log has reached"
        state.out.set_outcome("applied")
        state.out.note_news()

    def _read_again(self, record: LogRecord, command: Command, limits: Limits) -> bool:
        """Make the changes of the next documents that read differently; return whether these are the last ones."""
        state, documents = self._state, self._documents
        if documents is None:
            raise SowlineError("bad definition", "expected no template of a topic without documents, got one")
        # A producer may write a `define` that no definition allows.
        try:
            check_template(read_template(limits.template), state.definition.key_paths)
        except ValueError as error:
            raise SowlineError("bad definition", str(error)) from error
        check_nesting((limits.template or "").encode(), LEVELS_MAX)
        if not state.resumed:
            documents.check_room(limits)
        targets, is_last = portion(documents.to_read_again(record, command, limits), state)
        for target in targets:
            documents.read_again(target)
        state.complete = is_last
        # The previous template stays until the last portion is committed: the next owner needs it for the rest.
        state.limits = replace(state.limits, is_template_changed=True)
        if is_last:
            state.definition_digest = state.definition.digest_with(limits.template)
            if state.index:
                state.end_without_change()
        return is_last

    def _next_reader(self, was: Limits, now: Limits) -> str | None:
        """Return the digest of the reader schema after a `define`."""
        held = self._state.limits.schema
        # A rebuild stores all records under the newest reader schema. The `define` commands of the log before it name
        # earlier ones, and would bring them back (test_a_define_that_names_another_schema_does_not_count).
        if was.schema != held or now.schema == held:
            return held
        if self._typed is None or now.schema is None or self._typed.resolutions.reader(now.schema) is None:
            raise SowlineError(
                "bad definition",
                f"expected a reader schema that {self._state.definition.kafka.schema_log} has, got {now.schema!r}",
            )
        return now.schema
