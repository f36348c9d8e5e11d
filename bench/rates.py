"""Records for keys by chance, published at a rate, and the clients that get each of them: one rate, held.

Publisher and clients do as little as they can for a message, because they share the cores with what is measured. Yet
each client verifies that it gets all messages of its key, in order.
"""

import random
import statistics
import time
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any, NamedTuple, Protocol

from confluent_kafka import Producer

from bench.listeners import Listeners
from bench.traffic import Polled, at_rate

CLIENTS = 10_000
SECONDS = 10.0
LATE_SECONDS = 1.0
"""How long after the last publish the last message may arrive, for the rate to be sustained."""

RECORD_BYTES = 1000
SECONDS_MAX = 120.0


class Shape(NamedTuple):
    """How many keys the clients share, and the messages a second that all of them together are to get."""

    keys: int
    rates: tuple[int, ...]

    @property
    def clients_a_key(self) -> int:
        """How many clients get each record."""
        return CLIENTS // self.keys


class Sink(Polled, Protocol):
    """Where the publisher's records go."""

    def publish(self, key: str, body: str) -> None:
        """Take a record."""

    def flush(self) -> object:
        """Wait until all that was taken has been sent."""


class Log:
    """A topic of Kafka."""

    def __init__(self, kafka: str, topic: str, key_header: str | None = None) -> None:
        """Connect; a `key_header` is the header that has the key too."""
        self._producer = Producer(
            {"bootstrap.servers": kafka, "linger.ms": 5, "partitioner": "murmur2_random"}
        )
        self._producer.list_topics(timeout=10)
        self._topic, self._key_header = topic, key_header
        self.poll, self.flush = self._producer.poll, self._producer.flush

    def publish(self, key: str, body: str) -> None:
        """Publish a record."""
        headers: dict[str, str | bytes | None] = {} if self._key_header is None else {self._key_header: key}
        self._producer.produce(self._topic, body, key, headers=headers)


class Server(NamedTuple):
    """The system that delivers the records to the clients."""

    port: int
    subscribe: Callable[[int], bytes]
    """The message by which a client asks for the records of a key."""
    answers: tuple[bytes, ...]
    """A part of each message that answers it."""
    sink: Callable[[], Sink]
    """Opens what it reads; called in another process."""
    cpu_seconds: Callable[[], float]

    def listeners(self, shape: Shape) -> Listeners:
        """Connect all clients."""
        requests = [self.subscribe(number % shape.keys) for number in range(CLIENTS)]
        return Listeners(self.port, requests, self.answers)


class Held(NamedTuple):
    """The result of one rate."""

    rate: int
    sent: int
    """Messages to all clients."""
    late_seconds: float
    mean_ms: float
    p99_ms: float
    cpu_us: float
    """CPU of the server for a message."""

    @property
    def is_sustained(self) -> bool:
        """Whether the last message arrived soon enough."""
        return self.late_seconds <= LATE_SECONDS

    @property
    def cells(self) -> tuple[str, ...]:
        """Its cells in a table, besides the CPU."""
        return (
            f"{self.rate:,.0f}",
            f"{self.sent / SECONDS:,.0f}",
            f"{self.late_seconds:.1f}",
            f"{self.mean_ms:,.0f}",
            f"{self.p99_ms:,.0f}",
        )


HEAD = ("messages/s", "sent/s", "delay of the last message, s", "mean, ms", "p99, ms")
"""The headings of `Held.cells`."""


def raised(server: Server, shape: Shape) -> list[Held]:
    """Hold each rate of a shape, until one is not sustained."""
    found: list[Held] = []
    listeners = server.listeners(shape)
    for rate in shape.rates:
        found.append(_held(server, listeners, shape, rate))
        print(*found[-1], flush=True)
        if not found[-1].is_sustained:
            break
    listeners.close()
    return found


def _held(server: Server, listeners: Listeners, shape: Shape, rate: int) -> Held:
    """Publish at a rate, and wait for all messages."""
    listeners.begin()
    before = server.cpu_seconds()
    context = get_context("spawn")
    here, there = context.Pipe()
    publisher = context.Process(
        target=_publish, args=(server.sink, shape.keys, rate / shape.clients_a_key, there), daemon=True
    )
    publisher.start()
    numbers, ended = here.recv()
    sent = sum(numbers) * shape.clients_a_key
    listeners.reached(sent, SECONDS_MAX)
    cpu = server.cpu_seconds() - before
    publisher.join()
    if listeners.counts() != numbers * shape.clients_a_key:
        raise AssertionError("expected for each client as many messages as were published for its key")
    times = sorted(listeners.seconds)
    return Held(
        rate,
        sent,
        max(0.0, listeners.last - ended),
        statistics.mean(times) * 1e3,
        times[len(times) * 99 // 100] * 1e3,
        cpu / sent * 1e6,
    )


def _publish(open_sink: Callable[[], Sink], keys: int, rate: float, done: Any) -> None:
    """Publish records for `SECONDS`, then report how many of each key, and when the last was."""
    sink = open_sink()
    notes = "n" * (RECORD_BYTES - 70)
    names, numbers = [str(number) for number in range(keys)], [0] * keys
    chance, end = random.Random(rate).random, time.monotonic() + SECONDS
    for now in at_rate(sink, rate, lambda: time.monotonic() < end):
        key = int(chance() * keys)
        sink.publish(
            names[key], f'{{"order":{key},"sent":{now:.6f},"number":{numbers[key]},"notes":"{notes}"}}'
        )
        numbers[key] += 1
    sink.flush()
    done.send((numbers, time.monotonic()))
