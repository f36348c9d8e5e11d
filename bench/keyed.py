"""From Kafka to ten thousand clients with one key each: Lightstreamer's published load test at this machine's size.

Records of 1 KB are published to the log at a rate, for keys by chance. A materializer and a query service, each a
process of its own, take them to clients that subscribe to one key each. Publisher, broker, services and clients share
the cores of this machine. Each rate is held for some seconds; it is sustained if all messages have arrived soon
after the last was published. Lightstreamer's clients share 40 keys, so that each record goes to many of them. In a
harder variant each client has a key of its own.

Publisher and clients do as little as they can for a message, because they share the cores with what is measured. Yet
each client verifies that it gets all messages of its key, in order.
"""

import random
import statistics
import tempfile
import time
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Producer

from bench.broker import broker
from bench.frames import request
from bench.listeners import Listeners
from bench.service import Running, running, until
from bench.table import table
from bench.traffic import at_rate
from sowline.config.kafka_options import kafka_config
from sowline.config.topic_definition import define_topic
from sowline.kafka.admin import Cluster

CLIENTS = 10_000
SECONDS = 10.0
LATE_SECONDS = 1.0
"""How long after the last publish the last message may come, for the rate to be sustained."""

PARTITIONS = 4
RECORD_BYTES = 1000
SECONDS_MAX = 120.0
TOPIC = "prices"


class Shape(NamedTuple):
    """How many keys the clients share, and the messages a second that all of them together are to get."""

    keys: int
    rates: tuple[int, ...]

    @property
    def clients_a_key(self) -> int:
        """How many clients get each record."""
        return CLIENTS // self.keys


SHAPES = (
    Shape(40, (25_000, 50_000, 100_000, 150_000, 200_000, 250_000, 300_000, 350_000)),
    Shape(CLIENTS, (5_000, 10_000, 15_000, 20_000, 25_000, 30_000, 35_000, 40_000)),
)


class Held(NamedTuple):
    """What came of one rate."""

    shape: Shape
    rate: int
    sent: int
    """Messages to all clients."""
    late_seconds: float
    mean_ms: float
    p99_ms: float
    service_us: float
    """CPU of the query service for a message."""


def run(records: int, runs: int) -> str:
    """Raise the rate until it is not sustained; return the table."""
    del records, runs
    with ExitStack() as stack:
        kafka = stack.enter_context(broker())
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environment = _environment(kafka, directory)
        stack.enter_context(running("materializer", environment))
        service = stack.enter_context(running("query_service", environment))
        until(service.has_started)
        found = _measure(kafka, service)
    rows = [
        (
            f"{one.shape.keys:,}",
            f"{one.rate:,}",
            f"{one.sent / SECONDS:,.0f}",
            f"{one.late_seconds:.1f}",
            f"{one.mean_ms:,.0f}",
            f"{one.p99_ms:,.0f}",
            f"{one.service_us:.1f}",
        )
        for one in found
    ]
    head = (
        "keys",
        "messages/s",
        "sent/s",
        "last one after, s",
        "mean, ms",
        "p99, ms",
        "µs CPU of the service",
    )
    return f"{CLIENTS:,} clients, {RECORD_BYTES:,} bytes a record.\n\n{table(head, rows)}"


def _environment(kafka: str, directory: Path) -> dict[str, str]:
    Cluster(kafka_config(kafka)).ensure_topic(
        define_topic(name=TOPIC, key=("/order",), partitions=PARTITIONS)
    )
    config = directory / "topics.yaml"
    config.write_text(f"topics:\n  - {{name: {TOPIC}, key: [/order], partitions: {PARTITIONS}}}\n")
    return {
        "SOWLINE_KAFKA": kafka,
        "SOWLINE_CONFIG": str(config),
        "SOWLINE_DATA_DIR": str(directory / "state"),
        "SOWLINE_SESSIONS_MAX": str(CLIENTS + 100),
    }


def _measure(kafka: str, service: Running) -> list[Held]:
    found: list[Held] = []
    port = int(service.url.rpartition(":")[2])
    for shape in SHAPES:
        listeners = Listeners(port, [_wanted(number % shape.keys) for number in range(CLIENTS)])
        for rate in shape.rates:
            found.append(_held(kafka, service, listeners, shape, rate))
            print(*found[-1], flush=True)
            if found[-1].late_seconds > LATE_SECONDS:
                break
        listeners.close()
    return found


def _wanted(key: int) -> bytes:
    return request("subscribe", TOPIC, filter=f"/order = {key}")


def _held(kafka: str, service: Running, listeners: Listeners, shape: Shape, rate: int) -> Held:
    """Publish at a rate, and wait for all messages."""
    listeners.begin()
    before = service.usage().cpu_seconds
    context = get_context("spawn")
    here, there = context.Pipe()
    publisher = context.Process(
        target=_publish, args=(kafka, shape.keys, rate / shape.clients_a_key, there), daemon=True
    )
    publisher.start()
    numbers, ended = here.recv()
    sent = sum(numbers) * shape.clients_a_key
    listeners.reached(sent, SECONDS_MAX)
    cpu = service.usage().cpu_seconds - before
    publisher.join()
    if listeners.counts() != numbers * shape.clients_a_key:
        raise AssertionError("expected for each client as many messages as were published for its key")
    times = sorted(listeners.seconds)
    return Held(
        shape,
        rate,
        sent,
        max(0.0, listeners.last - ended),
        statistics.mean(times) * 1e3,
        times[len(times) * 99 // 100] * 1e3,
        cpu / sent * 1e6,
    )


def _publish(kafka: str, keys: int, rate: float, done: Any) -> None:
    """Publish records for `SECONDS`, then report how many of each key, and when the last was."""
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 5, "partitioner": "murmur2_random"})
    producer.list_topics(timeout=10)
    notes = "n" * (RECORD_BYTES - 70)
    names, numbers = [str(number) for number in range(keys)], [0] * keys
    chance, end = random.Random(rate).random, time.monotonic() + SECONDS
    for now in at_rate(producer, rate, lambda: time.monotonic() < end):
        key = int(chance() * keys)
        body = f'{{"order":{key},"sent":{now:.6f},"number":{numbers[key]},"notes":"{notes}"}}'
        producer.produce(TOPIC, body, names[key])
        numbers[key] += 1
    producer.flush()
    done.send((numbers, time.monotonic()))
