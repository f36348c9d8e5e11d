"""Asks about many partitions without waiting for the answer: where they begin and end, and their topics' ids."""

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

import structlog
from confluent_kafka import (
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from sowline.kafka.leaderless import Leaderless, leaderless
from sowline.kafka.retriable import ANSWER_SECONDS, is_retriable

log = structlog.get_logger()

T = TypeVar("T")


class ClusterAnswer:
    """A pending request to the cluster for the offsets at which partitions end, and the ids of their topics.

    It also asks for the offsets at which the partitions in `starts` begin, and for the ids of the other `topics`.
    With `uncommitted`, it also asks where records end, committed or not.
    """

    def __init__(
        self,
        admin: AdminClient,
        partitions: Iterable[tuple[str, int]],
        starts: Iterable[tuple[str, int]] = (),
        uncommitted: bool = False,
        topics: Iterable[str] = (),
    ) -> None:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(*topic_partition): latest for topic_partition in partitions}
        committed = IsolationLevel.READ_COMMITTED
        self._ends = admin.list_offsets(asked, isolation_level=committed) if asked else {}
        every = IsolationLevel.READ_UNCOMMITTED
        self._newest = admin.list_offsets(asked, isolation_level=every) if uncommitted else {}
        earliest = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
        first = {TopicPartition(*topic_partition): earliest for topic_partition in starts}
        self._starts = admin.list_offsets(first) if first else {}
        self._topics = admin.describe_topics(
            TopicCollection(sorted({*topics, *(topic_partition.topic for topic_partition in asked)}))
        )

    @property
    def is_answered(self) -> bool:
        """Whether every answer has arrived, or will never arrive."""
        answers = (self._ends, self._newest, self._starts, self._topics)
        return all(future.done() for pending in answers for future in pending.values())

    def gone(self) -> frozenset[str]:
        """Return the topics that do not exist; raise Kafka's error."""
        return frozenset(name for name, future in self._topics.items() if _is_gone(future))

    def newest_ends(self) -> dict[tuple[str, int], int]:
        """Return the offset after each partition's last record, committed or not; some are left out as in `ends`."""
        return known_offsets(self._newest)

    def ends(self, but: Collection[str] = ()) -> dict[tuple[str, int], int]:
        """Return the offset after the last committed record of each partition, except in the topics of `but`.

        A partition that has no leader, for example, is left out. Raise Kafka's error if it is permanent.
        """
        return known_offsets(self._ends, but)

    def starts(self, but: Collection[str] = ()) -> dict[tuple[str, int], int]:
        """Return the offset of the first record of each partition; some are left out as in `ends`."""
        return known_offsets(self._starts, but)

    def topic_ids(self, but: Collection[str] = ()) -> dict[str, str]:
        """Return Kafka's id of each topic except those in `but`; raise Kafka's error."""
        return {name: str(about.topic_id) for name, about in self._described(but).items()}

    def leaderless(self, but: Collection[str] = ()) -> Leaderless:
        """Return the partitions without a leader of each topic except those in `but`; raise Kafka's error."""
        return leaderless(self._described(but))

    def _described(self, but: Collection[str]) -> dict[str, Any]:
        return {name: future.result(0) for name, future in self._topics.items() if name not in but}


class RepeatedQuestion:
    """A question that is asked again at an interval, while its user does other work.

    After `ANSWER_SECONDS` without an answer, the question is asked again: some answers never arrive
    (test_an_answer_that_never_comes_is_given_up).
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = 0.0
        self._asked_at = 0.0
        self._asked: ClusterAnswer | None = None

    @property
    def is_pending(self) -> bool:
        """Whether its last answer has not been taken yet."""
        return self._asked is not None

    def look(
        self, now: float, ask: Callable[[], ClusterAnswer | None], found: Callable[[ClusterAnswer], T]
    ) -> T | None:
        """Ask if the interval has passed and `ask` has a question; or return the result of `found` for an answer.

        Most calls return None; so does the call that gets an error. `now` is in seconds of a monotonic clock.
        """
        if self._asked is None:
            if now >= self._next:
                self._next, self._asked_at = now + self._seconds, now
                self._asked = ask()
            return None
        if not self._asked.is_answered:
            if now >= self._asked_at + ANSWER_SECONDS:
                log.warning("Kafka reported an error", why=f"no answer within {ANSWER_SECONDS:g} s")
                self._asked = None
            return None
        # First, because `found` may raise: a pending answer about a replaced topic would raise again at each look,
        # also after that was dealt with.
        answer, self._asked = self._asked, None
        try:
            return found(answer)
        except KafkaException as error:
            # The next question may be answered: a refusal must not end a service that reads on
            # (test_a_kafka_that_refuses_an_answer).
            log.warning("Kafka reported an error", why=str(error))
            return None

    def forget(self) -> None:
        """Drop a pending answer, which describes the topics as they were before, and ask again at the next look."""
        self._asked, self._next = None, 0.0


def known_offsets(
    answers: Mapping[TopicPartition, "Future[Any]"], but: Collection[str] = ()
) -> dict[tuple[str, int], int]:
    """Return the offsets among answers about partitions; leave out those of topics in `but`, and transient errors."""
    found: dict[tuple[str, int], int] = {}
    for topic_partition, future in answers.items():
        name = topic_partition.topic, topic_partition.partition
        if name[0] in but:
            continue
        try:
            found[name] = known_offset(topic_partition, future.result(0))
        except KafkaException as error:
            # The next question may be answered. One partition without a leader would hide all others: nobody would
            # find what a stale owner wrote to them (test_a_partition_without_a_leader_hides_no_other).
            if not is_retriable(error):
                raise
    return found


def _is_gone(future: "Future[Any]") -> bool:
    try:
        future.result(0)
    except KafkaException as error:
        # No other error says that a topic is deleted: a broker that is about to start knows of no leader, for
        # example.
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise
        return True
    return False


def known_offset(topic_partition: TopicPartition, answer: Any) -> int:
    """Return the offset in an answer. A client that lost its connection may give an invalid offset."""
    if answer.offset == OFFSET_INVALID:
        raise KafkaException(
            KafkaError(
                KafkaError._NOENT,
                f"no offset of {topic_partition.topic} [{topic_partition.partition}] was reported",
            )
        )
    return int(answer.offset)
