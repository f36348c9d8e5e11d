"""The topics of a Kafka cluster: made, checked, and asked where they begin and end."""

import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import structlog
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from sowline.errors import SowlineError
from sowline.kafka import KafkaConfig
from sowline.topics import FanoutDefinition, TopicDefinition, Topics

log = structlog.get_logger()

ADMIN_SECONDS = 30
COMPACTION_LAG_MS_MIN = 10 * 60_000
_FOREVER = {"retention.ms": "-1", "retention.bytes": "-1"}


class Cluster:
    """The topics of a Kafka cluster: what there is, what there should be, where partitions begin and end."""

    def __init__(self, kafka: KafkaConfig) -> None:
        self._admin = AdminClient(dict(kafka))

    def ensure_topic(self, definition: TopicDefinition) -> None:
        """Create what is missing of a SOW topic's three Kafka topics and check what is there.

        Raises `bad topic` with a sentence where an existing topic can't serve and can't be mended.
        """
        wanted = _kafka_topics(definition)
        self._create([NewTopic(name, n, definition.replication, config=c) for name, (n, c) in wanted.items()])
        found = self._describe(wanted)
        in_log = len(found[definition.log].partitions)
        if in_log > len(found[definition.changes].partitions):
            log.warning("partitions beyond the definition's", topic=definition.log, partitions=in_log)
            self._admin.create_partitions([NewPartitions(definition.changes, in_log)])[
                definition.changes
            ].result(ADMIN_SECONDS)
        if not definition.has_sow:
            self._check_uncompacted(definition.changes)
        for name, (partitions, config) in wanted.items():
            self._check_partitions(name, partitions, len(found[name].partitions))
            ours = () if name == definition.changes else _YOURS
            self._settle(name, {key: value for key, value in config.items() if key not in ours})

    def ensure_fanout(self, fanout: FanoutDefinition, source: TopicDefinition) -> None:
        """Create the Kafka topic of a fanout if it is missing: compacted, partitioned like its source.

        Of deltas every message is kept, for the newest of a record is not the record: then a topic that is
        compacted is so no longer, and one that isn't is left as it is. Raises `bad topic` where that can't be.
        """
        name, every_message = fanout.output, {"cleanup.policy": "delete"} | _FOREVER
        config = every_message if fanout.delta else {"cleanup.policy": "compact"}
        config = config | {"max.message.bytes": str(source.log_bytes_max)}
        self._create([NewTopic(name, source.partitions, source.replication, config=config)])
        self._check_partitions(name, source.partitions, len(self._describe([name])[name].partitions))
        if fanout.delta and "compact" in self._settings(name)["cleanup.policy"]:
            self._settle(name, every_message)

    def _create(self, topics: list[NewTopic]) -> None:
        for name, future in self._admin.create_topics(topics, operation_timeout=ADMIN_SECONDS).items():
            try:
                future.result(ADMIN_SECONDS)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise SowlineError(
                        "bad topic", f"Kafka topic {name} can't be created: {error}"
                    ) from error

    def _describe(self, names: Iterable[str]) -> dict[str, Any]:
        """Return what Kafka says of the topics; one that was just made takes a moment to be known everywhere."""
        wanted = TopicCollection(list(names))

        def describe() -> dict[str, Any]:
            futures = self._admin.describe_topics(wanted)
            return {name: future.result(ADMIN_SECONDS) for name, future in futures.items()}

        return _patiently(describe)

    @staticmethod
    def _check_partitions(name: str, wanted: int, found: int) -> None:
        if found < wanted:
            raise SowlineError(
                "bad topic",
                f"Kafka topic {name} has {found} partitions; its definition says {wanted}. Add partitions",
            )

    def _check_uncompacted(self, changes: str) -> None:
        """Refuse the changes of a topic with a SOW for one without: they would be deleted in time."""
        if "compact" in self._settings(changes)["cleanup.policy"]:
            raise SowlineError(
                "bad topic",
                f"Kafka topic {changes} holds the changes of a topic with a SOW; its definition says sow: false. "
                "Define a new topic, or another log",
            )

    def _settle(self, name: str, wanted: dict[str, str]) -> None:
        """Change those of a topic's settings that must differ; only raise, never lower, what is a minimum."""
        current = self._settings(name)
        wrong = {key: value for key, value in wanted.items() if not _serves(key, current[key], value)}
        if not wrong:
            return
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in wrong.items()
        ]
        change = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        try:
            self._admin.incremental_alter_configs([change])[change].result(ADMIN_SECONDS)
        except KafkaException as error:
            settings = ", ".join(f"{key}={value}" for key, value in wrong.items())
            raise SowlineError("bad topic", f"Kafka topic {name} needs {settings}: {error}") from error

    def _settings(self, name: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, name)
        entries = self._admin.describe_configs([resource])[resource].result(ADMIN_SECONDS)
        return {key: entry.value for key, entry in entries.items()}

    def delete_topics(self, names: list[str]) -> None:
        """Delete topics, and wait until the cluster has forgotten them."""
        for future in self._admin.delete_topics(names, operation_timeout=ADMIN_SECONDS).values():
            future.result(ADMIN_SECONDS)
        deadline = time.monotonic() + ADMIN_SECONDS
        while not set(names).isdisjoint(self._admin.list_topics(timeout=ADMIN_SECONDS).topics):
            if time.monotonic() > deadline:
                raise SowlineError(
                    "bad topic", f"Kafka did not delete {', '.join(names)} in {ADMIN_SECONDS} s"
                )
            time.sleep(0.1)

    def topic_id(self, name: str) -> str:
        """Return Kafka's own id of the topic, which changes when a topic is deleted and made again."""
        return str(self._describe([name])[name].topic_id)

    def ends(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offset behind the last committed record of each partition."""
        return self._offsets(topic, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def starts(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offset of the first record that each partition still holds."""
        return self._offsets(topic, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def offset_at(self, topic: str, partition: int, time_ms: int) -> int:
        """Return the offset of a partition's first record of that time (ms) or later; its end if there is none."""
        found = self._offsets(topic, [partition], OffsetSpec.for_timestamp(time_ms))[partition]
        return found if found >= 0 else self.ends(topic, [partition])[partition]

    def is_empty_group(self, group: str) -> bool:
        """Tell whether a consumer group has no members, or was never there."""
        future = self._admin.describe_consumer_groups([group])[group]
        try:
            return not future.result(ADMIN_SECONDS).members
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return True
            raise

    def _offsets(self, topic: str, partitions: Iterable[int], spec: OffsetSpec) -> dict[int, int]:
        asked = {TopicPartition(topic, partition): spec for partition in partitions}

        def ask() -> dict[int, int]:
            futures = self._admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)
            return {place.partition: future.result(ADMIN_SECONDS).offset for place, future in futures.items()}

        return _patiently(ask)


T = TypeVar("T")


def _patiently(ask: Callable[[], T]) -> T:
    """Ask until the cluster knows its new topics and their leaders; anything else is raised at once."""
    deadline = time.monotonic() + ADMIN_SECONDS
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in _PASSING or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


_PASSING = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
}


def ensure_topics(kafka: KafkaConfig, topics: Topics) -> None:
    """Create and check the Kafka topics of everything that is defined."""
    cluster = Cluster(kafka)
    for definition in topics.topics:
        cluster.ensure_topic(definition)
    for fanout in topics.fanouts:
        cluster.ensure_fanout(fanout, topics.named(fanout.topic))


def _kafka_topics(definition: TopicDefinition) -> dict[str, tuple[int, dict[str, str]]]:
    """Return name → (partitions, settings) of the Kafka topics of one SOW topic."""
    log = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": str(definition.log_bytes_max)}
    lag = max(COMPACTION_LAG_MS_MIN, definition.change_window)
    changes = {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": str(lag),
        "delete.retention.ms": str(max(definition.repeat_window, lag)),
        "max.message.bytes": str(definition.log_bytes_max),
    }
    if not definition.has_sow:
        changes = {
            "cleanup.policy": "delete",
            "retention.ms": str(lag),
            "max.message.bytes": str(definition.log_bytes_max),
        }
    dead = {"max.message.bytes": str(definition.dead_bytes_max)}
    return {
        definition.log: (definition.partitions, log | _FOREVER),
        definition.changes: (definition.partitions, changes),
        definition.dead: (1, dead | _FOREVER),
    }


_YOURS = {"retention.ms", "retention.bytes"}
"""Settings that Sowline gives a log it makes, and leaves alone on one that it finds."""

_MINIMA = {"max.message.bytes", "min.compaction.lag.ms", "delete.retention.ms", "retention.ms"}


def _serves(key: str, found: str, wanted: str) -> bool:
    """Tell whether a topic's setting will do: at least as large where it is a limit, else the same."""
    if key == "retention.ms" and int(found) == -1:
        return True
    return int(found) >= int(wanted) if key in _MINIMA else found == wanted
