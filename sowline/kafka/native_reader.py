"""Reads a range of a partition with the native core: a message becomes an object of Python only when one asks for it.

The native core calls the librdkafka that Python's client has loaded, with the same settings. Where it can't, Python's
reader does the same, and the log has the reason.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, Message, cimpl

from sowline.config.kafka_options import KafkaConfig
from sowline.kafka.clients import REPORT_ENDS, judge, plain_options, read_range
from sowline.runtime.library_logs import LIBRDKAFKA, SYSLOG_LEVELS

log = structlog.get_logger()

BATCH_MAX: Final = 10_000
"""The number of messages taken at once. Each batch takes Python's lock a few times, for which threads wait."""

WAIT_MS: Final = 100

_OF_PYTHON: Final = frozenset({"logger", "sasl.oauthbearer.metadata.authentication.type"})
"""Settings that Python's client acts on itself, though their values may be texts: with the second one, it fetches the
tokens of some clouds."""


def read_natively(
    native: ModuleType,
    kafka: KafkaConfig,
    topic: str,
    partition: int,
    start: int,
    end: int,
    idle: Callable[[], None] = lambda: None,
) -> Iterator[Sequence[Message]]:
    """Yield what `read_range` does, in batches of the native reader, or lists of messages if that can't read them.

    `native` is the module of the native core.
    """
    if start >= end:
        return
    try:
        reader = _reader(native, plain_options(kafka, REPORT_ENDS), topic, partition, start)
    except OSError as error:
        # Python's client takes the same settings, or raises what callers know.
        log.info("Python reads a load", topic=topic, partition=partition, why=str(error))
        yield from read_range(kafka, topic, partition, start, end, idle=idle)
        return
    try:
        yield from _batches(reader, end, idle)
    finally:
        # Before it is closed: its last lines often say why it failed, and would be lost.
        _pass_on(reader.lines())
        reader.close()


def _reader(native: ModuleType, options: Mapping[str, Any], topic: str, partition: int, start: int) -> Any:
    """Return a native reader; raise OSError if these options rule it out."""
    refused = refused_setting(options)
    if refused is not None:
        raise OSError(f"the native core does not take the setting {refused}")
    # Python's client passes values on in the same way.
    settings = [(name, str(value)) for name, value in options.items()]
    return native.KafkaReader(cimpl.__file__, settings, topic, partition, start)


def refused_setting(options: Mapping[str, Any]) -> str | None:
    """Return the name of the first option that librdkafka alone can't use; None if it can use them all."""
    for name, value in options.items():
        if name in _OF_PYTHON or not isinstance(value, str | int | float):
            return name
    return None


def _batches(reader: Any, end: int, idle: Callable[[], None]) -> Iterator[Sequence[Message]]:
    ended = False
    while not ended:
        batch = reader.batch(BATCH_MAX, WAIT_MS, end)
        _pass_on(batch.lines)
        for message in batch.failures:
            if message.error().code() == KafkaError._PARTITION_EOF:
                ended = True
            else:
                judge(message)
        ended = ended or (batch.next_offset or 0) >= end
        if batch:
            yield batch
        elif not ended:
            idle()
        # Its messages no longer count as waiting for the client: without this, two batches would be in memory.
        del batch


def _pass_on(lines: Sequence[tuple[int, str]]) -> None:
    """Pass the client's log lines on to Python's logging, as Python's client does when it is polled."""
    for level, line in lines:
        logging.getLogger(LIBRDKAFKA).log(SYSLOG_LEVELS[level], "%s", line)
