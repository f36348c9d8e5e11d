"""`sowline bench`: measures a running system from outside, with records that it publishes and deletes at the end."""

import math
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from threading import Condition, Thread
from typing import Any

import click

from sowline.cli.completion import topic_argument
from sowline.cli.help import cli_command
from sowline.cli.printing import print_all
from sowline.cli.progress import ProgressLine
from sowline.cli.writing import through_kafka
from sowline.client.client import Client
from sowline.client.publisher import Publisher
from sowline.client.writing import topics_of
from sowline.config.declared_topic import JSON
from sowline.config.kafka_options import kafka_config
from sowline.errors import SowlineError
from sowline.wire.client_message import Message

SILENCE_SECONDS_MAX = 60.0
QUERIES = 100
"""Queries of each kind, one after the other."""
GROUPS = 100
"""The filter selects one of this many groups of records."""
SENT, GROUP = "bench_sent", "bench_group"


@dataclass(frozen=True)
class BenchRun:
    """The records of one run. Their keys begin with its id, so that it deletes no other record."""

    topic: str
    paths: tuple[tuple[str, ...], ...]
    id: str

    @property
    def filter(self) -> str:
        """The filter that only these records match."""
        return f"/{'/'.join(self.paths[0])} BEGINS WITH ('{self.id}-')"

    def record(self, number: int) -> dict[str, Any]:
        """Return a record with the key of this number, and the time of this process's clock."""
        record: dict[str, Any] = {GROUP: number % GROUPS, SENT: time.monotonic()}
        for *parents, name in self.paths:
            field = record
            for step in parents:
                field = field.setdefault(step, {})
            field[name] = f"{self.id}-{number}"
        return record


def bench_run(answer: dict[str, Any], topic: str) -> BenchRun:
    """Return a run on a topic that a service describes; raise `not supported` if no record can be made for it."""
    definition = topics_of(answer).named(topic)
    is_plain = (
        definition.message_type == JSON and definition.view is None and not definition.declared.preprocessing
    )
    if not is_plain or not definition.has_sow or not definition.key_rule.paths:
        raise SowlineError(
            "not supported",
            f"expected a topic of JSON records whose keys are fields of the message, got {topic}; define one for it",
        )
    return BenchRun(topic, definition.key_rule.paths, f"bench-{uuid.uuid4().hex[:12]}")


class BenchArrivals:
    """The changes that a subscription receives, in a thread: the seconds since they were sent, and their SOW keys."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.seconds: list[float] = []
        self.sow_keys: set[str] = set()
        self._failure: SowlineError | None = None
        self._changed = Condition()
        Thread(target=self._read, args=(messages,), daemon=True).start()

    def _read(self, messages: Iterable[Message]) -> None:
        try:
            for message in messages:
                if message.command == "publish":
                    self.seconds.append(time.monotonic() - message.data[SENT])
                    self.sow_keys.add(message.sow_key or "")
                    self._note()
        except SowlineError as error:
            self._failure = error
            self._note()

    def _note(self) -> None:
        with self._changed:
            self._changed.notify()

    def wait(self, count: int) -> None:
        """Wait for `count` changes; raise `behind` if none arrives for a while, or why the subscription ended."""
        with self._changed:
            while len(self.seconds) < count and self._failure is None:
                if not self._changed.wait(SILENCE_SECONDS_MAX):
                    self._failure = SowlineError(
                        "behind",
                        f"expected a subscription to receive {count:,} changes, got {len(self.seconds):,}, and no"
                        f" other within {SILENCE_SECONDS_MAX:g} s",
                    )
        if self._failure is not None:
            raise self._failure


_option = partial(click.option, show_default=True)


@cli_command(examples=("sowline bench scratch --seconds 10", "sowline bench scratch --rate 0"))
@topic_argument
@_option("--seconds", type=click.FloatRange(0.1), default=5.0, help="How long to publish.")
# Limited by default: at full speed, a latency would be the length of a queue.
@_option("--rate", type=click.IntRange(0), default=1000, help="Records per second; 0: as fast as possible.")
@_option("--records", type=click.IntRange(1), default=10_000, help="How many different records to write.")
@click.option("--into-records", is_flag=True, help="Run even if TOPIC has records; they are not changed.")
@through_kafka
def bench(
    topic: str, seconds: float, rate: int, records: int, into_records: bool, connection: dict[str, Any]
) -> None:
    """Measure a running system: publish records to TOPIC, subscribe to them, query them, and delete them.

    Prints a table on a terminal, and a line of JSON each in a pipe. Views and fanouts of TOPIC get the records, too.
    """
    with Client(**connection) as client:
        answer = client.topics()
        run = bench_run(answer, topic)
        if not into_records and any(message.command == "sow" for message in client.sow(topic, top_n=1)):
            raise SowlineError(
                "bad request", f"expected no records in {topic}, got some: give --into-records"
            )
        kafka = kafka_config(connection["kafka"] or answer["kafka"], connection["kafka_options"])
        publisher = Publisher(kafka, topics_of(answer))
        with _deleted_at_end(client, publisher, run):
            arrivals = BenchArrivals(client.subscribe(topic, filter=run.filter))
            # The first record opens connections, so it is not measured.
            publisher.publish(topic, run.record(0))
            arrivals.wait(1)
            count, took = _publish(publisher, run, seconds, rate, records)
            arrivals.wait(1 + count)
            look_ups = [{"sow_keys": [key]} for key in islice(arrivals.sow_keys, QUERIES)]
            filters = [{"filter": f"{run.filter} AND /{GROUP} = {n % GROUPS}"} for n in range(QUERIES)]
            measured = [
                {"measured": "publish", "count": count, "per_second": round(count / took, 1)},
                delays("visible", arrivals.seconds[1:]),
                delays("look-up", [_query_seconds(client, topic, query) for query in look_ups]),
                delays("filter", [_query_seconds(client, topic, query) for query in filters]),
            ]
    print_all(measured)


@contextmanager
def _deleted_at_end(client: Client, publisher: Publisher, run: BenchRun) -> Iterator[None]:
    """Delete the records of a run after the block, however it ends."""
    # A user who may not delete is refused here, before anything is written.
    client.sow_delete(run.topic, filter=run.filter)
    with ExitStack() as at_end:
        # They run in reverse order: the publisher has written its last records before the deletion, which would miss
        # them.
        at_end.callback(client.sow_delete, run.topic, filter=run.filter)
        at_end.callback(publisher.close)
        yield


def _publish(
    publisher: Publisher, run: BenchRun, seconds: float, records_per_second: int, records: int
) -> tuple[int, float]:
    """Publish for this many seconds; return the number of records, and the seconds until Kafka had all of them."""
    begin, count, show = time.monotonic(), 0, ProgressLine()
    while (now := time.monotonic()) < begin + seconds:
        if records_per_second and (wait := begin + count / records_per_second - now) > 0:
            time.sleep(wait)
        publisher.publish(run.topic, run.record(count % records))
        count += 1
        show("published", count)
    publisher.flush()
    return count, time.monotonic() - begin


def _query_seconds(client: Client, topic: str, query: Mapping[str, Any]) -> float:
    begin = time.monotonic()
    for _ in client.sow(topic, batch_size=100, **query):
        pass
    return time.monotonic() - begin


def delays(measured: str, seconds: list[float]) -> dict[str, Any]:
    """Return the median, the 99th percentile and the maximum of at least one measurement, in milliseconds."""
    ordered = [round(1000 * value, 3) for value in sorted(seconds)]
    p50, p99 = (ordered[math.ceil(part * len(ordered)) - 1] for part in (0.5, 0.99))
    return {"measured": measured, "count": len(ordered), "p50_ms": p50, "p99_ms": p99, "max_ms": ordered[-1]}
