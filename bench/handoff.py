"""How long a subscriber waits for its records, and for live changes after them; and until a lost client is back.

Records change 2,000 times a second all the while. A snapshot ends with the last record of its group, and is live with
the first change after it. Then all clients lose their connections at one instant, and connect again with the bookmark
of the last message that each has. Each verifies that it misses no change of its record, and gets none twice.
"""

import asyncio
import multiprocessing
import random
import re
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

from bench.broker import broker
from bench.frames import Ask, Reader, connect, request
from bench.table import table
from bench.traffic import at_rate, system
from sowline.kafka.clients import produce

SIZES = (10_000, 100_000, 1_000_000)
RATE = 2_000
"""Changes a second."""

CLIENTS, KEYS = 1_000, 100
SETTLE_SECONDS = 3.0
SECONDS_MAX = 300.0
NOTE = b"n" * 100
_NUMBER = re.compile(rb'"number":([0-9]+)')
_BOOKMARK = re.compile(rb'"bookmark":"([^"]+)"')


class Snapshot(NamedTuple):
    """Seconds from a request to the end of its group, and to the first change after that."""

    whole: float
    live: float


class Follower(Reader):
    """A subscriber that notes when its group ends and when its first change arrives."""

    group_ended = 0.0

    def _take(self, frame: bytes) -> None:
        # What comes soon shares a frame with the answer.
        if not self.answered.done():
            self.answered.set_result(None)
        start = 0
        if not self.group_ended and (start := frame.find(b'"command":"group_end"')) >= 0:
            self.group_ended = time.monotonic()
        if frame.find(b'"command":"publish"', max(start, 0)) >= 0:
            self._take_changes(frame)

    def _take_changes(self, frame: bytes) -> None:
        if not self.finished.done():
            self.finished.set_result(time.monotonic())


class OfOneRecord(Follower):
    """A subscriber of one record, whose changes are numbered. It can reconnect with its bookmark."""

    next_number: int | None = None
    """That of the next change; None before the first."""

    bookmark = ""

    def _take_changes(self, frame: bytes) -> None:
        for number in map(int, _NUMBER.findall(frame)):
            if self.next_number is not None and number != self.next_number:
                raise AssertionError(f"expected change {self.next_number} of a record, got {number}")
            self.next_number = number + 1
        self.bookmark = _BOOKMARK.findall(frame)[-1].decode()
        super()._take_changes(frame)


def run(records: int, runs: int) -> str:
    """Measure snapshots of up to `records` records, each `runs` times, and one loss of all clients."""
    sizes = [size for size in SIZES if size <= records]
    names = [f"orders{size}" for size in sizes]
    topics = ", ".join(f"{{name: {name}, key: /order, partitions: 1}}" for name in [*names, "lost"])
    rows = []
    with (
        broker() as kafka,
        tempfile.TemporaryDirectory() as directory,
        system(kafka, Path(directory), f"topics: [{topics}]") as url,
    ):
        port = int(url.rpartition(":")[2])
        for name, size in zip(names, sizes, strict=True):
            _fill(kafka, name, size)
        for name, size in zip(names, sizes, strict=True):
            with _changing(kafka, name, size):
                found = [asyncio.run(_snapshot(port, name)) for _ in range(runs)]
            whole, live = (statistics.median(one) for one in zip(*found, strict=True))
            rows.append((f"a snapshot of {size:,} records", f"{whole:.2f}", f"{live:.2f}"))
            print(rows[-1], flush=True)
        with _changing(kafka, "lost", KEYS):
            back = sorted(asyncio.run(_lose_all(port)))
    rows += [
        (f"{CLIENTS:,} clients reconnect at once: {whose}", "", f"{seconds:.2f}")
        for whose, seconds in (("half of them", back[len(back) // 2]), ("the last one", back[-1]))
    ]
    head = ("while records change 2,000 times a second", "last record of the snapshot, s", "first change, s")
    return table(head, rows)


async def _snapshot(port: int, topic: str) -> Snapshot:
    ask = Ask(request("sow_and_subscribe", topic, batch_size=1000), b"")
    began = time.monotonic()
    (reader,) = await connect(port, [ask], Follower)
    live = await asyncio.wait_for(reader.finished, SECONDS_MAX)
    reader.close()
    return Snapshot(reader.group_ended - began, live - began)


async def _lose_all(port: int) -> list[float]:
    """Return the seconds after the loss until each client has its first change."""
    filters = [f"/order = {number % KEYS}" for number in range(CLIENTS)]
    asks = [Ask(request("subscribe", "lost", filter=filter), b"") for filter in filters]
    readers = await connect(port, asks, OfOneRecord)
    await asyncio.wait_for(asyncio.gather(*(reader.finished for reader in readers)), SECONDS_MAX)
    await asyncio.sleep(SETTLE_SECONDS)
    lost = time.monotonic()
    for reader in readers:
        reader.close()
    asks = [
        Ask(request("subscribe", "lost", filter=filter, bookmark=reader.bookmark), b"")
        for filter, reader in zip(filters, readers, strict=True)
    ]
    next_numbers = iter([reader.next_number for reader in readers])

    def resumed(ask: Ask, keep: bool) -> OfOneRecord:
        made = OfOneRecord(ask, keep)
        made.next_number = next(next_numbers)
        return made

    back = await connect(port, asks, resumed, at_once=CLIENTS)
    times = await asyncio.wait_for(asyncio.gather(*(reader.finished for reader in back)), SECONDS_MAX)
    for reader in back:
        reader.close()
    return [one - lost for one in times]


@contextmanager
def _changing(kafka: str, topic: str, keys: int) -> Iterator[None]:
    """Change the records of a topic during the block, from another process."""
    context = multiprocessing.get_context("spawn")
    stopped = context.Event()
    process = context.Process(target=_change, args=(kafka, topic, keys, stopped))
    process.start()
    time.sleep(SETTLE_SECONDS)
    try:
        yield
    finally:
        stopped.set()
        process.join()


def _fill(kafka: str, topic: str, keys: int) -> None:
    """Publish each record once, as fast as Kafka takes them."""
    producer = _producer(kafka)
    for key in range(keys):
        produce(producer, topic, _body(key, 0), b"%d" % key)
    producer.flush()


def _change(kafka: str, topic: str, keys: int, stopped: Event) -> None:
    """Publish random records at the rate, until it is stopped."""
    producer, chance, numbers = _producer(kafka), random.Random(7), [0] * keys
    for _ in at_rate(producer, RATE, lambda: not stopped.is_set()):
        key = chance.randrange(keys)
        produce(producer, topic, _body(key, numbers[key]), b"%d" % key)
        numbers[key] += 1
    producer.flush()


def _producer(kafka: str) -> Producer:
    return Producer({"bootstrap.servers": kafka, "linger.ms": 5, "partitioner": "murmur2_random"})


def _body(key: int, number: int) -> bytes:
    return b'{"order":%d,"number":%d,"note":"%b"}' % (key, number, NOTE)
