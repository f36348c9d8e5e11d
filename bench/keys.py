"""The memory of one materializer as it takes in new keys: as many as RECORDS, each published once.

The log is written as fast as Kafka takes it, so the materializer is always behind and its queues are full. The memory
is what is resident.
"""

import multiprocessing
import random
import time
from typing import NamedTuple

import orjson

from bench.broker import broker
from bench.materialize import materializer
from bench.merging import entered, new_load, order_of
from bench.table import table
from bench.usage import resident_bytes
from sowline.config.kafka_options import kafka_config
from sowline.kafka.clients import exact_producer

LOOK_SECONDS = 0.5
STEPS = 10
FEW, MANY = 2, 32
SECONDS_MAX = 7200.0


class Seen(NamedTuple):
    """A look at the materializer: how many changes it has written, after how long, and its resident memory."""

    changes: int
    seconds: float
    rss_bytes: int


def run(records: int, runs: int) -> str:
    """Measure with few partitions and, with a tenth of the keys, with many; return the table."""
    with broker() as kafka:
        few = _curve(kafka, records, FEW)
        many = _curve(kafka, max(STEPS, records // 10), MANY)
    checkpoints = (
        f"new keys, {FEW} partitions",
        "MiB",
        "peak",
        f"new keys, {MANY} partitions",
        "MiB",
        "peak",
    )
    return table(checkpoints, [(*_cells(few, step), *_cells(many, step)) for step in range(1, STEPS + 1)])


def _cells(curve: list[Seen], step: int) -> tuple[str, str, str]:
    """Return the number of keys, the resident memory at the end, and its maximum until then."""
    mark = curve[-1].changes * step // STEPS
    seen = _at(curve, mark)
    return f"{mark:,}", f"{seen.rss_bytes / 2**20:.0f}", f"{_peak(curve, seen) / 2**20:.0f}"


def _at(curve: list[Seen], mark: int) -> Seen:
    """Return the first look at this many changes or more."""
    return next(seen for seen in curve if seen.changes >= mark)


def _peak(curve: list[Seen], until: Seen) -> int:
    return max(seen.rss_bytes for seen in curve if seen.seconds <= until.seconds)


def _curve(kafka: str, records: int, partitions: int) -> list[Seen]:
    load = new_load(kafka, 0, partitions)
    context = multiprocessing.get_context("spawn")
    writer = context.Process(target=_write, args=(kafka, load.definition.log, records), daemon=True)
    with materializer(load) as entrant, entered(entrant) as processes:
        writer.start()
        began, deadline = time.monotonic(), time.monotonic() + SECONDS_MAX
        curve = [Seen(0, 0.0, resident_bytes(*processes.pids))]
        while curve[-1].changes < records:
            time.sleep(LOOK_SECONDS)
            processes.look(deadline)
            changes = sum(load.cluster.ends(entrant.output, range(partitions)).values()) - partitions
            curve.append(Seen(changes, time.monotonic() - began, resident_bytes(*processes.pids)))
            if len(curve) % 60 == 0:
                print(f"{partitions} partitions: {curve[-1]}", flush=True)
        writer.join()
    load.cluster.delete_topics([load.definition.log, load.definition.changes])
    print(f"{partitions} partitions: {curve[-1]}, {records / curve[-1].seconds:,.0f} records/s", flush=True)
    return curve


def _write(kafka: str, log: str, records: int) -> None:
    """Publish orders, each with its own key."""
    producer, chance = exact_producer(kafka_config(kafka)), random.Random(7)
    for number in range(records):
        while True:
            try:
                producer.produce(log, orjson.dumps(order_of(chance, number)), str(number))
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()
