"""The history of one record, read from Kafka and from memory, next to a plain consumer that reads the same changes.

One record has 200,000 changes, and another one in twenty changes. The query service starts after that, so that its
memory has none of them; then it is sent as many changes as its memory holds.
"""

import json
import statistics
import tempfile
import time
import urllib.request
from pathlib import Path

from confluent_kafka import Producer, TopicPartition

from bench.broker import broker
from bench.service import running
from bench.table import table
from sowline.client.client import Client
from sowline.config.kafka_options import kafka_config
from sowline.kafka.clients import consuming

CHANGES = 200_000
RARE_EVERY = 20
LIMIT = 100
TOPICS = "topics: [{name: orders, key: /id}]\n"
READS = 5


def run(records: int, runs: int) -> str:
    """Read the newest 100 writes of two records; return a table of milliseconds, and of the ratio to the consumer."""
    count = min(records, CHANGES)
    with tempfile.TemporaryDirectory() as directory, broker() as kafka:
        config = Path(directory) / "topics.yaml"
        config.write_text(TOPICS)
        settings = {"SOWLINE_KAFKA": kafka, "SOWLINE_CONFIG": str(config), "SOWLINE_DATA_DIR": directory}
        with running("materializer", settings):
            with running("query_service", settings) as service:
                _publish(kafka, count)
                _wait_for(service.url, count)
            plain = statistics.median(_plain(kafka, count) for _ in range(runs))
            with running("query_service", settings) as service:
                _wait_for(service.url, count)
                rows = [(f"from Kafka: {name}", _read(service.url, key, runs)) for name, key in _KEYS]
                _publish(kafka, count // RARE_EVERY)
                _wait_for(service.url, count + count // RARE_EVERY)
                rows += [(f"from memory: {name}", _read(service.url, key, runs)) for name, key in _KEYS]
    lines = [(name, f"{ms:,.0f}", f"{ms / plain:.3f}") for name, ms in rows]
    reference = ("a plain consumer that reads every change", f"{plain:,.0f}", "1")
    return table((f"newest {LIMIT} writes of {count:,} changes", "ms", "ratio"), [reference, *lines])


_KEYS = (("a record with most of the changes", "1"), ("a record with a twentieth of them", "2"))


def _publish(kafka: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 5})
    for number in range(count):
        body = {"id": 2 if number % RARE_EVERY == 0 else 1, "number": number, "text": "x" * 100}
        producer.produce("orders", json.dumps(body).encode())
        producer.poll(0)
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()


def _wait_for(url: str, count: int) -> None:
    while True:
        try:
            with Client(url) as client:
                (topic,) = client.topics()["topics"]
            if topic["bookmark"].endswith(f"@{count - 1}") and topic["lag"] == 0:
                return
        except Exception:
            pass
        time.sleep(0.2)


def _plain(kafka: str, count: int) -> float:
    began = time.perf_counter()
    read = 0
    with consuming(kafka_config(kafka)) as consumer:
        consumer.assign([TopicPartition("orders.changes", 0, 0)])
        while read < count:
            read += len(consumer.consume(1000, 1))
    return (time.perf_counter() - began) * 1000


def _read(url: str, key: str, runs: int) -> float:
    times = []
    for _ in range(runs * READS):
        began = time.perf_counter()
        path = f"{url}/v1/topics/orders/records/{key}/timeline?limit={LIMIT}"
        with urllib.request.urlopen(path, timeout=60) as answer:
            found = json.loads(answer.read())
        times.append((time.perf_counter() - began) * 1000)
        if len(found["writes"]) != LIMIT:
            raise RuntimeError(f"expected {LIMIT} writes, got {len(found['writes'])}")
    return statistics.median(times)
