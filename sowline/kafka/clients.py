"""The Kafka adapter: producers and consumers set up the way the contract needs them."""

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import NoneType
from typing import Any, ParamSpec

from confluent_kafka import (
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from sowline.config.kafka_options import KafkaConfig
from sowline.errors import StartAgain
from sowline.kafka.messages import columns_of
from sowline.kafka.retriable import is_away, patiently
from sowline.runtime.library_logs import LIBRDKAFKA

REPORT_ENDS: Mapping[str, Any] = {"enable.partition.eof": True}
"""The consumer option that makes `poll_batch` call its `on_end`."""


WAKE_SECONDS_MAX = 0.005
FETCH_WAIT_MS_MIN, FETCH_WAIT_MS_MAX = 50, 500
PARTITIONS_A_MS = 4


def of_many(partitions: int) -> dict[str, Any]:
    """Return the consumer options for a number of partitions: with many, an idle Kafka is asked less often.

    Each request names all partitions, and lasts until a record arrives or the time is up. Records aren't delayed,
    but an added partition has to wait for the end of the previous request.
    """
    wait_ms = min(FETCH_WAIT_MS_MAX, max(FETCH_WAIT_MS_MIN, partitions // PARTITIONS_A_MS))
    return {"fetch.wait.max.ms": wait_ms}


def logged(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a client's options with Python's logging instead of plain lines on standard error.

    The client passes its lines on when it is polled.
    """
    return {"logger": logging.getLogger(LIBRDKAFKA), **config}


def silent(config: KafkaConfig) -> dict[str, Any]:
    """Return the options of a client that logs nothing, because it is not polled and so can't pass log lines on."""
    # With `debug`, the client logs at all levels, regardless of its `log_level`.
    return {name: value for name, value in config.items() if name != "debug"} | {"log_level": "0"}


MESSAGE_BYTES_MAX = 1_000_000_000
"""The largest message that a client allows. Each Kafka topic has its own limit, and a later one may have a larger."""


def exact_producer(kafka: KafkaConfig, *, linger_ms: int = 1, **more: Any) -> Producer:
    """Return a producer that writes each message once, in order, and nothing after one that failed."""
    options = logged(
        {
            "enable.idempotence": True,
            "enable.gapless.guarantee": True,
            # Never gives up: a message that timed out would be a gap.
            "message.timeout.ms": 0,
            "acks": "all",
            "linger.ms": linger_ms,
            "compression.type": "lz4",
            # The partitioner of Java's producers: every producer must send a key to the same partition.
            "partitioner": "murmur2_random",
            "message.max.bytes": MESSAGE_BYTES_MAX,
            "queue.buffering.max.messages": 1_000_000,
            **kafka,
            **more,
        }
    )
    return Producer(options)


def served(call: Callable[[float], int], seconds: float) -> int:
    """Let a producer work for `seconds` by its `poll` or `flush`, and return the result.

    Raise `KafkaException` once it has failed permanently, for example because the broker has lost the end of a
    partition: the next message's number is too high then.
    """
    try:
        return call(seconds)
    except SystemError as error:
        # The client sets its exception, and goes on to call delivery reports, or is within a consumer's callback.
        # Python raises this instead (test_a_refused_message_is_named).
        cause = error.__cause__
        if isinstance(cause, KafkaException):
            raise cause from None
        raise KafkaException(KafkaError(KafkaError._FATAL, str(error))) from error


def produce(producer: Producer, *message: Any, stop: threading.Event | None = None, **more: Any) -> None:
    """Produce a message. If the producer's queue is full, wait for space first: leaving one out would be a gap.

    Raise `StartAgain` if `stop` is set meanwhile.
    """
    while True:
        try:
            producer.produce(*message, **more)
            return
        except BufferError:
            served(producer.poll, 0.1)
            # While Kafka is away the queue frees no space, and a service could not stop
            # (test_a_full_queue_lets_the_service_stop).
            if stop is not None and stop.is_set():
                raise StartAgain("stopping before the producer has space") from None


def plain_options(kafka: KafkaConfig, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the options of a consumer of committed data that never commits by itself, nor stalls on a full queue."""
    return {
        "group.id": "sowline",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # An offset that is gone is an error: continuing elsewhere would silently skip records.
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        # By default a client whose queue is full fetches nothing for a second: a load would spend most of its time
        # waiting.
        "fetch.queue.backoff.ms": 10,
        **of_many(0),
        **kafka,
        **(options or {}),
    }


def plain_consumer(
    kafka: KafkaConfig, options: Mapping[str, Any] | None = None, group: str = "sowline"
) -> Consumer:
    """Return a consumer with plain options, in a group."""
    return Consumer(logged(plain_options({"group.id": group, **kafka}, options)))


@contextmanager
def consuming(kafka: KafkaConfig, options: Mapping[str, Any] | None = None) -> Iterator[Consumer]:
    """Lend a plain consumer and close it afterwards."""
    consumer = plain_consumer(kafka, options)
    try:
        yield consumer
    finally:
        consumer.close()


def assign_more(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    """Let a consumer read these partitions too, and read on in the others at once."""
    consumer.incremental_assign(partitions)
    wake_fetchers(consumer)


def wake_fetchers(consumer: Consumer) -> None:
    """Let a consumer read on at once after its assignment has changed.

    librdkafka pauses all partitions meanwhile. Its thread for a broker then has nothing to fetch, and isn't woken
    when the partitions resume: it sleeps for up to a second. A request to each leader wakes it. Without this, one
    removal of a topic in six held up all other topics for 0.5 to 1 s (`bench redefine`).
    """
    with suppress(KafkaException):
        if assigned := consumer.assignment():
            ends = [TopicPartition(one.topic, one.partition, OFFSET_END) for one in assigned]
            consumer.offsets_for_times(ends, WAKE_SECONDS_MAX)


P = ParamSpec("P")


def raising(callback: Callable[P, None]) -> Callable[P, None]:
    """Return a callback for a Kafka client whose errors come out of `poll` as they were raised.

    If the client itself raises an error in a callback and no Python code catches it, `poll` raises only the error's
    argument: a `KafkaError`, which is not an exception, so that no `except` catches it.
    """

    def called(*given: P.args, **named: P.kwargs) -> None:
        try:
            callback(*given, **named)
        except KafkaException as error:  # noqa: TRY203 - Python code must catch it
            raise error  # noqa: TRY201 - and raise this object

    return called


Ends = Callable[[str, int, int], None]
"""Called for a partition that is read to its end, with topic, partition, and the end's offset."""


def poll_batch(
    consumer: Consumer,
    records_max: int,
    seconds: float,
    on_end: Ends | None = None,
    on_removed: Callable[[str, int], None] | None = None,
) -> list[Message]:
    """Return the messages that have arrived, waiting for the first only; raise permanent errors.

    `on_end` is called for each partition found to be read to its end, if the consumer reports that
    (`REPORT_ENDS`): the only sure sign, because the last offsets of a partition may be holes. `on_removed` is called
    for each partition whose offset is gone or never existed, in place of the error.
    """
    # `consume` alone waits until it has `records_max` messages or the time is up: a single change would reach
    # subscribers late by all of that time.
    first = consumer.poll(seconds)
    if first is None:
        return []
    messages = [first, *consumer.consume(records_max - 1, 0)]
    (errors,) = columns_of(messages, "error")
    # Only types are compared: comparing one of Kafka's errors with anything else raises.
    if set(map(type, errors)) == {NoneType}:
        return messages
    for message, error in zip(messages, errors, strict=True):
        if error is not None:
            judge(message, on_end, on_removed)
    return [message for message, error in zip(messages, errors, strict=True) if error is None]


def judge(
    message: Message, on_end: Ends | None = None, on_removed: Callable[[str, int], None] | None = None
) -> None:
    """Pass on the end of a partition, raise permanent errors, and ignore the others: the client tries again.

    `message` is an error.
    """
    error = message.error()
    assert error is not None
    if error.code() == KafkaError._PARTITION_EOF:
        if on_end is not None:
            on_end(message.topic() or "", message.partition() or 0, message.offset() or 0)
    elif error.code() in REMOVED and on_removed is not None:
        on_removed(message.topic() or "", message.partition() or 0)
    elif error.fatal() or error.code() in _LASTING:
        raise KafkaException(error)


ENDS_EVERY_SECONDS = 0.5
ENDS_A_SECOND = 400


def member_consumer(kafka: KafkaConfig, group: str, session_timeout_ms: int) -> Consumer:
    """Return a member of a consumer group that shares the partitions of a changes topic, and reports their ends."""
    options = {
        # An eager strategy would take all partitions from all members each time that one joins.
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": session_timeout_ms,
        # By default members send a heartbeat every 3 s. With a session timeout of 1 s, the shortest that settings
        # allow, the group would drop each member between two of them.
        "heartbeat.interval.ms": max(300, session_timeout_ms // 6),
        **REPORT_ENDS,
    }
    return plain_consumer(kafka, options, group)


class Behind:
    """Records, at most twice a second, how far a consumer is behind the end offsets of its last fetch.

    With more than 200 partitions, it looks at 400 in a second.
    """

    def __init__(self) -> None:
        self._look_at = 0.0
        self.lags: dict[tuple[str, int], int] = {}
        """Offsets between the position and the end, by topic and partition, where the end is known."""

    def total(self, topic: str, partitions: Iterable[int]) -> int | None:
        """Return the sum over some partitions of a topic; None while one of them is unknown."""
        known = [self.lags.get((topic, number)) for number in partitions]
        return sum(filter(None, known)) if None not in known else None

    def look(self, consumer: Consumer, reached: Callable[[], Iterable[TopicPartition]]) -> None:
        """Check if the interval has passed; `reached` returns the next offset of each partition."""
        now = time.monotonic()
        if now < self._look_at:
            return
        found = list(reached())
        self._look_at = now + max(ENDS_EVERY_SECONDS, len(found) / ENDS_A_SECOND)
        for there in found:
            # From the last fetch: to ask the broker would take a request for each partition, and a wait for its
            # answer.
            _, end = consumer.get_watermark_offsets(there, cached=True)
            if end >= 0:
                self.lags[there.topic, there.partition] = max(0, end - there.offset)


REMOVED = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
"""Errors for an offset that is gone or never existed."""

_LASTING = REMOVED | {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
}


def read_range(
    kafka: KafkaConfig,
    topic: str,
    partition: int,
    start: int,
    end: int,
    batch_max: int = 1000,
    idle: Callable[[], None] = lambda: None,
) -> Generator[list[Message], None, None]:
    """Yield the messages of a partition from offset `start` up to, not including, `end`, in batches.

    Offsets may have holes, also before `end`. `idle` is called again and again while nothing arrives.
    """
    if start >= end:
        return
    ended: list[int] = []
    with consuming(kafka, REPORT_ENDS) as consumer:
        consumer.assign([TopicPartition(topic, partition, start)])
        while not ended:
            messages = poll_batch(
                consumer, batch_max, 0.1, lambda topic, partition, offset: ended.append(offset)
            )
            last = (messages[-1].offset() or 0) if messages else -1
            inside = messages if last < end else [one for one in messages if (one.offset() or 0) < end]
            if inside:
                yield inside
            elif not ended:
                idle()
            # In a partition that is written all the time, the consumer may never report the end.
            if last >= end - 1:
                return


def holds_records(
    kafka: KafkaConfig, topic: str, partition: int, offsets: range, seconds: float
) -> bool | None:
    """Return whether any of these offsets holds a record; None if Kafka doesn't answer in time.

    Offsets without one are markers of transactions, or records that were aborted or compacted away.
    """
    ended: list[int] = []
    deadline = time.monotonic() + seconds
    with consuming(kafka, REPORT_ENDS) as consumer:
        consumer.assign([TopicPartition(topic, partition, offsets.start)])
        while time.monotonic() < deadline:
            messages = poll_batch(consumer, 1, 0.1, lambda topic, partition, offset: ended.append(offset))
            if messages:
                return (messages[0].offset() or 0) in offsets
            if ended:
                return False
    return None


def written_at(kafka: KafkaConfig, topic: str, partition: int, offset: int, seconds: float) -> int | None:
    """Return the time of the record at an offset, in ms, committed or not; None if Kafka doesn't answer in time."""
    deadline = time.monotonic() + seconds
    with consuming(kafka, {"isolation.level": "read_uncommitted"}) as consumer:
        consumer.assign([TopicPartition(topic, partition, offset)])
        while time.monotonic() < deadline:
            for message in poll_batch(consumer, 1, 0.1):
                return message.timestamp()[1]
    return None


NEAR_OFFSETS = 100
"""Messages at most this far apart are read together, with the messages between them."""

SCATTERED: Mapping[str, Any] = {
    "fetch.message.max.bytes": 16 * 1024,
    "queued.min.messages": NEAR_OFFSETS,
    "fetch.queue.backoff.ms": 1,
}
"""The consumer options for reading scattered messages: fetches are small and immediate."""


def read_at(
    kafka: KafkaConfig, topic: str, partition: int, offsets: Sequence[int], seconds_max: float
) -> Generator[Message, None, None]:
    """Yield the messages of a partition at these offsets, in ascending order, skipping those that are gone.

    Raises TimeoutError after `seconds_max`.
    """
    deadline = time.monotonic() + seconds_max
    with consuming(kafka, {**REPORT_ENDS, **SCATTERED}) as consumer:
        first, end = _extent(consumer, TopicPartition(topic, partition), seconds_max)
        is_assigned = False
        # To begin at an offset that is gone is an error for this consumer, and nothing is read from the end on.
        for run in near_runs([offset for offset in offsets if first <= offset < end]):
            begin, wanted = TopicPartition(topic, partition, run[0]), set(run)
            if is_assigned:
                consumer.seek(begin)
            else:
                consumer.assign([begin])
            is_assigned = True
            for message in _read_run(consumer, run[-1], deadline):
                if message.offset() in wanted:
                    yield message


def _extent(consumer: Consumer, partition: TopicPartition, seconds_max: float) -> tuple[int, int]:
    """Return the first offset of a partition, and its end; raises TimeoutError after `seconds_max`."""
    try:
        return patiently(partial(consumer.get_watermark_offsets, partition, seconds_max), seconds_max)
    except KafkaException as error:
        if not is_away(error):
            raise
        raise TimeoutError from error


def near_runs(offsets: Sequence[int]) -> Iterator[list[int]]:
    """Split offsets where two neighbors are far apart."""
    run: list[int] = []
    for offset in offsets:
        if run and offset - run[-1] > NEAR_OFFSETS:
            yield run
            run = []
        run.append(offset)
    if run:
        yield run


def _read_run(consumer: Consumer, last: int, deadline: float) -> Iterator[Message]:
    """Yield the messages that a consumer reads up to an offset, or to the end."""
    ended: list[int] = []
    while not ended:
        if time.monotonic() > deadline:
            raise TimeoutError
        messages = poll_batch(
            consumer, NEAR_OFFSETS, 0.1, lambda topic, partition, offset: ended.append(offset)
        )
        yield from messages
        if messages and (messages[-1].offset() or 0) >= last:
            return
