"""The messages of a service to its clients, as types: exactly the fields that each can have.

`server_message` writes them by joining bytes, and no code makes these structs. They describe: the protocol
description is made from them (`python -m contract`), and tests compare what services send with it.

A field whose default is UNSET may be missing. The docstrings of the fields become comments of generated types.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

Body = dict[str, Any]
OnlyTrue = Annotated[bool, Meta(extra_json_schema={"const": True})]
"""A mark, which is either true or missing."""

Size = Annotated[int, Meta(ge=0)]
OofReason = Literal["match", "deleted", "expired", "entitlement"]
Hash = Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]


class IntrinsicsObject(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The intrinsics of a document."""

    id: str = msgspec.field(name="~id")
    """The key text."""
    table: str = msgspec.field(name="~table")
    """The topic."""
    version: int = msgspec.field(name="~version")
    """The number of writes."""
    signature: str = msgspec.field(name="~signature")
    """Names the version: a delta may depend on it."""
    deleted: bool = msgspec.field(name="~deleted")
    """Whether the document has no content."""
    first_update_at: str | UnsetType = msgspec.field(name="~firstUpdateAt", default=UNSET)
    """When it was first written."""
    last_update_at: str | UnsetType = msgspec.field(name="~lastUpdateAt", default=UNSET)
    """When it was last written."""
    last_mutate_at: str | UnsetType = msgspec.field(name="~lastMutateAt", default=UNSET)
    """When it last changed."""
    tags: list[str] | UnsetType = msgspec.field(name="~tags", default=UNSET)
    """The tags of the last write, if it had any."""


class RecordOfSow(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What a `sow` message has of a record besides its content."""

    sow_key: str | UnsetType = UNSET
    """The SOW key; missing with the option `no_sowkey`."""
    timestamp: str | UnsetType = UNSET
    """The log time of the last change, with the option `timestamp`."""
    updated_at: str | UnsetType = UNSET
    """The position of the last change; not a bookmark to resume from. Groups have none."""
    intrinsics: IntrinsicsObject | UnsetType = UNSET
    """The intrinsics of a document, with the option `intrinsics`."""
    rank: Size | UnsetType = UNSET
    """The number of records before it in the order, with the option `rank`."""


class SowRecord(RecordOfSow, kw_only=True):
    """One record of a `sow` message, or one group."""

    data: Body
    """The record."""


class NativeSowRecord(RecordOfSow, kw_only=True):
    """One record of a `sow` message in a binary frame."""

    size: Size
    """The size of the record, which is behind the JSON."""
    problem: str | UnsetType = UNSET
    """Why the record can't be written in the message type of its topic; its size is 0 then."""


class JoinReport(msgspec.Struct, forbid_unknown_fields=True, rename={"name": "as"}):
    """A topic whose records a view adds to those of its source."""

    topic: str
    """The topic."""
    on: str
    """The fields of the source, and the fields of the topic that equal them."""
    name: str
    """The field that has the topic's record."""
    kind: Literal["left", "inner"]
    """Whether records without a match count, too (left), or not (inner)."""
    multiply: bool
    """Whether several records of the topic may be added, each in a record of the view."""


class ViewReport(msgspec.Struct, forbid_unknown_fields=True, rename={"source": "from"}):
    """What a view computes."""

    source: str
    """The topic or view that it is computed from."""
    filter: str
    """Which records of that topic count; empty for all."""
    grouping: list[str]
    """The paths that records are grouped by; empty if each record of the view is one of that topic."""
    projection: str
    """The fields of its records; empty for those of that topic."""
    having: str
    """Which results are records of the view; empty for all."""
    joins: list[JoinReport]
    """The topics whose records are added to those of that topic."""
    interval_ms: int
    """How long a conflated topic merges the changes of a record; 0 in a view."""


class AccessPathReport(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How a query finds its records in one topic."""

    topic: str
    """The topic."""
    access_path: Literal["sow keys", "key", "hash index", "memo index", "scan", "history"]
    """How the query finds its records."""
    index: str | UnsetType = UNSET
    """The fields of the index, or of the key, that was used."""
    indexed: str | UnsetType = UNSET
    """The part of the filter that memo indexes have answered."""
    records: int | UnsetType = UNSET
    """Records that there were to compare; missing where the user may not see some, as `candidates` and `read` are."""
    candidates: int | UnsetType = UNSET
    """Records that were left by the index."""
    read: int | UnsetType = UNSET
    """Records whose bodies were read to evaluate the rest of the filter."""
    matches: int
    """Records that match."""
    note: str | UnsetType = UNSET
    """Why there was no better access path."""
    view: ViewReport | UnsetType = UNSET
    """What a view computes; missing for other topics, and for a user who may read only some of its fields."""
    reflects: str | UnsetType | None = UNSET
    """Of a view: the bookmark up to which all of it reflects what it reads; null while that is not known."""
    behind: int | UnsetType | None = UNSET
    """Of a view: log records of what it reads that the service has and the view does not reflect; null if unknown."""
    shard: str | UnsetType = UNSET
    """At a gateway: the shard of the query service that answered."""


class TimelineWrite(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One write of a timeline; the fields from `version` to `redundant` are those of documents."""

    bookmark: str
    """The position of the write."""
    timestamp: str
    """Its log time."""
    command: str
    """The command that wrote."""
    version: int | UnsetType = UNSET
    """The number of writes, this one included."""
    signature: str | UnsetType = UNSET
    """The signature after the write."""
    change_id: str | UnsetType = UNSET
    """The id of the write."""
    tags: list[str] | UnsetType = UNSET
    """The tags of the write."""
    outcome: str | UnsetType = UNSET
    """The outcome: `applied`, `noop` or `condition_false`."""
    redundant: bool | UnsetType = UNSET
    """Whether it changed neither content nor tags."""
    publisher: str | UnsetType = UNSET
    """The publisher, if the command named one."""
    correlation_id: str | UnsetType = UNSET
    """The correlation id, if the command had one."""
    delta: str | UnsetType = UNSET
    """The text of the delta, if the write was one."""
    reason: str | UnsetType = UNSET
    """`expired` or `deleted`, where that ended the record."""
    previous: Body | None
    """The record before the write; null if there was none."""
    data: Body | None
    """The record after the write; null if there is none."""


class ServerMessage(
    msgspec.Struct, forbid_unknown_fields=True, kw_only=True, tag_field="command", tag="", omit_defaults=True
):
    """One message of a service."""


class AckOfCommand(ServerMessage, tag="ack", kw_only=True):
    """The acknowledgement of a command."""

    command_id: str | UnsetType = UNSET
    """The id of the command, if it has one."""


class AckSuccess(AckOfCommand, tag="ack", kw_only=True):
    """The acknowledgement of a command that succeeded."""

    ack_type: Literal["received", "processed", "completed", "persisted"]
    """What has happened."""
    status: Literal["success"]
    """The command succeeded."""
    bookmark: str | UnsetType = UNSET
    """The instant of a read, the begin or end of a subscription, or the position of a write in the log."""
    sub_id: str | UnsetType = UNSET
    """The subscription that the command began."""
    up_to: str | UnsetType = UNSET
    """The end of the subscription as positions, if it has one."""
    outcome: str | UnsetType = UNSET
    """The outcome of a write, such as `applied`; several with commas."""
    effect: str | UnsetType = UNSET
    """The bookmark from which the effect of a write is visible."""
    user: str | UnsetType = UNSET
    """The user of a logon, if one was identified."""
    roles: list[str] | UnsetType = UNSET
    """The roles of that user."""
    rights: str | UnsetType = UNSET
    """A name of what that user may do; equal names, equal rights."""
    expires_in: float | UnsetType = UNSET
    """The seconds until the token of a logon ends, if it does."""
    version: str | UnsetType = UNSET
    """The version of the service, after a logon."""


class AckStats(AckOfCommand, tag="ack", kw_only=True):
    """The counts of a query or a write."""

    ack_type: Literal["stats"]
    """Counts follow."""
    status: Literal["success"]
    """The command succeeded."""
    topic_matches: int
    """Records that were compared."""
    matches: int
    """Records that match the filter."""
    records_returned: int
    """Records or groups that were sent."""
    records_deleted: int
    """Records that were deleted."""
    lag_seconds: float | UnsetType = UNSET
    """How far the answer is behind the log; missing if that is not known, or if the query is of the past."""


class AckFailure(AckOfCommand, tag="ack", kw_only=True):
    """A command failed, or a query or a subscription ended early. No other acknowledgement of the command follows."""

    ack_type: Literal["processed", "completed"]
    """`completed` if it had begun."""
    status: Literal["failure"]
    """The command failed."""
    reason: str
    """The reason code, for programs."""
    message: str
    """What was expected, what came and what to do, for people."""
    sub_id: str | UnsetType = UNSET
    """The subscription that ended."""


class GroupBeginMessage(ServerMessage, tag="group_begin", kw_only=True):
    """Begins a message group: the records of one instant."""

    query_id: str | UnsetType = UNSET
    """The query, if it has a name."""
    topic: str
    """The topic, or the pattern of topics."""
    bookmark: str
    """The instant."""
    warnings: list[str] | UnsetType = UNSET
    """Sentences about probable mistakes in the request, such as an unknown field."""
    missing: dict[str, list[int]] | UnsetType = UNSET
    """By topic, the partitions whose records are missing, with the option `partial`."""
    reset: OnlyTrue | UnsetType = UNSET
    """The group replaces all records that the client holds."""
    replace: OnlyTrue | UnsetType = UNSET
    """The group adds to the records that the client holds: the subscription was replaced."""


class SowMessage(ServerMessage, tag="sow", kw_only=True):
    """Some records of a message group."""

    query_id: str
    """The query; empty if it has no name."""
    topic: str
    """The topic of the records."""
    records: list[SowRecord]
    """The records, up to `batch_size`."""


class NativeSowMessage(ServerMessage, tag="sow", kw_only=True):
    """Some records of a message group, in a binary frame."""

    query_id: str
    """The query; empty if it has no name."""
    topic: str
    """The topic of the records."""
    records: list[NativeSowRecord]
    """The records, up to `batch_size`."""


class GroupEndMessage(ServerMessage, tag="group_end", kw_only=True):
    """Ends a message group."""

    query_id: str | UnsetType = UNSET
    """The query, if it has a name."""
    topic: str
    """The topic, or the pattern of topics."""
    bookmark: str
    """The instant."""
    records: int
    """The number of records or of writes that were sent."""
    hash: Hash | UnsetType = UNSET
    """The XOR of the 8-byte BLAKE2b of each SOW key, in hex; a timeline has none."""
    since: str | UnsetType = UNSET
    """The time from which a timeline has every write."""


class TimelineMessage(ServerMessage, tag="timeline", kw_only=True):
    """Some writes of a timeline."""

    query_id: str
    """The query; empty if it has no name."""
    topic: str
    """The topic."""
    sow_key: str
    """The SOW key of the record."""
    key: str
    """The key text of the record."""
    writes: list[TimelineWrite]
    """The writes, up to `batch_size`."""


class ExplainMessage(ServerMessage, tag="explain", kw_only=True):
    """The result of an `explain`."""

    command_id: str | UnsetType = UNSET
    """The id of the command, if it has one."""
    bookmark: str
    """The instant."""
    access_paths: list[AccessPathReport]
    """An entry for each topic, and at a past time another."""


class LiveChange(ServerMessage, kw_only=True):
    """A change of a record, for the subscriptions that it concerns."""

    sids: list[str]
    """The subscriptions."""
    more: OnlyTrue | UnsetType = UNSET
    """The next message belongs to the same step: apply both together."""
    topic: str
    """The topic of the record."""
    sow_key: str | UnsetType = UNSET
    """The SOW key; missing with the option `no_sowkey`, and on a topic without a SOW."""
    timestamp: str | UnsetType = UNSET
    """The log time of the change, with the option `timestamp`."""
    bookmark: str
    """The position of the change, to lay over the bookmark of the subscription."""
    correlation_id: str | UnsetType = UNSET
    """The correlation id of the command that made the change."""
    intrinsics: IntrinsicsObject | UnsetType = UNSET
    """The intrinsics of a document, with the option `intrinsics`."""


class PublishMessage(LiveChange, tag="publish", kw_only=True):
    """The record matches now, and this is its body."""

    data: Body
    """The record, or the part of it that a delta has."""
    delta: OnlyTrue | UnsetType = UNSET
    """`data` has only the key fields and the changed fields: merge it into the record that you hold."""
    removed: list[str] | UnsetType = UNSET
    """The paths of the fields that a delta removes."""
    rank: Size | UnsetType = UNSET
    """The number of records before it in the order after this step, with the option `rank`."""


class OofMessage(LiveChange, tag="oof", kw_only=True):
    """The record is out of focus."""

    data: Body
    """The record."""
    reason: OofReason
    """Why: `match` comes with the new body, the others with the previous one."""


class NativePublishMessage(LiveChange, tag="publish", kw_only=True):
    """The record matches now, and its body is behind the JSON of the binary frame."""

    size: Size
    """The size of the record, which is behind the JSON."""
    problem: str | UnsetType = UNSET
    """Why the record can't be written in the message type of its topic; its size is 0 then."""


class NativeOofMessage(LiveChange, tag="oof", kw_only=True):
    """The record is out of focus, and its body is behind the JSON of the binary frame."""

    size: Size
    """The size of the record, which is behind the JSON."""
    problem: str | UnsetType = UNSET
    """Why the record can't be written in the message type of its topic; its size is 0 then."""
    reason: OofReason
    """Why: `match` comes with the new body, the others with the previous one."""


class ProgressMessage(ServerMessage, tag="progress", kw_only=True):
    """The current bookmark of idle subscriptions, or the checksum of one subscription's view."""

    command_id: str | UnsetType = UNSET
    """The heartbeat that asked for the checksum."""
    sids: list[str]
    """The subscriptions."""
    bookmark: str
    """Their bookmark."""
    records: int | UnsetType = UNSET
    """The number of records that the client holds at this bookmark."""
    hash: Hash | UnsetType = UNSET
    """The XOR of the hashes of their SOW keys, as in `group_end`."""


class HeartbeatMessage(ServerMessage, tag="heartbeat", kw_only=True):
    """The response to a heartbeat."""

    command_id: str | UnsetType = UNSET
    """The id of the command, if it has one."""


class StreamFailure(ServerMessage, tag="failure", kw_only=True):
    """The last event of an event stream that fails, with the reason."""

    reason: str
    """The reason code, for programs."""
    message: str
    """What was expected, what came and what to do, for people."""


ACKS = (AckSuccess, AckStats, AckFailure)
"""The kinds of an `ack`."""

MESSAGES = (
    GroupBeginMessage,
    SowMessage,
    GroupEndMessage,
    TimelineMessage,
    ExplainMessage,
    PublishMessage,
    OofMessage,
    ProgressMessage,
    HeartbeatMessage,
)
"""What a WebSocket sends, apart from acknowledgements."""

NATIVE_MESSAGES = (NativeSowMessage, NativePublishMessage, NativeOofMessage)
"""What the JSON of a binary frame has instead of messages with records."""
