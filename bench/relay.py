"""How long a publish takes to a subscriber over WebSocket, next to a bare relay of two hops in Python.

Both take the same records at the same steady rate from a producer with the same settings. The way through the system
is producer, log, materializer, changes topic, query service, client library; the bare one is producer, topic, a
process that consumes and produces, topic, consumer. Each reader runs in its own process.
"""

import multiprocessing
import random
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import orjson
from confluent_kafka import TopicPartition

from bench import raw_loop
from bench.broker import broker
from bench.merging import order_of
from bench.table import medians_of, table
from bench.traffic import system
from sowline.client.client import Client
from sowline.config.kafka_options import kafka_config
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.kafka.admin import Cluster
from sowline.kafka.clients import exact_producer, plain_consumer, poll_batch

RATE = 2000
RATES = (RATE, 500)
"""Records a second: what occupies two cores, and what leaves most of them free."""
SECONDS = 10
WARM_RUNS = 4
"""Runs of both that are not counted: during these, Java compiles Kafka's code."""
WARM_SHARE = 5
"""The first 1/5 of the messages is left out."""
KEYS = 500
PARTITIONS = 2
LATE_SECONDS_MAX = 60.0
TOPICS = "topics: [{{name: {}, key: /order, partitions: {}}}]\n"

Reader = Callable[[int, Connection], None]
"""Reports that it is ready, takes this many messages, and returns their lags in milliseconds over the pipe."""

SYSTEM, BARE = "publish to subscriber over WebSocket", "bare relay: two hops of Kafka, no state"


class Lags(NamedTuple):
    """Milliseconds from a record's producing to its receipt."""

    p50: float
    p99: float


def run(records: int, runs: int) -> str:
    """Measure both in turn, 10 seconds each at most; return a table of medians and ratios."""
    seconds = min(SECONDS, records / RATE)
    with broker() as kafka:
        medians = compare(kafka, PARTITIONS, seconds, RATES, runs)
    return _report(seconds, runs, medians)


def compare(
    kafka: str, partitions: int, seconds: float, rates: Sequence[int], runs: int
) -> dict[tuple[str, int], Lags]:
    """Measure both in turn at each rate once they are warm; return the medians by `SYSTEM` or `BARE`, and rate."""
    name = f"live-{partitions}"
    lags: dict[tuple[str, int], list[Lags]] = {(way, rate): [] for rate in rates for way in (SYSTEM, BARE)}
    with (
        tempfile.TemporaryDirectory() as directory,
        system(kafka, Path(directory), TOPICS.format(name, partitions)) as url,
        relay(kafka, partitions) as bare,
    ):
        ways = ((SYSTEM, name, partial(subscribe, url, name)), (BARE, bare.source, bare.read))
        for number, rate in enumerate([RATE] * WARM_RUNS + [*rates] * runs):
            for way, topic, reader in ways:
                found = measure(kafka, topic, reader, int(seconds * rate), rate)
                if number >= WARM_RUNS:
                    lags[way, rate].append(found)
                    print(f"{way}, {partitions} partitions, {rate:,} records/s: {found}", flush=True)
    return {
        key: Lags(statistics.median(one.p50 for one in some), statistics.median(one.p99 for one in some))
        for key, some in lags.items()
    }


class Relay(NamedTuple):
    """A bare relay that runs: the topic that it reads, and a reader of the one that it writes."""

    source: str
    read: Reader


@contextmanager
def relay(kafka: str, partitions: int) -> Iterator[Relay]:
    """Run the bare relay between its own topics."""
    cluster = Cluster(kafka_config(kafka))
    source, target = (
        define_topic(name=f"{name}-{partitions}", key=("/order",), partitions=partitions)
        for name in ("relay-from", "relay-to")
    )
    for definition in (source, target):
        cluster.ensure_topic(definition)
    arguments = (kafka, source.log, target.log, str(partitions))
    process = multiprocessing.get_context("spawn").Process(target=raw_loop.main, args=arguments, daemon=True)
    process.start()
    try:
        yield Relay(source.log, partial(_consume, kafka, target))
    finally:
        process.terminate()
        process.join()


def measure(kafka: str, topic: str, reader: Reader, count: int, rate: int) -> Lags:
    """Send this many records at a steady rate while a reader takes them."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=reader, args=(count, theirs), daemon=True)
    process.start()
    ours.recv()
    _send(kafka, topic, count, rate)
    if not ours.poll(LATE_SECONDS_MAX):
        raise RuntimeError(f"expected {count:,} messages of {topic} within {LATE_SECONDS_MAX:g} s")
    lags = sorted(ours.recv()[count // WARM_SHARE :])
    process.join()
    return Lags(statistics.median(lags), lags[len(lags) * 99 // 100])


def _send(kafka: str, topic: str, count: int, rate: int) -> None:
    chance = random.Random(7)
    orders = [order_of(chance, key) for key in range(KEYS)]
    producer = exact_producer(kafka_config(kafka))
    began, sent = time.monotonic(), 0
    while sent < count:
        due = min(count, int((time.monotonic() - began) * rate))
        for number in range(sent, due):
            order = orders[number % KEYS] | {"qty": number, "at": time.time()}
            producer.produce(topic, orjson.dumps(order), str(order["order"]))
        sent = due
        producer.poll(0.001)
    producer.flush()


def subscribe(url: str, topic: str, count: int, pipe: Connection) -> None:
    """Read as a subscriber of everything, with the client library."""
    with Client(url) as client:
        stream = client.subscribe(topic)
        pipe.send(True)
        publishes = (message for message in stream if message.command == "publish")
        pipe.send([_lag(message.data) for message in islice(publishes, count)])


def _consume(kafka: str, topic: TopicDefinition, count: int, pipe: Connection) -> None:
    ends = Cluster(kafka_config(kafka)).ends(topic.log, range(topic.partitions))
    consumer = plain_consumer(kafka_config(kafka), group=uuid.uuid4().hex)
    consumer.assign([TopicPartition(topic.log, number, end) for number, end in ends.items()])
    pipe.send(True)
    lags: list[float] = []
    while len(lags) < count:
        lags += [_lag(orjson.loads(message.value() or b"")) for message in poll_batch(consumer, 1000, 0.2)]
    consumer.close()
    pipe.send(lags)


def _lag(order: dict[str, float]) -> float:
    return (time.time() - order["at"]) * 1000


def _report(seconds: float, runs: int, medians: dict[tuple[str, int], Lags]) -> str:
    ratios = [
        own / bare
        for rate in RATES
        for own, bare in zip(medians[SYSTEM, rate], medians[BARE, rate], strict=True)
    ]
    rows = [
        (name, *(f"{figure:.1f}" for rate in RATES for figure in medians[name, rate]))
        for name in (SYSTEM, BARE)
    ]
    head = ("milliseconds", *(f"{figure} at {rate:,}/s" for rate in RATES for figure in Lags._fields))
    caption = (
        f"Records of {KEYS} keys in {PARTITIONS} partitions for {seconds:g} seconds at each rate, "
        f"{medians_of(runs)}."
    )
    return f"{caption}\n\n{table(head, [*rows, ('ratio', *(f'{ratio:.2f}' for ratio in ratios))])}"
