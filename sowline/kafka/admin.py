"""The topics of a Kafka cluster: creates and checks them, and reads their offsets."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

import structlog
from confluent_kafka import (
    OFFSET_INVALID,
    ConsumerGroupState,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
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
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from sowline.config.fanouts import FanoutDefinition
from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import Topics
from sowline.errors import SowlineError
from sowline.kafka.clients import AWAY, silent

log = structlog.get_logger()

ADMIN_SECONDS = 30
AGAIN_SECONDS = 1.0
COMPACTION_LAG_MS_MIN = 10 * 60_000

TOMBSTONE_MS_MIN = 24 * 60 * 60_000
"""Minimum time, in ms, for which Kafka keeps the tombstones of changes. A reader that takes longer to load may keep
deleted records."""

_FOREVER = {"retention.ms": "-1", "retention.bytes": "-1"}


def compaction_lag_ms(definition: TopicDefinition) -> int:
    """Return how long, at the least, compaction leaves the changes of a topic alone, in ms."""
    return max(COMPACTION_LAG_MS_MIN, definition.change_window)


class ClusterAnswer:
    """A pending request to the cluster for the offsets at which partitions end, and the ids of their topics.

    With `starts`, also for the offsets at which they begin.
    """

    def __init__(
        self, admin: AdminClient, partitions: Iterable[tuple[str, int]], starts: bool = False
    ) -> None:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(*topic_partition): latest for topic_partition in partitions}
        self._ends = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)
        earliest = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
        self._starts = admin.list_offsets(dict.fromkeys(asked, earliest)) if starts else {}
        self._topics = admin.describe_topics(
            TopicCollection(sorted({topic_partition.topic for topic_partition in asked}))
        )

    @property
    def is_answered(self) -> bool:
        """Whether all answers are there, or will not come."""
        return all(
            future.done() for future in (*self._ends.values(), *self._starts.values(), *self._topics.values())
        )

    def ends(self) -> dict[tuple[str, int], int]:
        """Return the offset behind the last committed record of each partition; raises what Kafka refused."""
        return _known_offsets(self._ends)

    def starts(self) -> dict[tuple[str, int], int]:
        """Return the offset of the first record of each partition; raises what Kafka refused."""
        return _known_offsets(self._starts)

    def topic_ids(self) -> dict[str, str]:
        """Return Kafka's id of each topic; raises what Kafka refused."""
        return {name: str(future.result(0).topic_id) for name, future in self._topics.items()}


class Cluster:
    """The topics of a Kafka cluster: what there is, what there should be, where partitions begin and end."""

    def __init__(self, kafka: KafkaConfig) -> None:
        self._admin = AdminClient(silent(kafka))

    def ensure_topic(self, definition: TopicDefinition) -> None:
        """Create those of a SOW topic's Kafka topics that are missing, and check the others.

        Raises `bad topic` with a sentence where an existing topic can't serve and can't be mended.
        """
        wanted = kafka_topics(definition)
        self._create([NewTopic(name, n, definition.replication, config=c) for name, (n, c) in wanted.items()])
        found = self._describe(wanted)
        in_log = len(found[definition.log].partitions)
        if in_log > len(found[definition.changes].partitions):
            log.warning("partitions beyond the definition's", topic=definition.log, partitions=in_log)
            for name in wanted.keys() & {definition.changes, definition.schema_log}:
                _answer(self._admin.create_partitions([NewPartitions(name, in_log)])[name])
        if not definition.has_sow:
            self._check_uncompacted(definition.changes)
        for name, (partitions, config) in wanted.items():
            self._check_partitions(name, partitions, len(found[name].partitions))
            ours = () if name in (definition.changes, definition.schema_log) else _YOURS
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
        if fanout.delta and "compact" in self.settings(name)["cleanup.policy"]:
            self._settle(name, every_message)

    def _create(self, topics: list[NewTopic]) -> None:
        for name, future in self._admin.create_topics(topics, operation_timeout=ADMIN_SECONDS).items():
            try:
                _answer(future)
            except KafkaException as error:
                if is_away(error):
                    raise
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise SowlineError(
                        "bad topic", f"Kafka topic {name} can't be created: {error}"
                    ) from error

    def _describe(self, names: Iterable[str]) -> dict[str, Any]:
        """Return Kafka's description of the topics; a new topic takes a moment to be known everywhere."""
        wanted = TopicCollection(list(names))

        def describe() -> dict[str, Any]:
            futures = self._admin.describe_topics(wanted)
            return {name: _answer(future) for name, future in futures.items()}

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
        if "compact" in self.settings(changes)["cleanup.policy"]:
            raise SowlineError(
                "bad topic",
                f"Kafka topic {changes} holds the changes of a topic with a SOW; its definition says sow: false. "
                "Define a new topic, or another log",
            )

    def _settle(self, name: str, wanted: dict[str, str]) -> None:
        """Change the settings of a topic that do not serve; raise minimums, and never lower them."""
        current = self.settings(name)
        wrong = {key: value for key, value in wanted.items() if not serves(key, current[key], value)}
        if not wrong:
            return
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in wrong.items()
        ]
        change = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        try:
            _answer(self._admin.incremental_alter_configs([change])[change])
        except KafkaException as error:
            if is_away(error):
                raise
            settings = ", ".join(f"{key}={value}" for key, value in wrong.items())
            raise SowlineError("bad topic", f"Kafka topic {name} needs {settings}: {error}") from error

    def settings(self, name: str) -> dict[str, str]:
        """Return the settings of a Kafka topic, those with their default value too."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        entries = _answer(self._admin.describe_configs([resource])[resource])
        return {key: entry.value for key, entry in entries.items()}

    def delete_topics(self, names: list[str]) -> None:
        """Delete topics, and wait until the cluster has forgotten them."""
        for future in self._admin.delete_topics(names, operation_timeout=ADMIN_SECONDS).values():
            _answer(future)
        deadline = time.monotonic() + ADMIN_SECONDS
        while not set(names).isdisjoint(self._admin.list_topics(timeout=ADMIN_SECONDS).topics):
            if time.monotonic() > deadline:
                raise SowlineError(
                    "bad topic", f"Kafka did not delete {', '.join(names)} in {ADMIN_SECONDS} s"
                )
            time.sleep(0.1)

    def topic_id(self, name: str) -> str:
        """Return Kafka's id of the topic, which changes when the topic is deleted and created again."""
        return str(self._describe([name])[name].topic_id)

    def ends(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offset behind the last committed record of each partition."""
        return self._offsets(topic, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def partitions(self, topic: str) -> int:
        """Return the number of a topic's partitions."""
        return len(self._describe([topic])[topic].partitions)

    def starts(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offset of the first record that each partition still holds."""
        return self._offsets(topic, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def ask(self, partitions: Iterable[tuple[str, int]], *, starts: bool = False) -> ClusterAnswer:
        """Ask where partitions end, given as (topic, partition), and for their topics' ids; wait for nothing.

        With `starts`, ask where they begin, too.
        """
        return ClusterAnswer(self._admin, partitions, starts)

    def offset_at(self, topic: str, partition: int, time_ms: int) -> int:
        """Return the offset of a partition's first record of that time (ms) or later; its end if there is none."""
        found = self._offsets(topic, [partition], OffsetSpec.for_timestamp(time_ms))[partition]
        return found if found >= 0 else self.ends(topic, [partition])[partition]

    def is_empty_group(self, group: str) -> bool:
        """Tell whether a consumer group has no members, or was never there."""
        return not self._members([group])[group]

    def owned(self, group: str) -> set[tuple[str, int]]:
        """Return the partitions that the members of a consumer group have, as topic and number."""
        members = self._members([group])[group]
        return {(p.topic, p.partition) for member in members for p in member.assignment.topic_partitions}

    def groups_reading(self, topic: str) -> list[str]:
        """Return the consumer groups of which a member has a partition of the topic, by name."""
        listed = _answer(self._admin.list_consumer_groups(states=_AT_WORK)).valid
        members = self._members([one.group_id for one in listed])
        partitions = {
            name: [p for one in of for p in one.assignment.topic_partitions] for name, of in members.items()
        }
        return sorted(
            name
            for name, of in partitions.items()
            if any(topic_partition.topic == topic for topic_partition in of)
        )

    def _members(self, groups: list[str]) -> dict[str, list[Any]]:
        """Return the members of consumer groups; one that is not there has none."""
        members: dict[str, list[Any]] = {}
        for name, future in (self._admin.describe_consumer_groups(groups) if groups else {}).items():
            try:
                members[name] = _answer(future).members
            except KafkaException as error:
                if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                    raise
                members[name] = []
        return members

    def _offsets(self, topic: str, partitions: Iterable[int], spec: OffsetSpec) -> dict[int, int]:
        asked = {TopicPartition(topic, partition): spec for partition in partitions}

        def ask() -> dict[int, int]:
            futures = self._admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)
            try:
                return {
                    topic_partition.partition: _known_offset(topic_partition, _answer(future))
                    for topic_partition, future in futures.items()
                }
            except KafkaException as error:
                if error.args[0].code() in _LOOK_AGAIN:
                    self._admin.list_topics(topic, ADMIN_SECONDS)
                raise

        return _patiently(ask)


T = TypeVar("T")


def is_away(error: KafkaException) -> bool:
    """Tell whether Kafka has refused nothing, but did not answer."""
    return error.args[0].code() in _AWAY


_OTHER_LEADER = {KafkaError._NOENT, KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH}
"""Errors for a partition whose leader has changed since the client last looked."""

_LOOK_AGAIN = _OTHER_LEADER | {KafkaError._UNKNOWN_PARTITION}
"""The same, and the error for a partition that was added since."""

_AWAY = (
    AWAY
    | _OTHER_LEADER
    | {
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.NOT_CONTROLLER,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""Errors after which a retry may succeed: the broker was unavailable, or is coming back."""


def _answer(future: "Future[T]") -> T:
    """Return Kafka's answer; raise KafkaException also if it takes too long."""
    try:
        return future.result(ADMIN_SECONDS)
    except TimeoutError:
        late = KafkaError(KafkaError._TIMED_OUT, f"no answer within {ADMIN_SECONDS} s")
        raise KafkaException(late) from None


def _known_offsets(answers: Mapping[TopicPartition, "Future[Any]"]) -> dict[tuple[str, int], int]:
    return {
        (topic_partition.topic, topic_partition.partition): _known_offset(topic_partition, one.result(0))
        for topic_partition, one in answers.items()
    }


def _known_offset(topic_partition: TopicPartition, answer: Any) -> int:
    """Return the offset that is an answer. A client whose connection was lost may give one that is none."""
    if answer.offset == OFFSET_INVALID:
        raise KafkaException(
            KafkaError(
                KafkaError._NOENT,
                f"no offset of {topic_partition.topic} [{topic_partition.partition}] was reported",
            )
        )
    return int(answer.offset)


def _patiently(ask: Callable[[], T]) -> T:
    """Ask until the cluster knows its new topics and their leaders; anything else is raised at once."""
    retrying = Retrying(
        retry=retry_if_exception(_is_passing),
        stop=stop_after_delay(ADMIN_SECONDS),
        wait=wait_fixed(0.1),
        reraise=True,
    )
    return retrying(ask)


def _is_passing(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() in _PASSING


_AT_WORK = {
    ConsumerGroupState.STABLE,
    ConsumerGroupState.PREPARING_REBALANCING,
    ConsumerGroupState.COMPLETING_REBALANCING,
}

_PASSING = _LOOK_AGAIN | {
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


def await_topics(kafka: KafkaConfig, topics: Topics, stop: threading.Event) -> bool:
    """Create and check them as soon as Kafka answers; tell whether that came to be before `stop` was set."""
    return await_answer(lambda: ensure_topics(kafka, topics), stop)


def await_answer(ask: Callable[[], None], stop: threading.Event) -> bool:
    """Ask as often as it takes for Kafka to answer; tell whether that came to be before `stop` was set.

    Raises what Kafka refuses for good.
    """
    while not stop.is_set():
        try:
            ask()
            return True
        except KafkaException as error:
            if not is_away(error):
                raise
            log.warning("waiting for Kafka", why=str(error))
            stop.wait(AGAIN_SECONDS)
    return False


def kafka_topics(definition: TopicDefinition) -> dict[str, tuple[int, dict[str, str]]]:
    """Return name → (partitions, settings) of the Kafka topics of one SOW topic."""
    log = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": str(definition.log_bytes_max)}
    lag = compaction_lag_ms(definition)
    changes = {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": str(lag),
        "delete.retention.ms": str(max(definition.repeat_window, lag, TOMBSTONE_MS_MIN)),
        "max.message.bytes": str(definition.log_bytes_max),
    }
    if not definition.has_sow:
        changes = {
            "cleanup.policy": "delete",
            "retention.ms": str(lag),
            "max.message.bytes": str(definition.log_bytes_max),
        }
    dead = {"max.message.bytes": str(definition.dead_bytes_max)}
    # The log of a view has nothing that its sources do not have.
    kept = _FOREVER if definition.view is None else {"retention.ms": str(VIEW_LOG_MS)}
    wanted = {
        definition.log: (definition.partitions, log | kept),
        definition.changes: (definition.partitions, changes),
        definition.dead: (1, dead | _FOREVER),
    }
    if definition.reader is not None:
        schemas = {"cleanup.policy": "delete", "max.message.bytes": str(SCHEMA_ENTRY_BYTES_MAX)}
        wanted[definition.schema_log] = (definition.partitions, schemas | _FOREVER)
    return wanted


VIEW_LOG_MS = 7 * 86_400_000
"""How long the log of a view keeps partial states."""

SCHEMA_ENTRY_BYTES_MAX = 16 << 20
"""The largest entry about a schema: its text with all that it refers to, as JSON."""

_YOURS = {"retention.ms", "retention.bytes"}
"""Settings that Sowline gives a log it makes, and leaves alone on one that it finds."""

_MINIMA = {"max.message.bytes", "min.compaction.lag.ms", "delete.retention.ms", "retention.ms"}


def serves(key: str, found: str, wanted: str) -> bool:
    """Tell whether a topic's setting will do: at least as large where it is a limit, else the same."""
    if key == "retention.ms" and "-1" in (found, wanted):
        return found == "-1"
    return int(found) >= int(wanted) if key in _MINIMA else found == wanted
