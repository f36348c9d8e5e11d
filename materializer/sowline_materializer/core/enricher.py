"""Computes the fields of a topic's enrichment from messages. Pure."""

from typing import NamedTuple

import orjson

from sowline.config.topic_definition import TopicDefinition
from sowline.language.expressions.enrichment import Stage
from sowline.language.filter import UNKNOWN, Metadata
from sowline.model.body import read_object
from sowline.model.bookmark import format_position
from sowline.model.position import Position


class Given(NamedTuple):
    """A message, and the record that it is for.

    `era` and `offset` are those of the log record, `time` is its time and `updated` that of the record, in ms.
    `previous` is the record's body. The last two are None if there is no live record.
    """

    sow_key: bytes
    era: int
    offset: int
    size_bytes: int
    correlation: str | None
    time: int
    updated: int | None
    previous: bytes | None


class Enricher:
    """Computes the fields of one partition's messages."""

    def __init__(self, definition: TopicDefinition, stage: Stage, partition: int) -> None:
        self._log = definition.log
        self._topic = definition.name
        self._stage = stage
        self.needs_previous = stage.needs_previous
        """Whether a field uses the record's body."""
        self._partition = partition

    def enriched(self, body: bytes, document: dict[str, object], given: Given) -> bytes:
        """Return a body with the computed fields; `document` is the body as it was read."""
        return self._stage.apply(body, document, self._metadata(given), given.time / 1000, self._held(given))

    def computed(self, body: bytes, *given: object) -> bytes | None:
        """Return the computed fields that are merged into a body; None if others are to be taken out of it.

        `given` are the members of `Given`. The native core calls this for each message of the topic.
        """
        message = Given(*given)  # type: ignore[arg-type]
        gone, fields = self._stage.computed(
            orjson.loads(body), self._metadata(message), message.time / 1000, self._held(message)
        )
        return None if gone else orjson.dumps(fields)

    def _held(self, given: Given) -> dict[str, object] | None:
        previous = given.previous if self.needs_previous else None
        assert previous is None or given.updated is not None, "a live record has a time"
        return None if previous is None else read_object(previous)

    def _metadata(self, given: Given) -> Metadata:
        """Return the metadata of a message, and of the record that it is for, if a field needs it."""
        if not self._stage.needs_about:
            return UNKNOWN
        return Metadata(
            topic=self._topic,
            size=given.size_bytes,
            correlation=given.correlation,
            sow_key=given.sow_key.decode(),
            bookmark=format_position(self._log, self._partition, Position(given.era, given.offset)),
            updated=None if given.updated is None else given.updated / 1000,
        )
