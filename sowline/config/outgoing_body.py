"""The body of a command that is about to be written: as the log gets it, and as JSON for the checks."""

from collections.abc import Sequence
from typing import NamedTuple

from sowline.codecs.codec import Codec
from sowline.codecs.framing import Frame, read_frame
from sowline.commands.command import DELTA_PUBLISH, SOW_DELETE
from sowline.config.outgoing_command import check_writable, checked_key, checked_size
from sowline.config.topic_definition import TopicDefinition
from sowline.config.typed_message import changes_nothing, typed_delta, typed_message
from sowline.errors import SowlineError


class OutgoingBody(NamedTuple):
    """The body of a command, checked.

    `value` goes to the log, in the topic's message type. `body` is the same as canonical JSON; None if there is no
    value, or if it names a schema that is not known here. `key` is the key text, None as from `checked_key`. `fields`
    are the paths of what a delta changes, if its message does not show them.
    """

    value: bytes | None
    body: bytes | None
    key: str | None
    fields: tuple[str, ...] = ()


def outgoing_body(
    definition: TopicDefinition,
    command: str,
    data: bytes | None,
    *,
    correlation: str | None = None,
    key: str | None = None,
    fields: Sequence[str] = (),
    is_typed: bool = False,
) -> OutgoingBody:
    """Check the body of a command and return it for the log; `data` is JSON.

    With `is_typed`, `data` is a message in the topic's message type, which goes to the log as it is. `fields` are
    the paths of what such a delta changes, if it does not show that. `key` is the SOW key that the publisher gives.
    Raise the reason why the command is refused.
    """
    check_writable(definition)
    codec = definition.codec
    if fields and (codec is None or not is_typed):
        raise SowlineError(
            "bad request",
            "expected fields only with a message in a type other than JSON, which does not show what it changes, got"
            f" {', '.join(fields)[:60]}",
        )
    if codec is None or data is None:
        return OutgoingBody(data, data, checked_key(data, definition, correlation, key))
    # Before it is parsed: a body takes many times its bytes then.
    checked_size(data, definition)
    if is_typed:
        body = message_body(definition, command, data, fields)
        if body is None:
            return OutgoingBody(data, None, _key_without_body(definition, key), tuple(fields))
        return OutgoingBody(data, body, checked_key(body, definition, correlation, key), tuple(fields))
    if command == DELTA_PUBLISH:
        message, paths = typed_delta(definition, data)
        if changes_nothing(definition.message_type, paths):
            raise SowlineError(
                "bad message", "expected a delta that changes a field, got one that changes none"
            )
        body = _changes(definition, codec, message, paths)
        # The message may be larger than its JSON: in Avro, a delta has all fields of the schema.
        checked_size(message, definition)
        return OutgoingBody(message, body, checked_key(body, definition, correlation, key), paths)
    if command == SOW_DELETE:
        body = _changes(definition, codec, *typed_delta(definition, data))
        text = checked_key(body, definition, correlation, key)
        # The data of a delete need not have more than the key fields. No message has only them, so the Kafka key
        # names the record.
        if text is not None:
            return OutgoingBody(None, body, text)
    message = checked_size(typed_message(definition, data), definition)
    body = codec.completed(data)
    return OutgoingBody(message, body, checked_key(body, definition, correlation, key))


def message_body(
    definition: TopicDefinition, command: str, message: bytes, fields: Sequence[str]
) -> bytes | None:
    """Return the canonical JSON of a command's message; None if it names a schema that the definition does not have.

    The message type must have schemas. `fields` are the paths of what a delta changes, if it does not show that.
    """
    codec = definition.codec
    assert codec is not None, "its message type has schemas"
    schema_id, payload = _frame_of(definition, message)
    writer = definition.reader if schema_id is None else definition.schema_named(schema_id)
    if writer is None:
        return None
    if command == DELTA_PUBLISH:
        return codec.read_delta(payload, writer, fields or None)
    return codec.read(payload, writer)


def _changes(definition: TopicDefinition, codec: Codec, message: bytes, fields: tuple[str, ...]) -> bytes:
    """Return the canonical JSON of a delta that was made here, as the partition's owner will read it."""
    assert definition.reader is not None, "it has a codec"
    # Read as a message, a delta of nothing would name a record by the defaults of its key fields
    # (test_a_delta_of_nothing_is_refused, test_a_delete_needs_the_key).
    if changes_nothing(definition.message_type, fields):
        return b"{}"
    return codec.read_delta(_frame_of(definition, message).payload, definition.reader, fields or None)


def _frame_of(definition: TopicDefinition, message: bytes) -> Frame:
    assert definition.reader is not None, "it has a codec"
    return read_frame(definition.framing, definition.reader.type, message)


def _key_without_body(definition: TopicDefinition, key: str | None) -> str | None:
    """Return the key text of a message that can't be read here: known only if its publisher gives it."""
    if definition.has_sow and (key is not None or definition.key_rule.is_supplied):
        return definition.key_rule.given({}, key)
    return checked_key(None, definition, None, key)
