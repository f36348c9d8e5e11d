"""The questions of `sowline doctor` to Kafka. Each has a time limit, and nothing is written.

If Kafka does not answer within seconds, the result is `no kafka`. Questions that it refuses are noted and left out.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from confluent_kafka import (
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ClusterMetadata, ConfigResource, OffsetSpec, ResourceType

from sowline.changes.change import Change
from sowline.changes.progress import Progress
from sowline.cli.doctor.facts import (
    DeadFacts,
    GroupFacts,
    KafkaFacts,
    PartitionFacts,
    TopicFacts,
    TopicPartitionId,
)
from sowline.cli.doctor.finding import CLOCK_MS_MAX
from sowline.config.kafka_options import KafkaConfig
from sowline.config.settings import FANOUTS, VIEWS, WORKERS, Settings
from sowline.config.topic_definition import by_changes
from sowline.config.topics import Topics
from sowline.errors import SowlineError
from sowline.kafka.clients import REPORT_ENDS, consuming, poll_batch, written_at
from sowline.kafka.messages import event_of, headers_of
from sowline.kafka.retriable import is_retriable, patiently
from sowline.model.log_time import LOG_APPEND_TIME
from sowline.model.position import Position

ANSWER_SECONDS_MAX = 5.0

READ_SECONDS_MAX = 10.0
"""For the ends of all changes, and again for all dead letters."""

CHANGES_READ_MAX = 100
"""Events to read at the end of each changes partition; the newest one shows what has been applied."""

DEAD_READ_MAX = 1000
"""Newest dead letters of a topic whose reasons are counted."""

Span = tuple[int, int]
"""The first offset to read, and the one after the last."""


class KafkaExamination:
    """Asks one Kafka, and keeps a sentence for each question that it does not answer."""

    def __init__(self, kafka: KafkaConfig) -> None:
        self._kafka = kafka
        self._why = ""
        """The last error that the Kafka client reported while it tried to connect."""
        self._admin, self._metadata = self._connected()
        self.unanswered: list[str] = []

    def _connected(self) -> tuple[AdminClient, ClusterMetadata]:
        """Return a client, and the first answer of the brokers; raise `no kafka` with the cause."""
        try:
            admin = AdminClient({**self._kafka, "error_cb": self._on_error})  # type: ignore[dict-item]
        except KafkaException as error:
            raise SowlineError("no kafka", error.args[0].str()) from error
        try:
            return admin, admin.list_topics(timeout=ANSWER_SECONDS_MAX)
        except KafkaException as error:
            # The client reports the cause, such as a refused connection, to a callback that runs only in a poll.
            admin.poll(0)
            raise SowlineError("no kafka", self._why or error.args[0].str()) from error

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._why = error.str()

    @property
    def brokers(self) -> list[int]:
        """The ids of the available brokers."""
        return sorted(self._metadata.brokers)

    def topics(self, names: Iterable[str]) -> dict[str, TopicFacts]:
        """Return the facts of these topics; missing topics are left out."""
        there = [name for name in names if self._is_there(name)]
        partitions = [(name, number) for name in there for number in self._metadata.topics[name].partitions]
        starts = self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        ends = self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        every = IsolationLevel.READ_UNCOMMITTED
        newest_ends = self._offsets(partitions, OffsetSpec.latest(), every)  # type: ignore[no-untyped-call]
        # Records that were appended between the two answers look like an open transaction, too. They are new, and the
        # check reports only transactions that are seconds old.
        transactions = {
            partition: written_at(self._kafka, *partition, ends[partition].offset, ANSWER_SECONDS_MAX)
            for partition in partitions
            if partition in ends and partition in newest_ends
            if ends[partition].offset < newest_ends[partition].offset
        }
        newest = self._offsets(partitions, OffsetSpec.max_timestamp())  # type: ignore[no-untyped-call]
        settings = self._settings([ConfigResource(ResourceType.TOPIC, name) for name in there])
        found = {}
        for name in there:
            metadata = self._metadata.topics[name].partitions
            times = [(newest[name, n].timestamp, n) for n in metadata if (name, n) in newest]
            latest, number = max(times, default=(-1, 0))
            found[name] = TopicFacts(
                {
                    number: PartitionFacts(
                        has_leader=about.leader >= 0,
                        replicas=len(about.replicas),
                        in_sync=len(about.isrs),
                        start=_offset(starts, (name, number)),
                        end=_offset(ends, (name, number)),
                        transaction_ms=transactions.get((name, number)),
                    )
                    for number, about in metadata.items()
                },
                settings.get(name, {}),
                latest if latest >= 0 else None,
                self._time_type(name, number, newest[name, number].offset)
                if is_ahead(latest)
                else LOG_APPEND_TIME,
            )
        return found

    def _time_type(self, name: str, number: int, offset: int) -> int:
        """Return whose time a record has."""
        for message in self.tails({(name, number): (offset, offset + 1)}):
            return message.timestamp()[0]
        return LOG_APPEND_TIME

    def _is_there(self, name: str) -> bool:
        found = self._metadata.topics.get(name)
        return found is not None and found.error is None

    def groups(self, names: list[str]) -> dict[str, GroupFacts]:
        """Return the facts of consumer groups."""
        found = {}
        ask = partial(self._admin.describe_consumer_groups, names, request_timeout=ANSWER_SECONDS_MAX)
        for name, about in self._answers(ask, lambda name: f"consumer group {name}").items():
            partitions = (p for member in about.members for p in member.assignment.topic_partitions)
            found[name] = GroupFacts(
                len(about.members), frozenset((p.topic, p.partition) for p in partitions)
            )
        return found

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Return Kafka's ids of topics that exist."""
        there = [name for name in names if self._is_there(name)]
        if not there:
            return {}
        answers = self._answers(
            lambda: self._admin.describe_topics(TopicCollection(there)), lambda name: f"the id of {name}"
        )
        return {name: str(about.topic_id) for name, about in answers.items()}

    def session_min_ms(self) -> int | None:
        """Return the shortest session timeout that all brokers allow."""
        found = self._settings([ConfigResource(ResourceType.BROKER, str(number)) for number in self.brokers])
        least = [int(one["group.min.session.timeout.ms"]) for one in found.values()]
        return max(least, default=None)

    def _settings(self, resources: list[ConfigResource]) -> dict[str, dict[str, str]]:
        """Return the settings of topics or brokers by name; none for those that Kafka refuses to report."""
        if not resources:
            return {}
        ask = partial(self._admin.describe_configs, resources, request_timeout=ANSWER_SECONDS_MAX)
        answers = self._answers(ask, lambda one: f"the settings of {one.name}")
        return {
            one.name: {key: entry.value for key, entry in entries.items()} for one, entries in answers.items()
        }

    def _offsets(
        self,
        partitions: list[TopicPartitionId],
        which: OffsetSpec,
        level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> dict[TopicPartitionId, Any]:
        if not partitions:
            return {}
        ask = partial(
            self._admin.list_offsets,
            {TopicPartition(*partition): which for partition in partitions},
            isolation_level=level,
            request_timeout=ANSWER_SECONDS_MAX,
        )
        answers = self._answers(
            ask, lambda partition: f"offsets of {partition.topic} [{partition.partition}]"
        )
        known = {
            partition: answer for partition, answer in answers.items() if answer.offset != OFFSET_INVALID
        }
        self.unanswered += [
            f"offsets of {partition.topic} [{partition.partition}]: none reported"
            for partition in answers
            if partition not in known
        ]
        return {(partition.topic, partition.partition): answer for partition, answer in known.items()}

    def _answers(self, ask: Callable[[], Mapping[Any, Any]], what: Callable[[Any], str]) -> dict[Any, Any]:
        """Return the answers, and note what was refused. Repeat a question for a time if its error may pass."""
        outcomes: dict[Any, Any] = {}

        def once() -> None:
            for asked, future in ask().items():
                try:
                    outcomes[asked] = future.result(2 * ANSWER_SECONDS_MAX)
                except (KafkaException, TimeoutError) as error:
                    outcomes[asked] = error
            for outcome in outcomes.values():
                if isinstance(outcome, KafkaException) and is_retriable(outcome):
                    raise outcome

        with contextlib.suppress(KafkaException):
            patiently(once, ANSWER_SECONDS_MAX)
        for asked, outcome in outcomes.items():
            if isinstance(outcome, TimeoutError):
                self.unanswered.append(f"{what(asked)}: no answer within {2 * ANSWER_SECONDS_MAX:g} s")
            # A group without members need not exist: that is no refusal.
            elif (
                isinstance(outcome, KafkaException)
                and outcome.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND
            ):
                self.unanswered.append(f"{what(asked)}: {outcome.args[0].str()}")
        return {asked: outcome for asked, outcome in outcomes.items() if not isinstance(outcome, Exception)}

    def tails(self, spans: Mapping[TopicPartitionId, Span]) -> Iterator[Message]:
        """Yield the records of these partitions between two offsets, as far as they arrive in time."""
        left = {partition for partition, (start, end) in spans.items() if start < end}
        if not left:
            return
        try:
            yield from self._tails(spans, left)
        except KafkaException as error:
            self.unanswered.append(f"records of {_named(left)}: {error.args[0].str()}")
            return
        if left:
            self.unanswered.append(f"records of {_named(left)}: not all read within {READ_SECONDS_MAX:g} s")

    def _tails(
        self, spans: Mapping[TopicPartitionId, Span], left: set[TopicPartitionId]
    ) -> Iterator[Message]:
        """Read records, and remove from `left` each partition that is read to its end."""
        deadline = time.monotonic() + READ_SECONDS_MAX
        with consuming(self._kafka, REPORT_ENDS) as consumer:
            consumer.assign([TopicPartition(*partition, spans[partition][0]) for partition in left])
            # The last offset may belong to the mark of a transaction, which no consumer gets: then the report of the
            # partition's end shows that it is read.
            while left and time.monotonic() < deadline:
                for message in poll_batch(consumer, 1000, 0.1, lambda *at: left.discard((at[0], at[1]))):
                    partition, offset = (
                        (message.topic() or "", message.partition() or 0),
                        message.offset() or 0,
                    )
                    if offset < spans[partition][1]:
                        yield message
                    if offset >= spans[partition][1] - 1:
                        left.discard(partition)


def is_ahead(time_ms: int) -> bool:
    """Whether a time is so far ahead of this machine's clock that it is worth a finding."""
    return time_ms > time.time_ns() // 1_000_000 + CLOCK_MS_MAX


def _named(partitions: Iterable[TopicPartitionId]) -> str:
    return ", ".join(f"{topic} [{number}]" for topic, number in sorted(partitions)[:5])


def _offset(offsets: Mapping[TopicPartitionId, Any], partition: TopicPartitionId) -> int:
    return max(0, offsets[partition].offset) if partition in offsets else 0


def ask_kafka(settings: Settings, topics: Topics) -> KafkaFacts:
    """Ask Kafka all that the checks need to know about these topics; raise `no kafka` if no broker answers."""
    asking = KafkaExamination(settings.kafka_client)
    names = [name for topic in topics.topics for name in topic.kafka.names]
    found = asking.topics([*names, *(fanout.output for fanout in topics.fanouts)])
    groups = [
        settings.group + WORKERS,
        *(f"{settings.group}{VIEWS}{view.name}" for view in topics.computed),
        *(f"{settings.group}{FANOUTS}{fanout.name}" for fanout in topics.fanouts),
    ]
    logs = {name: topic.log for name, topic in by_changes(topics.topics).items()}
    dead = [topic.kafka.dead for topic in topics.topics]
    applied, reflected, log_ids = _applied(asking, found, logs)
    ids = asking.topic_ids(logs.values())
    return KafkaFacts(
        len(asking.brokers),
        time.time_ns() // 1_000_000,
        found,
        asking.groups(groups),
        applied,
        reflected,
        frozenset(log for (log, _), log_id in log_ids.items() if ids.get(log, log_id) != log_id),
        _dead(asking, found, dead),
        asking.session_min_ms(),
        tuple(asking.unanswered),
    )


def _spans(
    found: Mapping[str, TopicFacts], names: Iterable[str], records_max: int
) -> dict[TopicPartitionId, Span]:
    return {
        (name, number): (max(part.start, part.end - records_max), part.end)
        for name in names
        if name in found
        for number, part in found[name].partitions.items()
        # A partition without a leader yields no record, and reading would last until the time limit for all others,
        # too.
        if part.has_leader
    }


def _applied(
    asking: KafkaExamination, found: Mapping[str, TopicFacts], logs: Mapping[str, str]
) -> tuple[dict[TopicPartitionId, int], dict[TopicPartitionId, dict[int, int]], dict[TopicPartitionId, str]]:
    """Return, by log partition, the applied offsets, the offsets that a view reflects, and the topic ids of the logs.

    All are those of the newest events.
    """
    named: dict[TopicPartitionId, tuple[Position, str]] = {}
    applied: dict[TopicPartitionId, Position] = {}
    reflected: dict[TopicPartitionId, dict[int, Position]] = {}
    for message in asking.tails(_spans(found, logs, CHANGES_READ_MAX)):
        if (event := _event(message)) is not None:
            partition = logs[message.topic() or ""], message.partition() or 0
            # The last event of a partition need not be its newest: owners write old ones again.
            applied[partition] = max(event.position, applied.get(partition, event.position))
            if isinstance(event, Progress):
                named[partition] = max(
                    (event.position, event.log_id), named.get(partition, (event.position, ""))
                )
            sources = reflected.setdefault(partition, {})
            for source, position in _reflected(event):
                sources[source] = max(position, sources.get(source, position))
    return (
        {partition: position.offset for partition, position in applied.items()},
        {
            partition: {source: position.offset for source, position in sources.items()}
            for partition, sources in reflected.items()
        },
        {partition: log_id for partition, (_, log_id) in named.items()},
    )


def _reflected(event: Change | Progress) -> Iterable[tuple[int, Position]]:
    """Return the positions up to which an event reflects partitions of a view's source."""
    if isinstance(event, Progress):
        return event.reflected.items()
    return () if event.reflects is None else (event.reflects,)


def _event(message: Message) -> Change | Progress | None:
    """Return an event; None for a record that is no event, or that has another format."""
    try:
        return event_of(message)
    except (ValueError, KeyError, SowlineError):
        return None


def _dead(
    asking: KafkaExamination, found: Mapping[str, TopicFacts], names: list[str]
) -> dict[str, DeadFacts]:
    reasons: dict[str, Counter[str]] = {}
    newest: dict[str, int] = {}
    for message in asking.tails(_spans(found, names, DEAD_READ_MAX)):
        name = message.topic() or ""
        headers = dict(headers_of(message) or ())
        reason = headers.get("sow.reason") or b"no reason"
        reasons.setdefault(name, Counter())[bytes(reason).decode(errors="replace")] += 1
        newest[name] = max(newest.get(name, 0), message.timestamp()[1])
    waiting = {name: sum(p.end - p.start for p in found[name].partitions.values()) for name in reasons}
    return {
        name: DeadFacts(waiting[name], counted.total(), counted, newest[name])
        for name, counted in reasons.items()
    }
