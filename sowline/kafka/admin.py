"""The topics of a Kafka cluster: creates and checks them, and reads their offsets."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, Final, TypeVar

import structlog
from confluent_kafka import (
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

from sowline.config.fanouts import FanoutDefinition
from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import Topics
from sowline.errors import SowlineError
from sowline.kafka.clients import silent
from sowline.kafka.cluster_answer import ClusterAnswer, known_offset
from sowline.kafka.leaderless import Leaderless, leaderless
from sowline.kafka.retriable import (
    ADMIN_SECONDS,
    LOOK_AGAIN,
    is_away,
    is_retriable,
    patiently,
    wait_for_result,
)
from sowline.kafka.topic_settings import KEPT_FOREVER, LEFT_ALONE, kafka_topics, serves

log = structlog.get_logger()

K = TypeVar("K")
T = TypeVar("T")

AGAIN_SECONDS = 1.0
LOOK_AGAIN_SECONDS = 0.1

_GONE: Final = {KafkaError.UNKNOWN_TOPIC_OR_PART: SimpleNamespace(partitions=())}
"""The description of a topic that doesn't exist."""


class Cluster:
    """The topics of a Kafka cluster: creates and checks them, and finds where partitions begin and end."""

    def __init__(
        self, kafka: KafkaConfig, stop: threading.Event | None = None, patience_seconds: float | None = None
    ) -> None:
        """Prepare to ask a Kafka cluster. Once `stop` is set, no question is asked again.

        `patience_seconds` is how long a question is repeated, by default `ADMIN_SECONDS`.
        """
        self._admin = AdminClient(silent(kafka))
        self._stop = stop
        self._patience_seconds = patience_seconds

    def _patiently(self, ask: Callable[[], T]) -> T:
        return patiently(ask, self._patience_seconds, self._stop)

    def ensure_topic(self, definition: TopicDefinition) -> None:
        """Create the missing Kafka topics of a SOW topic, and check the others.

        Raises `bad topic` with a sentence if an existing topic is unsuitable and can't be changed.
        """
        wanted = kafka_topics(definition)
        self._create(
            [NewTopic(name, n, definition.kafka.replication, config=c) for name, (n, c) in wanted.items()]
        )
        found = self._describe(wanted)
        in_log = len(found[definition.log].partitions)
        for name in (definition.changes, definition.kafka.schema_log):
            # Each is checked: a process that grew one of them may have been killed before the other
            # (test_schemas_get_partitions_although_the_changes_have_them).
            if name in wanted and len(found[name].partitions) < in_log:
                log.warning("partitions beyond the definition's", topic=definition.log, partitions=in_log)
                self._grow(name, in_log)
        if not definition.has_sow:
            self._check_uncompacted(definition.changes)
        for name, (partitions, config) in wanted.items():
            self._check_partitions(name, partitions, len(found[name].partitions))
            ours = () if name in (definition.changes, definition.kafka.schema_log) else LEFT_ALONE
            self._settle(name, {key: value for key, value in config.items() if key not in ours})

    def ensure_fanout(self, fanout: FanoutDefinition, source: TopicDefinition) -> None:
        """Create the Kafka topic of a fanout if it is missing: compacted, partitioned like its source.

        A fanout of deltas keeps every message, because the newest delta of a record is not the record. Compaction
        of its topic is turned off. Raises `bad topic` if an existing topic is unsuitable.
        """
        name, every_message = fanout.output, {"cleanup.policy": "delete"} | KEPT_FOREVER
        config = every_message if fanout.delta else {"cleanup.policy": "compact"}
        # Also of a topic that is there: Kafka would refuse the first record that is larger than before
        # (test_a_fanout_takes_larger_records).
        room = {"max.message.bytes": str(source.kafka.log_bytes_max)}
        self._create([NewTopic(name, source.partitions, source.kafka.replication, config=config | room)])
        self._check_partitions(name, source.partitions, len(self._describe([name])[name].partitions))
        loses_deltas = fanout.delta and "compact" in self.settings(name)["cleanup.policy"]
        self._settle(name, every_message | room if loses_deltas else room)

    def ensure_compacted(self, name: str) -> None:
        """Create a compacted topic of one partition if it is missing, with the brokers' default of replicas."""
        self._create([NewTopic(name, 1, config={"cleanup.policy": "compact"})])

    def _create(self, topics: list[NewTopic]) -> None:
        self._change(
            lambda: self._admin.create_topics(topics, operation_timeout=ADMIN_SECONDS),
            {KafkaError.TOPIC_ALREADY_EXISTS},
            "can't be created",
        )

    def _grow(self, name: str, partitions: int) -> None:
        """Raise a topic's number of partitions, and wait until the cluster knows them."""
        self._change(
            lambda: self._admin.create_partitions([NewPartitions(name, partitions)]),
            {KafkaError.INVALID_PARTITIONS},
            f"can't get {partitions} partitions",
        )
        # `INVALID_PARTITIONS` is also the answer to a number that is wrong for another reason.
        self._wait_for(
            lambda: self.partitions(name) >= partitions, f"{name} did not get {partitions} partitions"
        )

    def _change(
        self, change: Callable[[], Mapping[Any, "Future[Any]"]], done: set[int], refused: str
    ) -> None:
        """Change topics; an error in `done` means that the change is done already. Raise `bad topic` if refused.

        Services start at the same time and make the same topics: another service may be first. Kafka gives the same
        answer if it made the change and its first answer was lost.
        """

        def attempt() -> None:
            for topic, future in change().items():
                try:
                    wait_for_result(future)
                except KafkaException as error:
                    if error.args[0].code() in done:
                        continue
                    if is_retriable(error):
                        raise
                    name = topic.name if isinstance(topic, ConfigResource) else topic
                    raise SowlineError("bad topic", f"Kafka topic {name} {refused}: {error}") from error

        self._patiently(attempt)

    @staticmethod
    def _wait_for(is_done: Callable[[], bool], late: str) -> None:
        """Wait until the cluster knows of a change that was made; raise `bad topic` if that takes too long."""
        deadline = time.monotonic() + ADMIN_SECONDS
        while not is_done():
            if time.monotonic() > deadline:
                raise SowlineError("bad topic", f"Kafka topic {late} in {ADMIN_SECONDS:g} s")
            time.sleep(LOOK_AGAIN_SECONDS)

    def _ask(
        self, ask: Callable[[], Mapping[K, "Future[Any]"]], instead: Mapping[int, Any] | None = None
    ) -> dict[K, Any]:
        """Return the answers; `instead` has the answers for some errors. Raise any permanent error of Kafka.

        A new topic, or a group of a broker that has just started, takes a moment to be known everywhere.
        """

        def answers() -> dict[K, Any]:
            return {about: _answered(future, instead or {}) for about, future in ask().items()}

        return self._patiently(answers)

    def _describe(self, names: Iterable[str], instead: Mapping[int, Any] | None = None) -> dict[str, Any]:
        """Return Kafka's description of the topics; `instead` has those for some errors."""
        wanted = TopicCollection(sorted(set(names)))
        return self._ask(lambda: self._admin.describe_topics(wanted), instead)

    @staticmethod
    def _check_partitions(name: str, wanted: int, found: int) -> None:
        if found < wanted:
            raise SowlineError(
                "bad topic",
                f"expected {wanted} partitions of Kafka topic {name}, got {found}: add partitions",
            )

    def _check_uncompacted(self, changes: str) -> None:
        """Refuse, for a topic without a SOW, the changes topic of one with a SOW: its changes would expire."""
        if "compact" in self.settings(changes)["cleanup.policy"]:
            raise SowlineError(
                "bad topic",
                f"expected no changes topic of a topic with a SOW with sow: false, got {changes}: define a new"
                " topic, or another log",
            )

    def _settle(self, name: str, wanted: dict[str, str]) -> None:
        """Change the unsuitable settings of a topic; raise minimums, and never lower them."""
        current = self.settings(name)
        wrong = {key: value for key, value in wanted.items() if not serves(key, current[key], value)}
        if not wrong:
            return
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in wrong.items()
        ]
        change = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        settings = ", ".join(f"{key}={value}" for key, value in wrong.items())
        self._change(lambda: self._admin.incremental_alter_configs([change]), set(), f"needs {settings}")
        self._wait_for(lambda: self._has(name, wrong), f"{name} did not get {settings}")

    def _has(self, name: str, wanted: Mapping[str, str]) -> bool:
        current = self.settings(name)
        return all(serves(key, current[key], value) for key, value in wanted.items())

    def settings(self, name: str) -> dict[str, str]:
        """Return the settings of a Kafka topic, including those with default values."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        entries = self._ask(lambda: self._admin.describe_configs([resource]))[resource]
        return {key: entry.value for key, entry in entries.items()}

    def delete_topics(self, names: list[str]) -> None:
        """Delete topics, and wait until the cluster has forgotten them."""
        self._change(
            lambda: self._admin.delete_topics(names, operation_timeout=ADMIN_SECONDS),
            {KafkaError.UNKNOWN_TOPIC_OR_PART},
            "can't be deleted",
        )
        self._wait_for(
            lambda: set(names).isdisjoint(self.topic_names()), f"{', '.join(names)} was not deleted"
        )

    def topic_names(self) -> Iterable[str]:
        """Return the names of all topics."""
        return self._patiently(lambda: self._admin.list_topics(timeout=ADMIN_SECONDS)).topics

    def is_there(self, name: str) -> bool:
        """Return whether a topic exists; raise Kafka's error without the right to know."""
        return bool(self._describe([name], _GONE)[name].partitions)

    def topic_id(self, name: str) -> str:
        """Return Kafka's id of the topic, which changes when the topic is deleted and created again."""
        return self.topic_ids([name])[name]

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Return the ids of topics."""
        return {name: str(about.topic_id) for name, about in self._describe(names).items()}

    def ends(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offset after the last committed record of each partition."""
        return self._offsets(topic, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def newest_ends(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offset after the last record of each partition, committed or not.

        While a transaction is open, its records and all later ones are between the two ends.
        """
        return self._offsets(topic, partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)  # type: ignore[no-untyped-call]

    def partitions(self, topic: str) -> int:
        """Return the number of a topic's partitions."""
        return len(self._describe([topic])[topic].partitions)

    def leaderless(self, topics: Iterable[str]) -> Leaderless:
        """Return the partitions of topics that have no leader; a topic that doesn't exist has none of them."""
        return leaderless(self._describe(topics, _GONE))

    def starts(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offset of the first record that each partition still holds."""
        return self._offsets(topic, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def ask(
        self,
        partitions: Iterable[tuple[str, int]] = (),
        *,
        starts: Iterable[tuple[str, int]] = (),
        uncommitted: bool = False,
        topics: Iterable[str] = (),
    ) -> ClusterAnswer:
        """Ask where partitions end, given as (topic, partition), and for their topics' ids; wait for nothing.

        Also ask where the partitions in `starts` begin, and for the ids of other `topics`; with `uncommitted`, also
        where records end, committed or not.
        """
        return ClusterAnswer(self._admin, partitions, starts, uncommitted, topics)

    def offsets_at(self, topic: str, partitions: Iterable[int], time_ms: int) -> dict[int, int]:
        """Return the offset of the first record at or after a time (ms) in each partition, or else its end."""
        found = self._offsets(topic, partitions, OffsetSpec.for_timestamp(time_ms))
        # Kafka answers with a negative offset if there is no such record (test_no_record_of_that_time_or_later).
        without = [partition for partition, offset in found.items() if offset < 0]
        return found | (self.ends(topic, without) if without else {})

    def is_empty_group(self, group: str) -> bool:
        """Return whether a consumer group has no members or doesn't exist."""
        return not self._members([group])[group]

    def owned(self, group: str) -> set[tuple[str, int]]:
        """Return the partitions that the members of a consumer group have, as topic and number."""
        members = self._members([group])[group]
        return {(p.topic, p.partition) for member in members for p in member.assignment.topic_partitions}

    def groups_reading(self, topic: str) -> list[str]:
        """Return the consumer groups of which a member has a partition of the topic, by name."""
        members = self._members([one.group_id for one in self._patiently(self._groups_at_work)])
        return sorted(name for name, of in members.items() if topic in _topics_of(of))

    def _groups_at_work(self) -> list[Any]:
        listed = wait_for_result(self._admin.list_consumer_groups(states=_AT_WORK))
        # Each error means that a broker's groups are missing: a topic that is in use would seem to be free.
        for error in listed.errors:
            raise error
        return list(listed.valid)

    def _members(self, groups: list[str]) -> dict[str, list[Any]]:
        """Return the members of consumer groups; a group that doesn't exist has none."""
        if not groups:
            return {}
        no_members = SimpleNamespace(members=[])
        found = self._ask(
            lambda: self._admin.describe_consumer_groups(groups), {KafkaError.GROUP_ID_NOT_FOUND: no_members}
        )
        return {name: about.members for name, about in found.items()}

    def _offsets(
        self,
        topic: str,
        partitions: Iterable[int],
        which: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> dict[int, int]:
        asked = {TopicPartition(topic, partition): which for partition in partitions}

        def ask() -> dict[int, int]:
            futures = self._admin.list_offsets(asked, isolation_level=isolation)
            try:
                return {
                    topic_partition.partition: known_offset(topic_partition, wait_for_result(future))
                    for topic_partition, future in futures.items()
                }
            except KafkaException as error:
                if error.args[0].code() in LOOK_AGAIN:
                    # Makes the client look again: it knows an old leader, or not all partitions.
                    self._admin.list_topics(topic, ADMIN_SECONDS)
                raise

        return self._patiently(ask)


def _answered(future: "Future[Any]", instead: Mapping[int, Any]) -> Any:
    try:
        return wait_for_result(future)
    except KafkaException as error:
        if error.args[0].code() not in instead:
            raise
        return instead[error.args[0].code()]


_AT_WORK = {
    ConsumerGroupState.STABLE,
    ConsumerGroupState.PREPARING_REBALANCING,
    ConsumerGroupState.COMPLETING_REBALANCING,
}


def ensure_topics(kafka: KafkaConfig, topics: Topics, stop: threading.Event | None = None) -> None:
    """Create and check the Kafka topics of everything that is defined."""
    cluster = Cluster(kafka, stop)
    for definition in topics.topics:
        cluster.ensure_topic(definition)
    for fanout in topics.fanouts:
        cluster.ensure_fanout(fanout, topics.named(fanout.topic))


def wait_for_topics(kafka: KafkaConfig, topics: Topics, stop: threading.Event) -> bool:
    """Create and check them as soon as Kafka answers; return whether it did before `stop` was set."""
    return wait_for_answer(lambda: ensure_topics(kafka, topics, stop), stop)


def wait_for_answer(ask: Callable[[], None], stop: threading.Event) -> bool:
    """Ask until Kafka answers; return whether it did before `stop` was set. Raise permanent errors."""
    while not stop.is_set():
        if is_answered(ask):
            return True
        stop.wait(AGAIN_SECONDS)
    return False


def is_answered(ask: Callable[[], None]) -> bool:
    """Ask once, and return whether Kafka answered. Raise permanent errors."""
    try:
        ask()
    except KafkaException as error:
        if not is_away(error):
            raise
        log.warning("waiting for Kafka", why=str(error))
        return False
    return True


def _topics_of(members: Iterable[Any]) -> set[str]:
    """Return the topics of which the members of a group have partitions."""
    return {p.topic for member in members for p in member.assignment.topic_partitions}
