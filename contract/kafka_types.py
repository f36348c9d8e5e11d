"""The answers of the HTTP API about Kafka's topics, messages and schemas; as in `contract.http_types`."""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from sowline.codecs.schema import CodecType


class KafkaPartitionReport(msgspec.Struct, forbid_unknown_fields=True):
    """One partition of a Kafka topic."""

    partition: int
    """The number of the partition."""
    begin: int
    """The first offset."""
    end: int
    """The end offset."""


class KafkaTopicReport(msgspec.Struct, forbid_unknown_fields=True):
    """One Kafka topic of a topic."""

    kind: Literal["log", "changes", "dead", "schemas"]
    """What it holds."""
    kafka_topic: str
    """Its name in Kafka."""
    settings: dict[str, str]
    """Its settings of retention."""
    partitions: list[KafkaPartitionReport]
    """Its partitions."""
    consumer_groups: list[str]
    """The consumer groups that read it."""


class KafkaReport(msgspec.Struct, forbid_unknown_fields=True):
    """The Kafka topics of a topic."""

    topic: str
    """The topic."""
    kafka_topics: list[KafkaTopicReport]
    """Its log, its changes, its dead letters, and, if its message type has schemas, its schemas."""


class DeadLettersReport(msgspec.Struct, forbid_unknown_fields=True):
    """How many dead letters Kafka keeps."""

    dead_letters: dict[str, int]
    """Their number by topic, of the topics that the user may read."""


class SchemaReport(msgspec.Struct, forbid_unknown_fields=True):
    """A schema."""

    type: CodecType
    """The message type."""
    text: str
    """The schema itself; for a message type without schemas, its options as JSON."""
    references: dict[str, str]
    """The schemas that it refers to, by name."""
    message: str
    """The full name of the Protobuf message; empty for the first one."""
    digest: str
    """A hash of all of these."""


class PinnedSchemaReport(SchemaReport, forbid_unknown_fields=True):
    """The reader schema in the definition of a topic."""

    id: int | None
    """The id that messages have which Sowline writes; null if none is set."""
    subject: str
    """The subject in a registry; empty if none is set."""


class PastReaderReport(SchemaReport, forbid_unknown_fields=True):
    """A reader schema that a topic has or has had."""

    partitions: list[int]
    """The partitions that know it."""


class NamedSchemaReport(msgspec.Struct, forbid_unknown_fields=True):
    """A schema id that messages have named, as some partitions know it."""

    id: int
    """The id."""
    subject: str
    """A subject in the registry that has it; empty if none is known."""
    version: int | None
    """Its version there; null if none is known."""
    partitions: list[int]
    """The partitions that know this."""
    state: Literal["readable", "unknown", "incompatible"]
    """Whether messages with the id can be read, have an unknown id, or a schema that the reader schema can't read."""
    problem: str
    """Why they can't be read; empty if they can."""
    schema: SchemaReport | None
    """The schema; null if there is none that can be used."""


class SchemasReport(msgspec.Struct, forbid_unknown_fields=True):
    """The schemas of a topic."""

    topic: str
    """The topic."""
    message_type: Literal["json", CodecType]
    """The form of messages on Kafka."""
    reader_schema: PinnedSchemaReport | None
    """The reader schema of the definition; null for JSON."""
    reader_schemas: list[PastReaderReport]
    """All reader schemas that the topic has had, the first one first."""
    schemas: list[NamedSchemaReport]
    """The schemas that messages have named, by subject and version."""


class SearchedReport(msgspec.Struct, forbid_unknown_fields=True):
    """The range of a partition that was searched for messages."""

    partition: int
    """The number of the partition."""
    begin: int
    """The first offset."""
    end: int
    """The offset behind the last."""
    complete: bool
    """Whether no wanted message is missing."""


class KafkaMessageReport(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One message of a Kafka topic. Text that is not UTF-8 is in base64, after `base64:`."""

    partition: int
    """Its partition."""
    offset: int
    """Its offset."""
    timestamp: str
    """Its time."""
    key: str | None
    """Its key."""
    headers: dict[str, str | None]
    """Its headers."""
    bytes: int
    """The size of its value."""
    value: str | None
    """Its value."""
    cut: bool | UnsetType = UNSET
    """Whether the value was cut."""
    note: str | UnsetType = UNSET
    """Why the message is not shown as it is: its headers can't be read."""


class TailReport(msgspec.Struct, forbid_unknown_fields=True):
    """The newest messages of a Kafka topic."""

    kafka_topic: str
    """Its name in Kafka."""
    searched: list[SearchedReport]
    """The ranges that were searched."""
    messages: list[KafkaMessageReport]
    """The messages, the newest first."""
