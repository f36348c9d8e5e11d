"""The facts that `sowline doctor` collects about a set-up: plain values, from which the checks derive findings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sowline.model.log_time import LOG_APPEND_TIME

TopicPartitionId = tuple[str, int]
"""A Kafka topic and the number of one of its partitions."""


@dataclass(frozen=True)
class PartitionFacts:
    """A partition in Kafka: whether it has a leader, its replicas, those in sync, and the offsets it holds.

    `transaction_ms` is the time of the first record of an open transaction, which begins at `end`; None without one.
    """

    has_leader: bool = True
    replicas: int = 1
    in_sync: int = 1
    start: int = 0
    end: int = 0
    transaction_ms: int | None = None


@dataclass(frozen=True)
class TopicFacts:
    """A Kafka topic; `newest_ms` is the time of its newest record, None if it has no record.

    `newest_time_type` says whose time that is. It is looked up only for a time in the future.
    """

    partitions: Mapping[int, PartitionFacts]
    settings: Mapping[str, str] = field(default_factory=dict)
    newest_ms: int | None = None
    newest_time_type: int = LOG_APPEND_TIME


@dataclass(frozen=True)
class GroupFacts:
    """A consumer group: the number of its members, and the partitions that they have."""

    members: int = 0
    owned: frozenset[TopicPartitionId] = frozenset()


@dataclass(frozen=True)
class DeadFacts:
    """The dead letters of a topic: their number, and the reasons and the newest time of the last `read` letters."""

    waiting: int
    read: int
    reasons: Mapping[str, int]
    newest_ms: int


@dataclass(frozen=True)
class KafkaFacts:
    """Kafka's answers about the topics and groups in question.

    `applied` is the last log offset of each log partition that a materializer has applied, according to the changes.
    `reflected` is the last offset of the source's log that a view's records reflect, by log partition of the view and
    by source partition.
    `replaced` are the logs that have another topic id than the newest changes name.
    `session_min_ms` is the shortest session timeout that the brokers allow, None if unknown. `unanswered` has a
    sentence for each question that Kafka did not answer.
    """

    brokers: int
    asked_ms: int
    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    groups: Mapping[str, GroupFacts] = field(default_factory=dict)
    applied: Mapping[TopicPartitionId, int] = field(default_factory=dict)
    reflected: Mapping[TopicPartitionId, Mapping[int, int]] = field(default_factory=dict)
    replaced: frozenset[str] = frozenset()
    dead: Mapping[str, DeadFacts] = field(default_factory=dict)
    session_min_ms: int | None = None
    unanswered: tuple[str, ...] = ()


@dataclass(frozen=True)
class DirectoryFacts:
    """A materializer's state directory: its owner, our user, its free space, and the logs whose state it holds."""

    path: str
    is_there: bool = True
    is_writable: bool = True
    owner: str = ""
    me: str = ""
    free_bytes: int = 0
    logs: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServiceFacts:
    """A service at a URL: its answer to each health question, as (status, sentence).

    - `away`: why it did not answer at all.
    - `ahead_ms`: how much its clock is ahead of ours.
    - `topics`: a query service's description of its topics, None for other services; `refusal` is why it gave none.
    - `is_open`: whether it listens beyond its machine and describes its topics without credentials.
    - `core`: the core that it uses, empty if it uses none.
    """

    url: str
    away: str | None = None
    health: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    version: str | None = None
    ahead_ms: int | None = None
    topics: tuple[Mapping[str, Any], ...] | None = None
    refusal: str = ""
    is_open: bool = False
    core: str = ""
