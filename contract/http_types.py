"""The answers of the HTTP API, as types: exactly the fields that each can have.

No code makes these structs. They describe: `python -m contract` makes `docs/protocol/openapi.yaml` from them,
and tests compare what services answer with it.

A field whose default is UNSET may be missing. The docstrings of the fields become their descriptions.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from contract.message_types import AccessPathReport, TimelineWrite, ViewReport
from sowline.codecs.schema import CodecType


class ErrorReport(msgspec.Struct, forbid_unknown_fields=True):
    """Why a request failed."""

    reason: str
    """The reason code, for programs."""
    message: str
    """What was expected, what came and what to do, for people."""


class TransactionReport(msgspec.Struct, forbid_unknown_fields=True):
    """An open transaction in a log: nothing from its first record on can be applied."""

    offset: int
    """The offset of its first record."""
    written: str | None
    """The time of that record; null while it is not known."""


class PartitionLagReport(msgspec.Struct, forbid_unknown_fields=True):
    """How far one partition is behind the log."""

    partition: int
    """The number of the partition."""
    position: str
    """The position that the service has applied."""
    lag: int | None
    """Records of the log that answers do not contain yet; null while that is not known."""
    lag_seconds: float | None
    """The time since the service was last known to be at the log's end; null while that is not known."""
    transaction: TransactionReport | UnsetType = UNSET
    """The open transaction that holds the partition, if there is one."""


class IndexReport(msgspec.Struct, forbid_unknown_fields=True):
    """One index of a topic."""

    kind: Literal["hash index", "memo index"]
    """The kind of index."""
    fields: str
    """The paths of its fields, with commas."""
    bytes: int
    """An estimate of its memory."""
    uses: int
    """How many queries used it to find or sort records."""


class ReaderSchemaReport(msgspec.Struct, forbid_unknown_fields=True):
    """The reader schema of a topic."""

    text: str
    """The schema."""
    references: dict[str, str]
    """The schemas that it refers to, by name."""
    message: str
    """The full name of the Protobuf message; empty for the first one."""
    id: int | None
    """The id that messages have which Sowline writes; null if none is set."""
    subject: str
    """The subject in a registry; empty if none is set."""


class TopicReport(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The definition of a topic, and how it is served."""

    name: str
    """The topic's name."""
    message_type: Literal["json", CodecType]
    """The form of messages on Kafka; records are JSON."""
    message_format: dict[str, Any] | None
    """The options of a message type without schemas; null for others, and for a user who sees only some fields."""
    reader_schema: ReaderSchemaReport | None
    """The schema of records; null without one, and for a user who may read only some of its fields."""
    framing: Literal["confluent", "apicurio", "none"] | None
    """How messages name their schema; null for JSON."""
    view: ViewReport | None
    """What a view computes; null for other topics, and for a user who may read only some of its fields."""
    sow: bool
    """Whether the topic keeps records."""
    key: list[str] | dict[str, Any]
    """The paths of the key fields, or what else makes the keys."""
    key_domain: str
    """The domain of SOW keys."""
    preprocessing: list[str]
    """Fields that are computed before the key."""
    log: str
    """The Kafka topic of the log."""
    partitions: int
    """The number of partitions."""
    documents: bool
    """Whether records are documents."""
    record_bytes_max: int
    """The largest record."""
    changes_kept_seconds: float
    """How long changes are kept."""
    records: int
    """The number of records."""
    bookmark: str
    """The current bookmark."""
    reflects: str | None
    """The bookmark up to which all of a view reflects its source and joined topics; null if there is none."""
    loading: bool
    """Whether the topic is still being loaded."""
    changes: int
    """Changes applied since the load."""
    lag: int | None
    """Records of the log that answers do not contain yet; null while that is not known."""
    lag_seconds: float | None
    """The time since the service was last known to be at the log's end; null while that is not known."""
    lags: list[PartitionLagReport]
    """The same of each partition."""
    changes_behind: int | None
    """Events of the changes topic that the service has not applied; null while that is not known."""
    newest_seconds: float | None
    """How many seconds ago the newest change was made; null where there was none."""
    subscriptions: int
    """Live subscriptions."""
    select: str | None
    """The select list of the fields that you may read; null where nothing limits them."""
    indexes: list[IndexReport] | UnsetType = UNSET
    """The indexes, for an administrator of a query service."""


class TopicsReport(msgspec.Struct, forbid_unknown_fields=True):
    """The topics of a service."""

    kafka: str
    """Kafka's address."""
    shard: str
    """The shard that the service holds; `0/1` is all of it."""
    topics: list[TopicReport]
    """The topics that the user may read or write."""


class ValueReport(msgspec.Struct, forbid_unknown_fields=True):
    """A frequent value of a field."""

    value: str | float | bool
    """The value."""
    records: int
    """Sampled records that have it."""


class FieldReport(msgspec.Struct, forbid_unknown_fields=True):
    """One field of sampled records."""

    path: str
    """The path."""
    kinds: list[Literal["array", "boolean", "integer", "null", "number", "object", "string"]]
    """The kinds of its values."""
    records: int
    """Sampled records that have it."""
    values: list[ValueReport]
    """Up to 20 frequent values."""


class FieldsReport(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a sample of a topic's records."""

    topic: str
    """The topic."""
    sampled: int
    """Records in the sample."""
    records: int | None
    """Records of the topic; null for users who may not see some."""
    fields: list[FieldReport]
    """The fields."""
    functions: list[str]
    """The names of the functions of filters."""


class ExplainedReport(msgspec.Struct, forbid_unknown_fields=True):
    """How a query finds its records."""

    bookmark: str
    """The instant."""
    access_paths: list[AccessPathReport]
    """An entry for each topic, and at a past time another."""
    warnings: list[str] | UnsetType = UNSET
    """Sentences about probable mistakes in the request, such as an unknown field."""


class TimelineReport(msgspec.Struct, forbid_unknown_fields=True):
    """The writes to one record."""

    topic: str
    """The topic."""
    key: str
    """The key text of the record."""
    sow_key: str
    """The SOW key of the record."""
    bookmark: str
    """The instant."""
    since: str
    """The timeline has every write from this time on."""
    writes: list[TimelineWrite]
    """The writes."""


class WrittenReport(msgspec.Struct, forbid_unknown_fields=True):
    """What became of the commands of a request; the fields from `outcomes` on come with `ack=processed`."""

    commands: int
    """Commands that were written."""
    bookmark: str
    """Their positions on the log."""
    outcomes: dict[str, int] | UnsetType = UNSET
    """How many commands had each outcome."""
    records_deleted: int | UnsetType = UNSET
    """Records that were deleted."""
    effect: str | UnsetType = UNSET
    """The bookmark from which the effect is visible."""
    each: list[str] | UnsetType = UNSET
    """The outcome of each delta, in their order."""


class ClientQueryReport(msgspec.Struct, forbid_unknown_fields=True):
    """A query that runs."""

    query_id: str
    """Its name."""
    command: str
    """Its command."""
    topic: str
    """Its topic."""
    filter: str
    """The beginning of its filter."""


class ClientSubscriptionReport(msgspec.Struct, forbid_unknown_fields=True):
    """A subscription of a client."""

    sub_id: str
    """Its name."""
    command: str
    """Its command."""
    topic: str
    """Its topic."""
    filter: str
    """The beginning of its filter."""
    condition: str
    """The beginning of its condition."""
    options: str
    """The beginning of its options."""
    state: Literal["beginning", "group", "live", "catching up", "paused", "paced"]
    """How it is served."""
    behind_positions: int
    """Records of the log that the service has applied and that the client was not sent."""
    behind_seconds: float
    """For how long it has been behind the service; 0 if it is not."""


class ClientReport(msgspec.Struct, forbid_unknown_fields=True):
    """A connected client."""

    id: int
    """Counts connections."""
    user: str | None
    """The user; empty if no logon is needed, null before the logon."""
    address: str
    """Its address."""
    agent: str
    """The name that its program gives."""
    since: str
    """When it connected."""
    sent: int
    """Messages that it was sent."""
    unsent_bytes: int
    """Bytes that wait to be sent to it."""
    unsent_bytes_max: int
    """The limit above which its subscriptions are no longer live."""
    subscriptions_count: int
    """Its subscriptions."""
    subscriptions: list[ClientSubscriptionReport]
    """The first 50 of them."""
    queries_count: int
    """Its queries that run."""
    queries: list[ClientQueryReport]
    """The first 50 of them."""


class ClientsReport(msgspec.Struct, forbid_unknown_fields=True):
    """The connected clients."""

    connected: int
    """The number of connections."""
    clients: list[ClientReport]
    """The 500 oldest."""


class DisconnectedReport(msgspec.Struct, forbid_unknown_fields=True):
    """The client whose connection was closed."""

    id: int
    """Its id."""


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
