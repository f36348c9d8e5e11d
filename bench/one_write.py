"""How long one write takes to the client that it concerns, by the number of clients with other filters.

Each client has its own connection and filter: an equality, or a LIKE that no index answers. One write at a time
matches one of them. The time counts from the publish to Kafka until the client has the message.
"""

import statistics
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer

from bench.broker import broker
from bench.frames import request
from bench.listeners import Listeners
from bench.table import table
from bench.traffic import system

SIZES = (10, 100, 1_000, 10_000)
WRITES = 100
PAUSE_SECONDS = 0.02
SECONDS_MAX = 30.0
FILTERS = {"equality: `/order = 42`": "/order = {0}", "LIKE: `/name LIKE '-00042$'`": "/name LIKE '-{0:05}$'"}


def run(records: int, runs: int) -> str:
    """Measure each number of clients up to `records`; return the table."""
    del runs
    sizes = [size for size in SIZES if size <= records]
    topics = "topics: [{name: orders, key: /order, partitions: 1}]"
    rows = []
    with (
        broker() as kafka,
        tempfile.TemporaryDirectory() as directory,
        system(kafka, Path(directory), topics) as url,
    ):
        port = int(url.rpartition(":")[2])
        for name, filter in FILTERS.items():
            found = [_measure(kafka, port, filter, size) for size in sizes]
            rows.append((name, *(f"{one:.1f}" for one in found)))
            print(rows[-1], flush=True)
    return table(
        ("median in ms, by the number of clients with such a filter", *(f"{size:,}" for size in sizes)), rows
    )


def _measure(kafka: str, port: int, filter: str, clients: int) -> float:
    requests = [request("subscribe", "orders", filter=filter.format(number)) for number in range(clients)]
    listeners = Listeners(port, requests)
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 0})
    producer.list_topics(timeout=10)
    step = max(1, clients // WRITES)
    for nth in range(WRITES):
        number = nth * step % clients
        marks = f'"sent":{time.monotonic():.6f},"number":{nth * step // clients}'
        body = f'{{"order":{number},"name":"customer-{number:05}",{marks}}}'
        producer.produce("orders", body, str(number))
        producer.flush()
        listeners.reached(nth + 1, SECONDS_MAX)
        time.sleep(PAUSE_SECONDS)
    listeners.close()
    return statistics.median(listeners.seconds) * 1e3
