"""Finds the record that a command names, and the partition that owns it: the same for clients, owners and tools."""

import msgspec

from sowline.codecs.typed_bodies import ReadBody, TypedBodies
from sowline.commands.command import DELTA_PUBLISH, Command, LogRecord
from sowline.commands.key_rule import AppendedOf, Document
from sowline.config.topic_definition import TopicDefinition
from sowline.language.filter import Metadata
from sowline.model.body import read_object
from sowline.model.key import partition_of


class KeyedBody(msgspec.Struct, frozen=True, gc=False):
    """The body of a command after preprocessing, as bytes and parsed, and the key text of its record."""

    key_text: str
    body: bytes
    document: Document


def keyed_body(
    definition: TopicDefinition, record: LogRecord, command: Command, appended_of: AppendedOf
) -> KeyedBody:
    """Preprocess the body of a log record and find its key; raise SowlineError if the command is refused."""
    body = record.value or b""
    document = read_object(body)
    if definition.preprocess is not None:
        body = preprocessed(definition, body, document, command.correlation)
    text = definition.key_rule.published(document, record, command, appended_of)
    return KeyedBody(text, body, document)


def read_body(bodies: TypedBodies, value: bytes, reader: str, command: Command) -> ReadBody:
    """Return the meaning of a command's message under a reader schema: a delta, or a whole record."""
    if command.command == DELTA_PUBLISH:
        return bodies.read_delta(value, reader, command.fields)
    return bodies.read(value, reader)


def named_key(
    definition: TopicDefinition, record: LogRecord, command: Command, appended_of: AppendedOf
) -> str:
    """Return the key text of a command for one record, from its body if it has one, else from its Kafka key."""
    if record.value:
        return keyed_body(definition, record, command, appended_of).key_text
    return definition.key_rule.named(record, command)


def preprocessed(
    definition: TopicDefinition, body: bytes, document: Document, correlation: str | None
) -> bytes:
    """Return the body with the fields of preprocessing; add them to `document`, the parsed body, too."""
    if definition.preprocess is None:
        return body
    metadata = Metadata(topic=definition.name, size=len(body), correlation=correlation)
    return definition.preprocess.apply(body, document, metadata)


def owner_of(definition: TopicDefinition, key_text: str) -> int:
    """Return the number of the partition that owns the record with this key text."""
    return partition_of(key_text, definition.partitions)
