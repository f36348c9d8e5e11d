"""From Kafka to ten thousand clients, each with one key: Lightstreamer's published load test at this machine's size.

Records of 1 KB are published to the log at a rate, for keys by chance. A materializer and a query service, each a
process of its own, take them to clients that subscribe to one key each. Publisher, broker, services and clients share
the cores of this machine. Each rate is held for some seconds; it is sustained if all messages have arrived soon
after the last was published.
"""

import asyncio
import random
import statistics
import tempfile
import time
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from confluent_kafka import Producer

from bench.broker import broker
from bench.connections import Arrivals, connected
from bench.service import Running, running, until
from bench.table import table
from sowline.config.kafka_options import kafka_config
from sowline.config.topics import TopicDefinition
from sowline.kafka.admin import Cluster

CLIENTS = 10_000
RATES = (5_000, 10_000, 15_000, 20_000, 25_000, 30_000)
SECONDS = 10.0
LATE_SECONDS = 1.0
"""How long after the last publish the last message may come, for the rate to be sustained."""

PARTITIONS = 4
RECORD_BYTES = 1000
TICK_SECONDS = 0.005
TOPIC = "prices"


class Held(NamedTuple):
    """What came of one rate."""

    rate: int
    published: int
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
        found = asyncio.run(_measure(kafka, service))
    rows = [
        (
            f"{one.rate:,}",
            f"{one.published / SECONDS:,.0f}",
            f"{one.late_seconds:.1f}",
            f"{one.mean_ms:,.0f}",
            f"{one.p99_ms:,.0f}",
            f"{one.service_us:.1f}",
        )
        for one in found
    ]
    head = ("messages/s", "published/s", "last one after, s", "mean, ms", "p99, ms", "µs CPU of the service")
    return f"{CLIENTS:,} clients, {RECORD_BYTES:,} bytes a record.\n\n{table(head, rows)}"


def _environment(kafka: str, directory: Path) -> dict[str, str]:
    Cluster(kafka_config(kafka)).ensure_topic(
        TopicDefinition(name=TOPIC, key=("/order",), partitions=PARTITIONS)
    )
    config = directory / "topics.yaml"
    config.write_text(f"topics:\n  - {{name: {TOPIC}, key: [/order], partitions: {PARTITIONS}}}\n")
    return {
        "SOWLINE_KAFKA": kafka,
        "SOWLINE_CONFIG": str(config),
        "SOWLINE_DATA_DIR": str(directory / "state"),
        "SOWLINE_SESSIONS_MAX": str(CLIENTS + 100),
    }


async def _measure(kafka: str, service: Running) -> list[Held]:
    arrivals, found = Arrivals(), []
    port = int(service.url.rpartition(":")[2])
    clients = await connected(port, range(CLIENTS), arrivals, TOPIC)
    for rate in RATES:
        found.append(await _held(kafka, service, arrivals, rate))
        print(*found[-1], flush=True)
        if found[-1].late_seconds > LATE_SECONDS:
            break
    for client in clients:
        client.close()
    return found


async def _held(kafka: str, service: Running, arrivals: Arrivals, rate: int) -> Held:
    """Publish at a rate, and wait for all messages."""
    arrivals.begin()
    before = service.usage().cpu_seconds
    context = get_context("spawn")
    here, there = context.Pipe()
    publisher = context.Process(target=_publish, args=(kafka, rate, there), daemon=True)
    publisher.start()
    published, ended = await asyncio.to_thread(here.recv)
    await arrivals.reached(published)
    cpu = service.usage().cpu_seconds - before
    publisher.join()
    times = sorted(arrivals.seconds)
    return Held(
        rate,
        published,
        max(0.0, arrivals.last - ended),
        statistics.mean(times) * 1e3,
        times[len(times) * 99 // 100] * 1e3,
        cpu / published * 1e6,
    )


def _publish(kafka: str, rate: int, done: Any) -> None:
    """Publish records for `SECONDS`, then report how many, and when the last was."""
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 5, "partitioner": "murmur2_random"})
    producer.list_topics(timeout=10)
    chance, began, sent = random.Random(rate), time.monotonic(), 0
    while (now := time.monotonic()) - began < SECONDS:
        for _ in range(int((now - began) * rate) - sent):
            number = chance.randrange(CLIENTS)
            body = orjson.dumps(
                {"order": number, "sent": now, "change": sent, "notes": "n" * (RECORD_BYTES - 70)}
            )
            producer.produce(TOPIC, body, str(number))
            sent += 1
        producer.poll(0)
        time.sleep(TICK_SECONDS)
    producer.flush()
    done.send((sent, time.monotonic()))
