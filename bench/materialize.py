"""The materializer's throughput, as a ratio to a raw consume-and-produce loop over the same log.

The job: orders over RECORDS / 10 keys. Every key is published once; of the rest half are full publishes of about
170 bytes and half are deltas of one or two fields. Each record leads to one change with the merged body.
"""

import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson

from bench.broker import broker
from sowline.cluster import Cluster
from sowline.command import command_headers
from sowline.kafka import exact_producer, kafka_config
from sowline.topics import TopicDefinition

PARTITIONS = 2
SECONDS_MAX = 300.0


@dataclass(frozen=True)
class Figure:
    """One measured run: records a second of wall time, and CPU microseconds a record."""

    rate: float
    cpu_us: float


def run(records: int, runs: int) -> None:
    """Measure both by turns and print medians and ratios."""
    with broker() as bootstrap:
        definition = TopicDefinition(
            name=f"bench-{uuid.uuid4().hex[:8]}", key=("/order",), partitions=PARTITIONS
        )
        cluster = Cluster(kafka_config(bootstrap))
        cluster.ensure_topic(definition)
        fill(bootstrap, definition, records)
        raw, sow = [], []
        for _ in range(runs):
            raw.append(measure_raw(bootstrap, cluster, definition, records))
            sow.append(measure_materializer(bootstrap, definition, records))
    report(records, raw, sow)


def fill(bootstrap: str, definition: TopicDefinition, records: int) -> None:
    """Write the load, the same every time."""
    chance = random.Random(7)
    producer = exact_producer(kafka_config(bootstrap))
    delta = command_headers("delta_publish")
    keys = max(1, records // 10)
    for number in range(records):
        key = number if number < keys else chance.randrange(keys)
        is_delta = number >= keys and chance.random() < 0.5
        body = _delta(chance, key) if is_delta else order_of(chance, key)
        producer.produce(
            definition.log,
            orjson.dumps(body),
            str(key),
            headers=delta if is_delta else None,  # type: ignore[arg-type]
        )
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def order_of(chance: random.Random, key: int) -> dict[str, object]:
    """An order of about 170 bytes."""
    return {
        "order": key,
        "customer": f"customer-{chance.randrange(5000):05d}",
        "ticker": chance.choice(("MSFT", "IBM", "ORCL", "SAP", "AMZN")),
        "side": chance.choice(("buy", "sell")),
        "status": "new",
        "qty": chance.randrange(1, 10_000),
        "price": round(chance.uniform(1, 500), 2),
        "note": "x" * 40,
    }


def _delta(chance: random.Random, key: int) -> dict[str, object]:
    delta: dict[str, object] = {"order": key, "qty": chance.randrange(1, 10_000)}
    return delta | ({"status": "filled"} if chance.random() < 0.5 else {})


def measure_raw(bootstrap: str, cluster: Cluster, definition: TopicDefinition, records: int) -> Figure:
    """Copy the log to a topic of its own with the raw loop."""
    target = TopicDefinition(name=f"raw-{uuid.uuid4().hex[:8]}", key=("/order",), partitions=PARTITIONS)
    cluster.ensure_topic(target)
    command = [sys.executable, "-m", "bench.raw_loop", bootstrap, definition.log, target.log]
    process = [*command, str(PARTITIONS), str(records)]
    return _measure(process, {}, records, lambda: _total(cluster, target.log), stop=False)


def measure_materializer(bootstrap: str, definition: TopicDefinition, records: int) -> Figure:
    """Run a materializer with an empty store over the same log, into a changes topic of its own."""
    cluster = Cluster(kafka_config(bootstrap))
    name = definition.name
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "topics.yaml"
        config.write_text(f"topics:\n  - {{name: {name}, key: [/order], partitions: {PARTITIONS}}}\n")
        cluster.delete_topics([definition.changes])
        cluster.ensure_topic(definition)
        environment = {
            "SOWLINE_KAFKA": bootstrap,
            "SOWLINE_CONFIG": str(config),
            "SOWLINE_DATA_DIR": directory,
            "SOWLINE_GROUP": uuid.uuid4().hex,
        }
        command = [sys.executable, "-m", "materializer"]
        return _measure(
            command, environment, records, lambda: _total(cluster, definition.changes) - PARTITIONS, stop=True
        )


def _total(cluster: Cluster, topic: str) -> int:
    return sum(cluster.ends(topic, range(PARTITIONS)).values())


def _measure(
    command: list[str], environment: dict[str, str], records: int, written: Callable[[], int], *, stop: bool
) -> Figure:
    """Run a process until it has written all records.

    The rate counts from the first of them that is seen, so that start-up is not in it; the CPU is all there is.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(command, env=os.environ | environment)
    deadline = time.monotonic() + SECONDS_MAX
    first, began = 0, 0.0
    while (now := written()) < records:
        if now > 0 and not first:
            first, began = now, time.monotonic()
        if process.poll() not in (None, 0) or time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"{' '.join(command)} did not get through its load")
        time.sleep(0.02)
    seconds = time.monotonic() - began
    if stop:
        process.terminate()
    process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Figure((records - first) / seconds, cpu / records * 1e6)


def report(records: int, raw: list[Figure], sow: list[Figure]) -> None:
    """Print the medians and how they compare."""
    rows = (("raw consume and produce", raw), ("materializer", sow))
    print(
        f"{records:,} records, {PARTITIONS} partitions, one process each; start-up is in the CPU, not in the rate"
    )
    for name, figures in rows:
        rate, cpu = (statistics.median(getattr(f, field) for f in figures) for field in ("rate", "cpu_us"))
        print(f"  {name:26} {rate:>10,.0f} records/s  {cpu:6.1f} us CPU a record")
    rate = statistics.median(f.rate for f in sow) / statistics.median(f.rate for f in raw)
    cpu = statistics.median(f.cpu_us for f in sow) / statistics.median(f.cpu_us for f in raw)
    print(f"  ratio: {rate:.2f} of the raw rate, {cpu:.1f} times its CPU")
