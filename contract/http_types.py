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
    agent_writes: bool
    """Whether the tools for agents may write with the rights of the user."""
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
    value_names: dict[str, dict[str, str]]
    """What values mean by a FIX data dictionary, by field and value; empty for a user who sees only some fields."""


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
    """Their positions in the log."""
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
