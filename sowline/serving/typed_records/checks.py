"""Checks reads with `format=native`: what a message type can't express is refused before anything is sent."""

from collections.abc import Iterable

from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.serving.authorization.entitlements import Entitlements
from sowline.wire.request import Read


def check_typed_read(request: Read, topics: Iterable[TopicDefinition], read: Entitlements) -> None:
    """Raise `not supported` or `not entitled` unless records can be sent in the message type of each topic.

    Call it for requests with that format only. Its other limits are those of the options.
    """
    if request.is_delta:
        raise SowlineError(
            "not supported",
            f"expected {request.command.replace('delta_', '')} with format=native, got {request.command}: a delta"
            " has no form in a message type; subscribe to whole records, or use JSON",
        )
    for topic in topics:
        if topic.reader is not None:
            check_typed(topic, read)


def check_typed(topic: TopicDefinition, read: Entitlements) -> None:
    """Raise `not supported` or `not entitled` unless whole records of a topic with schemas can be sent."""
    if not topic.has_sow:
        raise SowlineError(
            "not supported",
            f"expected a topic with a SOW for format=native, got {topic.name}, which passes on deltas as they were"
            " written; use JSON",
        )
    if (
        topic.framing != "none"
        and topic.declared.reader_schema is not None
        and topic.declared.reader_schema.id is None
    ):
        raise SowlineError(
            "not supported",
            f"expected an id of the reader_schema of {topic.name}, with which the service frames messages, got none:"
            " add the id to the definition, set framing: none, or use JSON",
        )
    if topic.name in read and read.of(topic.name).select is not None:
        raise SowlineError(
            "not entitled",
            f"expected a user who may read all fields of {topic.name} for format=native, because its message type"
            " can only express whole records; use JSON",
        )
