"""How long a subscriber waits for its records, and for live changes behind them; and until a lost client is back.

Records change 2,000 times a second all the while. A snapshot is over with the last record of its group, and live with
the first change behind it. Then all clients lose their connections at one instant, and connect again
with the bookmark of the last message that each has. Each checks that it misses no change of its record, and gets none
twice.
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

import orjson
from confluent_kafka import Producer

from bench.broker import broker
from bench.frames import Ask, Reader, connect
from bench.table import table
from bench.traffic import system
from sowline.kafka.clients import produce

SIZES = (10_000, 100_000, 1_000_000)
RATE = 2_000
"""Changes a second."""

CLIENTS, KEYS = 1_000, 100
TICK_SECONDS = 0.005
SETTLE_SECONDS = 3.0
SECONDS_MAX = 300.0
NOTE = "n" * 100
_NUMBER = re.compile(rb'"number":([0-9]+)')
_BOOKMARK = re.compile(rb'"bookmark":"([^"]+)"')


class Snapshot(NamedTuple):
    """Seconds from a request to the end of its group, and to the first change behind that."""

    whole: float
    live: float


class Follower(Reader):
    """A subscriber that notes when its group ends, when changes come, and the numbers of its record."""

    def __init__(self, ask: Ask, keep: bool) -> None:
        super().__init__(ask, keep)
        self.group_ended = 0.0
        self.next_number: int | None = None
        """That of the next change; None before the first."""
        self.bookmark = ""

    def _take(self, frame: bytes) -> None:
        # What comes soon shares a frame with the answer.
        if not self.answered.done():
            self.answered.set_result(None)
        start = 0
        if not self.group_ended and (start := frame.find(b'"command":"group_end"')) >= 0:
            self.group_ended = time.monotonic()
        if frame.find(b'"command":"publish"', max(start, 0)) < 0 or not self._follows(frame):
            return
        if not self.finished.done():
            self.finished.set_result(time.monotonic())

    def _follows(self, frame: bytes) -> bool:
        """Note the changes of a frame. Raise if one of the record is missing or comes again."""
        self.bookmark = _BOOKMARK.findall(frame)[-1].decode()
        return True


class Resumed(Follower):
    """A subscriber of one record."""

    def _follows(self, frame: bytes) -> bool:
        for number in map(int, _NUMBER.findall(frame)):
            if self.next_number is not None and number != self.next_number:
                raise AssertionError(f"expected change {self.next_number} of a record, got {number}")
            self.next_number = number + 1
        return super()._follows(frame)


def run(records: int, runs: int) -> str:
    """Measure snapshots of up to `records` records, each `runs` times, and one loss of all clients."""
    sizes = [size for size in SIZES if size <= records]
    names = [f"orders{size}" for size in sizes]
    topics = ", ".join(f"{{name: {name}, key: /order, partitions: 1}}" for name in [*names, "lost"])
    rows = []
    with broker() as kafka, tempfile.TemporaryDirectory() as directory:
        with system(kafka, Path(directory), f"topics: [{topics}]") as url:
            port = int(url.rpartition(":")[2])
            for name, size in zip(names, sizes, strict=True):
                _publish(kafka, name, size, changes=size)
            for name, size in zip(names, sizes, strict=True):
                with _changing(kafka, name, size):
                    found = [asyncio.run(_snapshot(port, name)) for _ in range(runs)]
                whole, live = (statistics.median(one) for one in zip(*found, strict=True))
                rows.append((f"a snapshot of {size:,} records", f"{whole:.2f}", f"{live:.2f}"))
                print(rows[-1], flush=True)
            with _changing(kafka, "lost", KEYS):
                back = sorted(asyncio.run(_lose_all(port)))
        median, last = back[len(back) // 2], back[-1]
        rows.append((f"{CLIENTS:,} clients come back at once: half of them", "", f"{median:.2f}"))
        rows.append((f"{CLIENTS:,} clients come back at once: the last one", "", f"{last:.2f}"))
    head = ("while records change 2,000 times a second", "last record of the snapshot, s", "first change, s")
    return table(head, rows)


async def _snapshot(port: int, topic: str) -> Snapshot:
    ask = Ask(_request("sow_and_subscribe", topic, batch_size=1000), b"")
    began = time.monotonic()
    (reader,) = await connect(port, [ask], Follower)
    live = await asyncio.wait_for(reader.finished, SECONDS_MAX)
    reader.close()
    return Snapshot(reader.group_ended - began, live - began)


async def _lose_all(port: int) -> list[float]:
    """Return the seconds after the loss until each client has its first change."""
    keys = [number % KEYS for number in range(CLIENTS)]
    readers = await connect(port, [Ask(_request("subscribe", "lost", key), b"") for key in keys], Resumed)
    await asyncio.wait_for(asyncio.gather(*(reader.finished for reader in readers)), SECONDS_MAX)
    await asyncio.sleep(SETTLE_SECONDS)
    lost = time.monotonic()
    for reader in readers:
        reader.close()
    asks = [
        Ask(_request("subscribe", "lost", key, bookmark=reader.bookmark), b"")
        for key, reader in zip(keys, readers, strict=True)
    ]
    expected = {id(ask): reader.next_number for ask, reader in zip(asks, readers, strict=True)}

    def resumed(ask: Ask, keep: bool) -> Resumed:
        made = Resumed(ask, keep)
        made.next_number = expected[id(ask)]
        return made

    again = await connect(port, asks, resumed, at_once=CLIENTS)
    times = await asyncio.wait_for(asyncio.gather(*(reader.finished for reader in again)), SECONDS_MAX)
    for reader in again:
        reader.close()
    return [one - lost for one in times]


def _request(command: str, topic: str, key: int | None = None, **more: object) -> bytes:
    request = {"command": command, "command_id": "1", "topic": topic, "ack_type": "processed", **more}
    return orjson.dumps(request if key is None else {**request, "filter": f"/order = {key}"})


@contextmanager
def _changing(kafka: str, topic: str, keys: int) -> Iterator[None]:
    """Change the records of a topic all the while, from a process of its own."""
    context = multiprocessing.get_context("spawn")
    stopped = context.Event()
    process = context.Process(target=_publish, args=(kafka, topic, keys), kwargs={"stopped": stopped})
    process.start()
    time.sleep(SETTLE_SECONDS)
    try:
        yield
    finally:
        stopped.set()
        process.join()


def _publish(
    kafka: str, topic: str, keys: int, changes: int | None = None, stopped: Event | None = None
) -> None:
    """Publish each record in turn, so many times as fast as Kafka takes them, or by chance at the rate."""
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 5, "partitioner": "murmur2_random"})
    chance, numbers, sent, began = random.Random(7), [0] * keys, 0, time.monotonic()
    while sent != changes and not (stopped is not None and stopped.is_set()):
        due = changes if changes is not None else int((time.monotonic() - began) * RATE)
        for _ in range(min(due - sent, 1000)):
            key = sent if changes is not None else chance.randrange(keys)
            body = b'{"order":%d,"number":%d,"note":"%b"}' % (key, numbers[key], NOTE.encode())
            produce(producer, topic, body, b"%d" % key)
            numbers[key] += 1
            sent += 1
        producer.poll(0)
        if changes is None:
            time.sleep(TICK_SECONDS)
    producer.flush()
