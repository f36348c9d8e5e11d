"""Many records that expire at one instant: how long until the last is sent, and the lag of live traffic."""

import multiprocessing
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import orjson

from bench.broker import broker
from bench.traffic import Lags, Traffic, system
from sowline.client.client import Client
from sowline.config.kafka_options import kafka_config
from sowline.kafka.clients import exact_producer

RATE = 200
"""Live commands a second."""
SECONDS = 15.0
AHEAD_SECONDS = 30.0
"""From the first record written until all are due."""
PARTITIONS = 2
TOPICS = f"topics: [{{name: orders, key: /id, partitions: {PARTITIONS}, expiration: enabled}}]\n"
EXPIRING = 100_000


def run(records: int, runs: int) -> None:
    """Measure once: the load is `records`, at most 100,000."""
    count = min(records, EXPIRING)
    with broker() as kafka, tempfile.TemporaryDirectory() as name, system(kafka, Path(name), TOPICS) as url:
        _report(count, *_measure(kafka, url, count))


def _measure(kafka: str, url: str, count: int) -> tuple[float, float, dict[str, Lags]]:
    """Return the seconds until the first and the last record were reported as expired, and the lags by phase."""
    context = multiprocessing.get_context("spawn")
    with Traffic(kafka, "orders", url, RATE) as traffic:
        traffic.fresh(SECONDS / 3)
        alone = traffic.fresh(SECONDS)
        due = time.time() + AHEAD_SECONDS
        ours, theirs = context.Pipe()
        process = context.Process(target=_watch, args=(url, count, theirs))
        process.start()
        ours.recv()
        _write(kafka, count, due)
        waiting = traffic.fresh(max(1.0, due - time.time() - 1))
        time.sleep(max(0.0, due - time.time()))
        traffic.lags.clear()
        first, last = ours.recv()
        meanwhile = traffic.taken()
        process.join()
    return first - due, last - due, {"alone": alone, "while they wait": waiting, "meanwhile": meanwhile}


def _write(kafka: str, count: int, due: float) -> None:
    producer = exact_producer(kafka_config(kafka))
    for number in range(count):
        headers = [("sow.expiration", f"{due - time.time():.3f}".encode())]
        body = orjson.dumps({"id": number, "qty": number, "note": "x" * 100})
        producer.produce("orders", body, str(number), headers=headers)  # type: ignore[arg-type]
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush()


def _watch(url: str, count: int, pipe: Connection) -> None:
    """Report when the first and the last record are reported as expired."""
    with Client(url) as client:
        stream = client.sow_and_subscribe("orders", filter="/id >= 0", options="oof")
        pipe.send(next(stream).command)
        sent = first = 0.0
        for message in stream:
            if message.command == "oof" and message.reason == "expired":
                first = first or time.time()
                sent += 1
                if sent == count:
                    break
        pipe.send((first, time.time()))


def _report(count: int, first: float, last: float, lags: dict[str, Lags]) -> None:
    print(f"\n{count:,} records due at one instant, {PARTITIONS} partitions, {RATE} live commands/s beside")
    print(
        f"  the first is sent after {first:.2f} s, the last after {last:.2f} s: {count / last:,.0f} records/s"
    )
    for name, lag in lags.items():
        print(f"  live {name:16} p50 {lag.p50:6.1f} ms   p99 {lag.p99:6.1f} ms   ({lag.messages} messages)")
