"""The Kafka adapter: producers and consumers set up the way the contract needs them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from sowline.limits import MIB

KafkaConfig = Mapping[str, str]

REPORT_ENDS: Mapping[str, Any] = {"enable.partition.eof": True}
"""The consumer option that makes `poll_batch` call its `on_end`."""


def kafka_config(bootstrap: str, options: KafkaConfig | None = None) -> dict[str, str]:
    """Return what every client of the cluster needs: where it is, and the caller's own options (TLS, SASL)."""
    return {"bootstrap.servers": bootstrap, "log_level": "3", **(options or {})}


def exact_producer(kafka: KafkaConfig, message_bytes_max: int = MIB, **more: Any) -> Producer:
    """Return a producer that writes each message once, in order, and nothing after one that failed."""
    return Producer(
        {
            "enable.idempotence": True,
            "enable.gapless.guarantee": True,
            "message.timeout.ms": 0,
            "acks": "all",
            "linger.ms": 1,
            "compression.type": "lz4",
            "partitioner": "murmur2_random",
            "message.max.bytes": message_bytes_max,
            "queue.buffering.max.messages": 1_000_000,
            **kafka,
            **more,
        }
    )


def plain_consumer(
    kafka: KafkaConfig, options: Mapping[str, Any] | None = None, group: str = "sowline"
) -> Consumer:
    """Return a consumer of committed data that never commits by itself and never stalls on a full queue."""
    return Consumer(
        {
            "group.id": group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 10,
            "fetch.wait.max.ms": 50,
            **kafka,
            **(options or {}),
        }
    )


@contextmanager
def consuming(kafka: KafkaConfig, options: Mapping[str, Any] | None = None) -> Iterator[Consumer]:
    """Lend a plain consumer and close it afterwards."""
    consumer = plain_consumer(kafka, options)
    try:
        yield consumer
    finally:
        consumer.close()


Ends = Callable[[str, int, int], None]
"""Told of a partition that is read to its end: topic, partition, and the end's offset."""


def poll_batch(
    consumer: Consumer, records_max: int, seconds: float, on_end: Ends | None = None
) -> list[Message]:
    """Return what has arrived, waiting for the first message only; raises on errors that do not pass.

    `on_end` is called for each partition found to be read to its end, if the consumer reports that
    (`REPORT_ENDS`): the one sure sign, because the last offsets of a partition may be holes.
    """
    first = consumer.poll(seconds)
    if first is None:
        return []
    messages = [first, *consumer.consume(records_max - 1, 0)]
    errors = [message for message in messages if message.error() is not None]
    for message in errors:
        _judge(message, on_end)
    return [message for message in messages if message.error() is None] if errors else messages


def _judge(message: Message, on_end: Ends | None) -> None:
    """Pass on the end of a partition, raise what does not pass, and let the rest be: the client tries again."""
    error = message.error()
    assert error is not None
    if error.code() == KafkaError._PARTITION_EOF:
        if on_end is not None:
            on_end(message.topic() or "", message.partition() or 0, message.offset() or 0)
    elif error.fatal() or error.code() in _LASTING:
        raise KafkaException(error)


_LASTING = {
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
}


def read_range(
    kafka: KafkaConfig, topic: str, partition: int, start: int, end: int, batch_max: int = 1000
) -> Iterator[list[Message]]:
    """Yield the messages of a partition from offset `start` up to, not including, `end`, in batches.

    Offsets may have holes, also before `end`.
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
            inside = [message for message in messages if (message.offset() or 0) < end]
            if inside:
                yield inside
            if messages and (messages[-1].offset() or 0) >= end - 1:
                return
