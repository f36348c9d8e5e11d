"""The bodies of a partition's records under its present reader schema; in a topic without one, JSON as written."""

from sowline.codecs.typed_bodies import TypedBodies
from sowline.commands.command import Command, LogRecord
from sowline.config.command_key import read_body
from sowline.errors import SowlineError
from sowline.model.merge import merge
from sowline_materializer.core.batch_state import BatchState
from sowline_materializer.core.limit_checks import checked_size


class RecordBodies:
    """Reads and merges bodies. `schema_id` is what the message that was read last names."""

    def __init__(self, state: BatchState, typed: TypedBodies | None) -> None:
        self._state = state
        self._typed = typed
        self.schema_id: int | None = None

    @property
    def are_typed(self) -> bool:
        """Whether the topic has a message type other than JSON."""
        return self._typed is not None

    def as_json(self, record: LogRecord, command: Command) -> LogRecord:
        """Return a log record with its body as JSON.

        Raise `bad message`, `unknown schema` or `incompatible schema` if its message can't be read, and `too large`
        if its JSON is larger than the topic allows.
        """
        bodies, reader = self._typed, self._state.limits.schema
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
        checked_size(self._state.limits, body)
        return LogRecord(record.offset, record.time, record.key, body, record.headers)

    def upgraded(self, body: bytes) -> bytes:
        """Return a stored body under the present reader schema; JSON without one stays as it is."""
        bodies, reader = self._typed, self._state.limits.schema
        return body if bodies is None or reader is None else bodies.upgraded(body, reader)

    def merged(self, body: bytes, delta: bytes) -> bytes:
        """Return a stored body after a delta, under the present reader schema."""
        bodies, reader = self._typed, self._state.limits.schema
        if bodies is None or reader is None:
            return merge(body, delta)
        return bodies.codec(reader).merged(self.upgraded(body), delta)

    def completed(self, body: bytes) -> bytes:
        """Return the body of a record that was merged or enriched, in the form of its schema; any JSON without one.

        Raise `incomplete record` or `bad message` if the schema has no such record.
        """
        bodies, reader = self._typed, self._state.limits.schema
        return body if bodies is None or reader is None else bodies.codec(reader).completed(body)
