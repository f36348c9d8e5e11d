"""Reads a partition of Kafka backwards: the newest messages that a caller wants, up to a bound of work."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from sowline.config.kafka_options import KafkaConfig
from sowline.kafka.clients import REPORT_ENDS, consuming, poll_batch
from sowline.kafka.retriable import is_away, patiently

STEP_OFFSETS = 1000
"""Offsets of the first step back; each further step reads four times as many, up to `STEP_OFFSETS_MAX`."""

STEP_OFFSETS_MAX = 32_000
SEARCHED_MAX = 200_000
SECONDS_MAX = 2.0


@dataclass(slots=True)
class NewestMessages:
    """The newest wanted messages, newest first, and how far back the search went."""

    begin: int
    """Every message from this offset on was examined."""
    end: int
    """The offset before which the search started."""
    messages: list[Message] = field(default_factory=list)
    is_complete: bool = False
    """Whether the search has reached the partition's first message."""
    oldest_time: int | None = None
    """The append time, in ms since 1970, of the oldest message that was examined; None if there was none."""


def read_newest(
    kafka: KafkaConfig,
    topic: str,
    partition: int,
    messages_max: int,
    wants: Callable[[Message], bool],
    *,
    end: int | None = None,
) -> NewestMessages:
    """Return up to `messages_max` wanted messages, the newest before offset `end`, or before the partition's end.

    The search ends earlier after `SEARCHED_MAX` offsets, or once `SECONDS_MAX` have passed. Raise TimeoutError if
    Kafka does not answer in that time.
    """
    deadline = time.monotonic() + SECONDS_MAX
    with consuming(kafka, REPORT_ENDS) as consumer:
        try:
            extent = partial(consumer.get_watermark_offsets, TopicPartition(topic, partition), SECONDS_MAX)
            first, after_last = patiently(extent, SECONDS_MAX)
        except KafkaException as error:
            if is_away(error):
                raise TimeoutError from error
            raise
        found = NewestMessages(begin=0, end=after_last if end is None else min(end, after_last))
        found.begin = found.end
        step = STEP_OFFSETS
        while len(found.messages) < messages_max and found.begin > first:
            # Late, the search ends with what it has. Without anything, `_read` raises TimeoutError.
            if found.end - found.begin >= SEARCHED_MAX or (found.oldest_time and time.monotonic() > deadline):
                break
            start = max(first, found.begin - step)
            messages = _read(consumer, TopicPartition(topic, partition, start), found.begin, deadline)
            for message in reversed(messages):
                found.oldest_time = message.timestamp()[1]
                found.begin = message.offset() or 0
                if wants(message):
                    found.messages.append(message)
                    if len(found.messages) == messages_max:
                        return found
            # Also without a message: where there are only markers of transactions, the search would stay at one
            # place.
            found.begin = start
            step = min(STEP_OFFSETS_MAX, 4 * step)
        found.is_complete = found.begin <= first
    return found


def _read(consumer: Consumer, start: TopicPartition, end: int, deadline: float) -> list[Message]:
    """Return the messages from an offset up to, not including, `end`."""
    ended: list[int] = []
    messages: list[Message] = []
    consumer.assign([start])
    while not ended:
        some = poll_batch(consumer, 1000, 0.1, lambda topic, partition, offset: ended.append(offset))
        messages += [message for message in some if (message.offset() or 0) < end]
        if some and (some[-1].offset() or 0) >= end - 1:
            break
        # Only silence ends it: as long as messages arrive, Kafka answers, and the step has a bound.
        if not some and not ended and time.monotonic() > deadline:
            raise TimeoutError
    return messages
