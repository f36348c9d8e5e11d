"""The job that materializers are measured on, and how a run of it is measured from outside.

The job: orders over RECORDS / 10 keys. Every key is published once. Half of the other commands are full publishes of
about 170 bytes, and half are deltas of one or two fields. Each record leads to one output with the merged body.
"""

import os
import random
import statistics
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import IO, Any, NamedTuple

import orjson
from confluent_kafka import Producer

from bench.usage import Usage, usage
from sowline.changes.progress import PROGRESS_KEY
from sowline.commands.command import Headers, command_headers
from sowline.config.kafka_options import KafkaConfig, kafka_config
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.kafka.admin import Cluster
from sowline.kafka.clients import exact_producer, read_range

PARTITIONS = 2
SECONDS_MAX = 300.0
HELD_SECONDS_MAX = 600
LOOK_SECONDS = 0.02
SENT_CHARACTERS_MAX = 2000
"""The last output of an entrant's processes, where they failed."""


HEAD = ("", "records/s", "µs of CPU per record", "including startup", "peak RSS, MB")
"""The head of a table whose rows are `rows` and `ratio`."""

Body = dict[str, object]


class Sent(NamedTuple):
    """A command on the log: a Kafka record."""

    key: str
    value: bytes | None
    headers: Headers


DELTA_PUBLISH = command_headers("delta_publish")
KEYED = {"key": ["/order"]}


def sent(body: Body, is_delta: bool) -> Sent:
    """Return an order, or a delta of one, as a command to a topic whose key is the number of the order."""
    return Sent(str(body["order"]), orjson.dumps(body), DELTA_PUBLISH if is_delta else [])


@dataclass(frozen=True)
class Job:
    """A kind of topic, and how the commands to it are written."""

    topic: Mapping[str, Any] = field(default_factory=lambda: KEYED)
    """Fields of `topics.yaml`."""
    sent: Callable[[Body, bool], Sent] = sent


@dataclass(frozen=True)
class Load:
    """A log with this many records of the job."""

    bootstrap: str
    definition: TopicDefinition
    records: int
    cluster: Cluster
    is_numbered: bool = False
    """Whether each command carries its publisher and its sequence."""
    job: Job = field(default_factory=Job)

    @property
    def declared(self) -> dict[str, Any]:
        """The topic as in `topics.yaml`."""
        return {"name": self.definition.name, "partitions": self.partitions, **self.job.topic}

    @property
    def partitions(self) -> int:
        """How many partitions the log has, and the topics made of it."""
        return self.definition.partitions


@dataclass(frozen=True)
class Figure:
    """One measured run: records a second, CPU microseconds a record without start-up and with it, peak memory."""

    rate: float
    cpu_us: float
    whole_cpu_us: float
    rss_mb: float


@dataclass(frozen=True)
class Entrant:
    """A program that does the job: its processes, each a command with its environment, and their output topic.

    `ready` is called when they run. It returns once there is a load, with how much they have written besides.
    """

    processes: Sequence[tuple[Sequence[str], Mapping[str, str]]]
    output: str
    ready: Callable[[], int] = field(default=lambda: 0)


def new_load(
    bootstrap: str,
    records: int,
    partitions: int = PARTITIONS,
    is_numbered: bool = False,
    job: Job = Job(),
) -> Load:
    """Write a log of a job, the same every time, under a new name."""
    load = replace(_new_log(bootstrap, records, partitions, job), is_numbered=is_numbered)
    producer = exact_producer(kafka_config(bootstrap))
    _fill(producer, load)
    producer.flush()
    return load


def held_load(bootstrap: str, records: int) -> tuple[Load, Callable[[], None]]:
    """Write a log that nobody sees before the function is called that is returned with it."""
    load = _new_log(bootstrap, records, PARTITIONS, Job())
    transaction = {
        "transactional.id": load.definition.name,
        "transaction.timeout.ms": str(HELD_SECONDS_MAX * 1000),
    }
    producer = exact_producer(kafka_config(bootstrap) | transaction)
    producer.init_transactions()
    producer.begin_transaction()
    _fill(producer, load)
    producer.flush()
    return load, producer.commit_transaction


def _new_log(bootstrap: str, records: int, partitions: int, job: Job) -> Load:
    definition = define_topic(name=f"bench-{uuid.uuid4().hex[:8]}", partitions=partitions, **job.topic)
    cluster = Cluster(kafka_config(bootstrap))
    cluster.ensure_topic(definition)
    return Load(bootstrap, definition, records, cluster, job=job)


def _fill(producer: Producer, load: Load) -> None:
    for number, (body, is_delta) in enumerate(_commands(load.records)):
        key, value, headers = load.job.sent(body, is_delta)
        if load.is_numbered:
            headers = [*headers, ("sow.publisher", b"desk-1"), ("sow.sequence", b"%d" % number)]
        producer.produce(load.definition.log, value, key, headers=headers)  # type: ignore[arg-type]
        if number % 10_000 == 0:
            producer.poll(0)


def _commands(records: int) -> Iterator[tuple[Body, bool]]:
    """Yield bodies, and whether each is a delta."""
    chance = random.Random(7)
    keys = max(1, records // 10)
    for number in range(records):
        key = number if number < keys else chance.randrange(keys)
        is_delta = number >= keys and chance.random() < 0.5
        yield _delta(chance, key) if is_delta else order_of(chance, key), is_delta


def fill_with_orders(kafka: KafkaConfig, log: str, records: int) -> None:
    """Write orders with a key each to a log, the same every time."""
    chance, producer = random.Random(7), exact_producer(kafka)
    for number in range(records):
        producer.produce(log, orjson.dumps(order_of(chance, number)), str(number))
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def order_of(chance: random.Random, key: int) -> Body:
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


def _delta(chance: random.Random, key: int) -> Body:
    delta: Body = {"order": key, "qty": chance.randrange(1, 10_000)}
    return delta | ({"status": "filled"} if chance.random() < 0.5 else {})


def measure(load: Load, entrant: Entrant) -> Figure:
    """Run an entrant until it has written an output for each record.

    Rate and CPU count from the first output that is seen, so that start-up is in neither; the whole CPU has it.
    """
    cluster = load.cluster
    with entered(entrant) as processes:
        besides, deadline = entrant.ready(), time.monotonic() + SECONDS_MAX

        def written() -> int:
            processes.look(deadline)
            return sum(cluster.ends(entrant.output, range(load.partitions)).values()) - besides

        while (first := written()) <= 0:
            time.sleep(LOOK_SECONDS)
        began, before = time.monotonic(), processes.usage().cpu_seconds
        while written() < load.records:
            time.sleep(LOOK_SECONDS)
        ended, after = time.monotonic(), processes.usage()
    left = load.records - first
    return Figure(
        left / (ended - began),
        (after.cpu_seconds - before) / left * 1e6,
        after.cpu_seconds / load.records * 1e6,
        after.rss_bytes_max / 1e6,
    )


class Processes:
    """The processes of an entrant, while they run."""

    def __init__(self, entrant: Entrant, sent: IO[bytes]) -> None:
        self._sent = sent
        self._processes = [
            subprocess.Popen(command, env=os.environ | environment, stdout=sent, stderr=sent)
            for command, environment in entrant.processes
        ]

    @property
    def pids(self) -> list[int]:
        """The ids of the processes."""
        return [process.pid for process in self._processes]

    def usage(self) -> Usage:
        """The usage of the processes so far."""
        return usage(process.pid for process in self._processes)

    def look(self, deadline: float) -> None:
        """Raise if one has ended, or the time is up."""
        if time.monotonic() > deadline or any(process.poll() is not None for process in self._processes):
            self._sent.seek(0)
            tail = self._sent.read().decode(errors="replace")[-SENT_CHARACTERS_MAX:]
            raise RuntimeError(
                f"expected all outputs within {SECONDS_MAX:g} s; the processes printed: {tail}"
            )

    def end(self) -> None:
        """End them, and wait until they have."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()


@contextmanager
def entered(entrant: Entrant) -> Iterator[Processes]:
    """Run an entrant's processes, and end them."""
    with tempfile.TemporaryFile() as sent:
        processes = Processes(entrant, sent)
        try:
            yield processes
        finally:
            processes.end()


def check(load: Load, entrant: Entrant) -> None:
    """Raise unless the last output of each key is the record that its commands make."""
    expected: dict[object, Body] = {}
    for body, is_delta in _commands(load.records):
        key = body["order"]
        expected[key] = {**expected[key], **body} if is_delta else body
    last: dict[bytes, bytes] = {}
    for number, end in load.cluster.ends(entrant.output, range(load.partitions)).items():
        for batch in read_range(kafka_config(load.bootstrap), entrant.output, number, 0, end):
            last.update((message.key(), message.value()) for message in batch)  # type: ignore[misc]
    last.pop(PROGRESS_KEY, None)
    made = {order["order"]: order for order in map(orjson.loads, last.values())}
    wrong = sum(made.get(key) != order for key, order in expected.items())
    if wrong or len(made) != len(expected):
        raise AssertionError(
            f"expected {len(expected):,} merged orders in {entrant.output}, {wrong:,} are wrong"
        )


def median(figures: Sequence[Figure]) -> Figure:
    """The median of each field."""
    names = ("rate", "cpu_us", "whole_cpu_us", "rss_mb")
    return Figure(*(statistics.median(getattr(figure, name) for figure in figures) for name in names))


def line(name: str, figure: Figure) -> str:
    """A line to print."""
    return (
        f"  {name:34} {figure.rate:>9,.0f} records/s {figure.cpu_us:6.1f} µs of CPU per record"
        f" ({figure.whole_cpu_us:6.1f} including startup) {figure.rss_mb:6,.0f} MB"
    )


def rows(figures: Mapping[str, Figure]) -> list[tuple[str, ...]]:
    """Return a row for each, by the columns of `HEAD`."""
    return [
        (name, f"{one.rate:,.0f}", f"{one.cpu_us:.1f}", f"{one.whole_cpu_us:.1f}", f"{one.rss_mb:,.0f}")
        for name, one in figures.items()
    ]


def ratio(ours: Figure, other: Figure, name: str) -> tuple[str, ...]:
    """Return the row that compares one to another."""
    return (
        name,
        f"{ours.rate / other.rate:.2f} times its records/s",
        f"{other.cpu_us / ours.cpu_us:.2f} times as many per CPU second",
        f"{other.whole_cpu_us / ours.whole_cpu_us:.2f} times",
        f"{ours.rss_mb / other.rss_mb:.2f} of its memory",
    )
