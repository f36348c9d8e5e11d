"""A whole system in its own processes, and live traffic through it: from a publish to a subscriber."""

import contextlib
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol, Self

from confluent_kafka import Producer

from sowline.client.client import Client
from sowline.errors import SowlineError

SETTLED_MS = 200.0
"""The longest time that live commands take on an idle system, next to other users of the machine."""
SETTLE_TRIES = 60
TICK_SECONDS = 0.005
KEYS = 500
"""Records that the traffic changes, in turn; their ids are negative."""


@contextmanager
def system(kafka: str, directory: Path, topics: str, *more: str) -> Iterator[str]:
    """Run everything over these topics, with more options; lend the URL."""
    (directory / "topics.yaml").write_text(topics)
    options = ["--config", f"{directory}/topics.yaml", "--data-dir", f"{directory}/state", "--port", "0"]
    command = [sys.executable, "-m", "sowline", "up", "--kafka", kafka, *options, *more]
    with (directory / "up.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.terminate()
        process.wait()


class Polled(Protocol):
    """A sender that sends when it is polled, like Kafka's producer."""

    def poll(self, seconds: float) -> object:
        """Send what was taken."""


def at_rate(producer: Polled, rate: float, goes_on: Callable[[], bool]) -> Iterator[float]:
    """Yield, for each due record at this rate a second, the time of the monotonic clock when that was seen."""
    began, seen = time.monotonic(), 0
    while goes_on():
        now = time.monotonic()
        due = int((now - began) * rate)
        for _ in range(seen, due):
            yield now
        seen = due
        producer.poll(0)
        time.sleep(TICK_SECONDS)


class Lags(NamedTuple):
    """The milliseconds of this many messages."""

    p50: float
    p99: float
    messages: int


class Traffic:
    """Rows with the moment at which they were written, sent at a steady rate to a Kafka topic.

    They are taken by a subscriber of the topic `orders`.
    """

    def __init__(self, kafka: str, topic: str, url: str, rate: int) -> None:
        self.lags: list[float] = []
        self._producer = Producer(
            {"bootstrap.servers": kafka, "linger.ms": 1, "partitioner": "murmur2_random"}
        )
        self._topic, self._url, self._rate = topic, url, rate
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        self._client = Client(self._url)
        self._stream = self._client.subscribe("orders", filter="/at > 0")
        self._threads = [
            threading.Thread(target=self._send),
            threading.Thread(target=self._take, daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._threads[0].join()
        self._client.close()

    def fresh(self, seconds: float) -> Lags:
        """Return the lags of the messages of the next seconds."""
        self.lags.clear()
        time.sleep(seconds)
        return self.taken()

    def settle(self) -> None:
        """Wait until commands arrive soon after they were sent again."""
        for _ in range(SETTLE_TRIES):
            if self.fresh(2).p50 <= SETTLED_MS:
                return
        raise RuntimeError("live commands did not settle: the machine is too busy to measure on")

    def taken(self) -> Lags:
        """Return the lags of the messages since they were cleared."""
        lags = sorted(self.lags) or [float("inf")]
        return Lags(statistics.median(lags), lags[len(lags) * 99 // 100], len(lags))

    def _send(self) -> None:
        due = at_rate(self._producer, self._rate, lambda: not self._stop.is_set())
        for number, _ in enumerate(due):
            body = {"id": -1 - number % KEYS, "qty": number, "at": time.time()}
            self._producer.produce(self._topic, json.dumps(body).encode(), str(body["id"]))
        self._producer.flush()

    def _take(self) -> None:
        with contextlib.suppress(SowlineError):  # the client is closed under it
            for message in self._stream:
                if message.command == "publish":
                    self.lags.append((time.time() - message.data["at"]) * 1000)
