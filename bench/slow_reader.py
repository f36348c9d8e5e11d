"""The cost of one slow subscriber to three others with the same query: rate and delay next to a run without it.

Records change 2,000 times a second, and each change goes to all four. The fourth reads as fast as the others, takes
some time for each message, or reads nothing any more.
"""

import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Producer

from bench.broker import broker
from bench.frames import HANDSHAKE, frame_of_client, request
from bench.listeners import Listeners
from bench.table import medians_of, table
from bench.traffic import at_rate, system

RATE = 2_000
SECONDS = 15.0
OTHERS = 3
KEYS = 100
RECORD_BYTES = 1000
SECONDS_MAX = 60.0
RECEIVED_BYTES = 4096
TOPICS = "topics: [{name: prices, key: /order, partitions: 1}]"
REQUEST = request("subscribe", "prices")


class Fourth(NamedTuple):
    """The behavior of the fourth subscriber: `seconds` for each message, None if it stops reading."""

    name: str
    seconds: float | None


QUICK = Fourth("reads as fast as the others", 0.0)
FOURTHS = (
    QUICK,
    Fourth("takes 2 ms per message", 0.002),
    Fourth("takes 20 ms per message", 0.02),
    Fourth("stops", None),
)


class Others(NamedTuple):
    """The messages a second of the other three, and the milliseconds from the publish."""

    rate: float
    p50: float
    p99: float


def run(records: int, runs: int) -> str:
    """Measure each in turn; return the table."""
    del records
    found: dict[Fourth, list[Others]] = {fourth: [] for fourth in FOURTHS}
    with (
        broker() as kafka,
        tempfile.TemporaryDirectory() as directory,
        system(kafka, Path(directory), TOPICS) as url,
    ):
        port = int(url.rpartition(":")[2])
        for _ in range(runs):
            for fourth, results in found.items():
                results.append(_measure(kafka, port, fourth))
                print(fourth.name, *results[-1], flush=True)
    middle = {
        fourth: sorted(results, key=lambda one: one.p99)[len(results) // 2]
        for fourth, results in found.items()
    }
    quick = middle[QUICK]
    rows = [
        (
            f"the fourth {fourth.name}",
            f"{one.rate:,.0f}",
            f"{one.rate / quick.rate:.2f}",
            f"{one.p50:.1f}",
            f"{one.p99:.1f}",
            f"{one.p99 / quick.p99:.2f}",
        )
        for fourth, one in middle.items()
    ]
    head = ("", "messages/s to the others", "ratio to row 1", "p50, ms", "p99, ms", "ratio to row 1")
    return f"{medians_of(runs).capitalize()}, by their p99.\n\n{table(head, rows)}"


def _measure(kafka: str, port: int, fourth: Fourth) -> Others:
    listeners = Listeners(port, [REQUEST] * OTHERS)
    context = get_context("spawn")
    here, there = context.Pipe()
    with _reading(port, fourth):
        publisher = context.Process(target=_publish, args=(kafka, there), daemon=True)
        publisher.start()
        sent, ended = here.recv()
        listeners.reached(sent * OTHERS, SECONDS_MAX)
        publisher.join()
    times, late = sorted(listeners.seconds), max(0.0, listeners.last - ended)
    listeners.close()
    return Others(
        len(times) / (SECONDS + late), *(times[len(times) * part // 100] * 1e3 for part in (50, 99))
    )


@contextmanager
def _reading(port: int, fourth: Fourth) -> Iterator[None]:
    """Run the fourth subscriber in another process."""
    context = get_context("spawn")
    begun, ended = context.Event(), context.Event()
    process = context.Process(target=_read, args=(port, fourth.seconds, begun, ended), daemon=True)
    process.start()
    begun.wait()
    try:
        yield
    finally:
        ended.set()
        process.kill()
        process.join()


def _read(port: int, seconds: float | None, begun: Event, ended: Event) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(HANDSHAKE + frame_of_client(REQUEST))
        received = b""
        while b'"status":"success"' not in received:
            received += connection.recv(RECEIVED_BYTES)
        begun.set()
        while not ended.is_set():
            if seconds is None:
                time.sleep(1)
            else:
                time.sleep(seconds * connection.recv(RECEIVED_BYTES).count(b'"sids":['))


def _publish(kafka: str, done: Any) -> None:
    """Publish changes for `SECONDS`, then say how many, and when the last was."""
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 1, "partitioner": "murmur2_random"})
    producer.list_topics(timeout=10)
    note, end, sent = "n" * (RECORD_BYTES - 70), time.monotonic() + SECONDS, 0
    for now in at_rate(producer, RATE, lambda: time.monotonic() < end):
        body = f'{{"order":{sent % KEYS},"sent":{now:.6f},"number":{sent},"note":"{note}"}}'
        producer.produce("prices", body, str(sent % KEYS))
        sent += 1
    producer.flush()
    done.send((sent, time.monotonic()))
