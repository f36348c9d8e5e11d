"""Kafka's transient errors, and how long a question is repeated because of them."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from tenacity import (
    Retrying,
    nap,
    retry_if_exception,
    stop_after_delay,
    stop_when_event_set,
    wait_exponential,
)

from sowline.errors import StartAgain

ADMIN_SECONDS = 30.0
ANSWER_SECONDS = 10.0
"""The time for which a question to Kafka is repeated, and the time to wait for one answer."""

COMMITTED_SECONDS = 30

_FIRST_PAUSE_SECONDS = 0.05
_PAUSE_SECONDS_MAX = 1.0

RETRIABLE_BY_KAFKA = frozenset(
    {
        KafkaError.INVALID_MSG,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_CONTROLLER,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FETCH_SESSION_ID_NOT_FOUND,
        KafkaError.INVALID_FETCH_SESSION_EPOCH,
        KafkaError.LISTENER_NOT_FOUND,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        KafkaError.ELECTION_NOT_NEEDED,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
        106,  # FETCH_SESSION_TOPIC_ID_ERROR, for which librdkafka has no name
        122,  # SHARE_SESSION_NOT_FOUND; older clients that we support have no name for this and the next two
        123,  # INVALID_SHARE_SESSION_EPOCH
        133,  # SHARE_SESSION_LIMIT_REACHED
    }
)
"""All errors that the Kafka protocol marks as retriable, as Kafka's own client lists them."""

RESTART_ERRORS = (KafkaException, StartAgain)
"""The errors after which a new worker, runner or copy continues the work of the one that raised them."""

AWAY = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE})
"""Errors that a client repeats while it does not reach Kafka and retries."""

_NOT_THERE = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
"""Errors for a topic that a broker does not know yet. After a while they mean that it does not exist."""

LOOK_AGAIN = frozenset(
    {
        KafkaError._NOENT,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError._UNKNOWN_PARTITION,
    }
)
"""Errors for a partition that got another leader, or was added, since the client last looked at the topic."""

NO_LEADER = frozenset({KafkaError.LEADER_NOT_AVAILABLE, KafkaError._NOENT})
"""Errors for a partition that may have no leader."""

RETRIABLE = (
    RETRIABLE_BY_KAFKA
    | AWAY
    | LOOK_AGAIN
    | _NOT_THERE
    | {
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._WAIT_COORD,
        KafkaError._WAIT_CACHE,
        KafkaError._IN_PROGRESS,
        KafkaError._PREV_IN_PROGRESS,
        KafkaError._OUTDATED,
        KafkaError._RETRY,
        KafkaError._INTR,
        KafkaError._UNKNOWN_BROKER,
        KafkaError._DESTROY_BROKER,
        # Kafka marks it as final, but its brokers send it while they start.
        KafkaError.BROKER_NOT_AVAILABLE,
    }
)
"""All errors after which the same question may be answered: Kafka's, and the transient ones of librdkafka."""

T = TypeVar("T")


def is_retriable(error: BaseException) -> bool:
    """Return whether the same question may be answered later."""
    return isinstance(error, KafkaException) and error.args[0].code() in RETRIABLE


def is_away(error: KafkaException) -> bool:
    """Return whether the error means that Kafka didn't answer, rather than that it refused."""
    return is_retriable(error) and error.args[0].code() not in _NOT_THERE


def patiently(ask: Callable[[], T], seconds: float | None = None, stop: threading.Event | None = None) -> T:
    """Ask again after transient errors, for `seconds` (by default `ADMIN_SECONDS`); raise any other error at once.

    If the event is set, the last error is raised sooner.
    """
    bound = stop_after_delay(ADMIN_SECONDS if seconds is None else seconds)
    retrying = Retrying(
        retry=retry_if_exception(is_retriable),
        stop=bound if stop is None else bound | stop_when_event_set(stop),
        sleep=nap.sleep if stop is None else nap.sleep_using_event(stop),
        wait=wait_exponential(_FIRST_PAUSE_SECONDS, _PAUSE_SECONDS_MAX),
        reraise=True,
    )
    return retrying(ask)


def wait_for_result(future: "Future[T]") -> T:
    """Return Kafka's answer; raise KafkaException also if it takes too long.

    An answer may never arrive, for example about a topic that was created a moment ago. So the wait for one answer is
    shorter than the time for which the question is repeated (test_a_question_without_an_answer_is_asked_again).
    """
    try:
        return future.result(ANSWER_SECONDS)
    except TimeoutError:
        late = KafkaError(KafkaError._TIMED_OUT, f"no answer within {ANSWER_SECONDS:g} s")
        raise KafkaException(late) from None


def committed(consumer: Consumer, partitions: list[TopicPartition]) -> list[TopicPartition]:
    """Return the offsets that a consumer's group has committed; raise Kafka's error, also for a single partition."""

    def ask() -> list[TopicPartition]:
        return _each_known(consumer.committed(partitions, timeout=COMMITTED_SECONDS))

    return patiently(ask) if partitions else []


def commit(consumer: Consumer, offsets: list[TopicPartition]) -> None:
    """Commit offsets for a consumer's group; raise Kafka's error, also for a single partition."""
    # An asynchronous commit would report its failure to nobody, and the caller would go on as if Kafka had the
    # offsets.
    patiently(lambda: _each_known(consumer.commit(offsets=offsets, asynchronous=False) or []))


def _each_known(partitions: list[TopicPartition]) -> list[TopicPartition]:
    # An error is not "no offset": otherwise, an existing fanout would load again like a new one
    # (test_an_unknown_position_makes_it_begin_again).
    for partition in partitions:
        if partition.error is not None:
            raise KafkaException(partition.error)
    return partitions
