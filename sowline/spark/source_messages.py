"""Reads the messages of a source whose type has a schema, on the executors.

A worker keeps the schemas that it has found by their ids, for later messages.
"""

from functools import lru_cache
from typing import Final, NamedTuple

from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_exponential

from sowline.codecs.framing import Framing
from sowline.codecs.resolutions import Resolution, Resolutions, entry_value, id_key, reader_key
from sowline.codecs.schema import Schema
from sowline.codecs.typed_bodies import TypedBodies
from sowline.errors import SowlineError
from sowline.registry.client import Registry, RegistryAway, resolved

AWAY_SECONDS_MAX: Final = 60.0
"""How long a task waits for a registry that is away. After that the pipeline fails, and no row is lost."""

READ_ROW: Final = "body STRING, reason STRING, message STRING"
"""The type of `ReadRow` in Spark."""


class ReadRow(NamedTuple):
    """A message as canonical JSON, or why it can't be read; all None if there is no message."""

    body: str | None = None
    reason: str | None = None
    message: str | None = None


class SourceMessages(NamedTuple):
    """How the messages of a source are read: the reader schema, the framing, and the registry of writer schemas."""

    reader: Schema
    framing: Framing
    registry: str

    def read(self, value: bytes | bytearray | None) -> ReadRow:
        """Return the content of a message. Raise RegistryAway if its schema can't be fetched now."""
        if value is None:
            return ReadRow()
        try:
            return ReadRow(_bodies_of(self).read(bytes(value)).decode())
        # The row may be valid: while the registry is away, it is no dead letter.
        except RegistryAway:
            raise
        except SowlineError as error:
            return ReadRow(None, error.reason, error.message)


class _Bodies:
    """The bodies of one source."""

    def __init__(self, messages: SourceMessages) -> None:
        self._digest = messages.reader.digest
        self._resolutions = Resolutions()
        self._resolutions.add(reader_key(self._digest), entry_value(Resolution(messages.reader)))
        self._bodies = TypedBodies(messages.reader.type, messages.framing, self._resolutions)
        self._registry = Registry(messages.registry) if messages.registry else None

    def read(self, value: bytes) -> bytes:
        for schema_id in self._bodies.unresolved([value]):
            self._resolutions.add(id_key(schema_id), entry_value(self._resolved(schema_id)))
        return self._bodies.read(value, self._digest).body

    @retry(
        retry=retry_if_exception_type(RegistryAway),
        wait=wait_exponential(0.1, max=5.0),
        stop=stop_after_delay(AWAY_SECONDS_MAX),
        reraise=True,
    )
    def _resolved(self, schema_id: int) -> Resolution:
        assert self._registry is not None, "a pipeline with frames has a registry"
        return resolved(self._registry, schema_id)


_bodies_of = lru_cache(100)(_Bodies)
