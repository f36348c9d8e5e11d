"""How fast a partition comes back along each of its three roads, beside plain consuming of its log.

RECORDS orders with a key each, so that state, changes and log hold equally many. The materializer is a process of
its own; what one takes to start over an empty topic is taken off.
"""

import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import orjson
from confluent_kafka import TopicPartition

from bench.broker import broker
from bench.materialize import order_of
from bench.service import running, until
from sowline.cluster import Cluster
from sowline.kafka import exact_producer, kafka_config, plain_consumer, poll_batch
from sowline.topics import TopicDefinition

FULL, EMPTY = "recovered", "empty"
PARTITIONS = 2


class Setting:
    """A materializer's topics, its directory, and the Kafka that both topics are in."""

    def __init__(self, bootstrap: str, directory: Path, records: int) -> None:
        self.records = records
        self.kafka = kafka_config(bootstrap)
        self.cluster = Cluster(self.kafka)
        self.states = directory / "states"
        self._bootstrap = bootstrap
        self._configs = directory
        self.full = self._topic(FULL)
        self._empty = self._topic(EMPTY)

    def _topic(self, name: str) -> TopicDefinition:
        definition = TopicDefinition(name=name, key=("/order",), partitions=PARTITIONS)
        self.cluster.ensure_topic(definition)
        text = f"topics:\n  - {{name: {name}, key: [/order], partitions: {PARTITIONS}}}\n"
        (self._configs / f"{name}.yaml").write_text(text)
        return definition

    def fill(self) -> None:
        """Write the log, the same every time."""
        chance = random.Random(7)
        producer = exact_producer(self.kafka)
        for number in range(self.records):
            producer.produce(self.full.log, orjson.dumps(order_of(chance, number)), str(number))
            if number % 10_000 == 0:
                producer.poll(0)
        producer.flush()

    def seconds(self, name: str) -> float:
        """Run a materializer until it has nothing left to do: how long that takes."""
        environment = {
            "SOWLINE_KAFKA": self._bootstrap,
            "SOWLINE_CONFIG": str(self._configs / f"{name}.yaml"),
            "SOWLINE_DATA_DIR": str(self.states),
            "SOWLINE_GROUP": f"{name}-{time.monotonic_ns()}",
        }
        with running("materializer", environment) as service:

            def is_done() -> bool:
                owned = service.has_started() and service.metric("sowline_partitions") == PARTITIONS
                return owned and self._is_whole(name) and not service.metric("sowline_behind_records")

            return until(is_done)

    def _is_whole(self, name: str) -> bool:
        ends = self.cluster.ends(f"{name}.changes", range(PARTITIONS))
        return name == EMPTY or sum(ends.values()) >= self.records

    def start(self) -> float:
        """What a materializer takes to start with nothing to do."""
        return self.seconds(EMPTY)

    def consume(self) -> float:
        """Consume the log, and do nothing with it: how long that takes."""
        consumer = plain_consumer(self.kafka)
        consumer.assign([TopicPartition(self.full.log, number, 0) for number in range(PARTITIONS)])
        began, left = time.monotonic(), self.records
        while left > 0:
            left -= len(poll_batch(consumer, 1000, 0.2))
        seconds = time.monotonic() - began
        consumer.close()
        return seconds

    def lose_state(self) -> None:
        """Lose the local state."""
        shutil.rmtree(self.states / self.full.log, ignore_errors=True)

    def lose_changes(self) -> None:
        """Lose the local state, and the changes topic with it."""
        self.lose_state()
        self.cluster.delete_topics([self.full.changes])
        self.cluster.ensure_topic(self.full)


def run(records: int, runs: int) -> None:
    """Measure each road by turns and print medians and ratios."""
    with broker() as bootstrap, tempfile.TemporaryDirectory() as directory:
        setting = Setting(bootstrap, Path(directory), records)
        setting.fill()
        setting.seconds(FULL)
        roads: dict[str, Callable[[], None]] = {
            "the local state is whole: it is read and checked": lambda: None,
            "it is gone: the changes topic is loaded": setting.lose_state,
            "that is gone too: the log is applied again": setting.lose_changes,
        }
        starts, plain = [], []
        measured: dict[str, list[float]] = {name: [] for name in roads}
        for _ in range(runs):
            starts.append(setting.start())
            plain.append(setting.consume())
            for name, lose in roads.items():
                lose()
                measured[name].append(setting.seconds(FULL))
    _report(records, statistics.median(starts), statistics.median(plain), measured)


def _report(records: int, start: float, plain: float, measured: dict[str, list[float]]) -> None:
    print(
        f"{records:,} records, {PARTITIONS} partitions; a start with nothing to do takes {start:.1f} s, taken off"
    )
    print(f"  {'plain consuming of the log':50} {records / plain:>11,.0f} records/s")
    for name, seconds in measured.items():
        rate = records / max(0.001, statistics.median(seconds) - start)
        print(f"  {name:50} {rate:>11,.0f} records/s, {rate * plain / records:.2f} of consuming")
