"""How fast a partition is recovered from each of its three sources, compared with plain consuming and Kafka Streams.

RECORDS orders with a key each, so that state, changes and log hold equally many. Kafka Streams, which has done the
same job, has lost its store and restores it from its changelog. Each runs in its own process; the cost of a start
with an empty topic is subtracted.
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import TopicPartition

from bench.broker import broker
from bench.merging import fill_with_orders
from bench.peers.kafka_streams import Application, Stores, compiled
from bench.service import running, until
from bench.table import medians_of, table
from sowline.config.kafka_options import kafka_config
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.kafka.admin import Cluster
from sowline.kafka.clients import plain_consumer, poll_batch

FULL, EMPTY = "recovered", "empty"
PARTITIONS = 2


class Setting:
    """A materializer's topics, its directory, and the Kafka that both topics are in."""

    def __init__(self, bootstrap: str, directory: Path, records: int) -> None:
        self.records = records
        self.kafka = kafka_config(bootstrap)
        self.cluster = Cluster(self.kafka)
        self.states = directory / "states"
        self.bootstrap = bootstrap
        self._configs = directory
        self.full = self._topic(FULL)
        self._empty = self._topic(EMPTY)

    def _topic(self, name: str) -> TopicDefinition:
        definition = define_topic(name=name, key=("/order",), partitions=PARTITIONS)
        self.cluster.ensure_topic(definition)
        text = f"topics:\n  - {{name: {name}, key: [/order], partitions: {PARTITIONS}}}\n"
        (self._configs / f"{name}.yaml").write_text(text)
        return definition

    def fill(self) -> None:
        """Write the log, the same every time."""
        fill_with_orders(self.kafka, self.full.log, self.records)

    def seconds(self, name: str) -> float:
        """Run a materializer until it has nothing left to do: how long that takes."""
        environment = {
            "SOWLINE_KAFKA": self.bootstrap,
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
        """The cost of a materializer's start with nothing to do."""
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


class Streams:
    """Kafka Streams over the same log, and over the empty one."""

    def __init__(self, java: Sequence[str], setting: Setting, directory: Path, stores: Stores) -> None:
        self._setting = setting
        self._merged = define_topic(
            name=f"merged-{stores.name.lower()}", key=("/order",), partitions=PARTITIONS
        )
        setting.cluster.ensure_topic(self._merged)
        self._full, self._empty = (
            Application(
                java, setting.bootstrap, log, self._merged.log, directory / f"{stores.name}-{log}", stores
            )
            for log in (FULL, EMPTY)
        )

    def fill(self) -> None:
        """Do the whole job, and commit it."""
        self._full.start(self._has_merged_all)

    def _has_merged_all(self) -> bool:
        ends = self._setting.cluster.ends(self._merged.log, range(PARTITIONS))
        return sum(ends.values()) >= self._setting.records

    def start(self) -> float:
        """The cost of a start with nothing to do."""
        return self._empty.start()[0]

    def restore(self) -> float:
        """Lose the store and restore it from the changelog: how long that takes."""
        shutil.rmtree(self._full.state)
        seconds, restored = self._full.start()
        if restored != self._setting.records:
            raise AssertionError(
                f"expected to restore {self._setting.records:,} records, it were {restored:,}"
            )
        return seconds


WHOLE, CHANGES, LOG = (
    "local state intact: it is read and checked",
    "local state gone: the changes topic is loaded",
    "local state and changes topic gone: the log is applied again",
)
RESTORED = "{}, store gone: its changelog is restored"
PLAIN = "consuming the log without keeping anything"


def run(records: int, runs: int) -> str:
    """Measure each source in turn; return a table of medians and ratios."""
    with broker() as bootstrap, tempfile.TemporaryDirectory() as name, compiled() as java:
        seconds = _measured(Setting(bootstrap, Path(name), records), java, Path(name), runs)
    return _report(
        records, runs, {name: statistics.median(one[name] for one in seconds) for name in seconds[0]}
    )


def _measured(setting: Setting, java: Sequence[str], directory: Path, runs: int) -> list[dict[str, float]]:
    streams = {stores: Streams(java, setting, directory, stores) for stores in Stores}
    setting.fill()
    setting.seconds(FULL)
    for one in streams.values():
        one.fill()
    return [_measure(setting, streams) for _ in range(runs)]


def _measure(setting: Setting, streams: Mapping[Stores, Streams]) -> dict[str, float]:
    """The seconds of each source, less those of a start with nothing to do."""
    start = setting.start()
    seconds = {PLAIN: setting.consume(), WHOLE: setting.seconds(FULL) - start}
    for name, lose in ((CHANGES, setting.lose_state), (LOG, setting.lose_changes)):
        lose()
        seconds[name] = setting.seconds(FULL) - start
    for stores, one in streams.items():
        seconds[RESTORED.format(stores)] = one.restore() - one.start()
    print(", ".join(f"{name}: {taken:.2f} s" for name, taken in seconds.items()), flush=True)
    return seconds


def _report(records: int, runs: int, seconds: dict[str, float]) -> str:
    rates = {name: records / max(0.001, taken) for name, taken in seconds.items()}
    theirs = rates[RESTORED.format(Stores.PLAIN)]
    rows = [
        (name, f"{rate:,.0f}", f"{rate / rates[PLAIN]:.2f}", f"{rate / theirs:.1f}")
        for name, rate in rates.items()
    ]
    checkpoint = ("", "records/s", "relative to consuming", "relative to Kafka Streams")
    caption = f"{records:,} records, each with its own key, in {PARTITIONS} partitions; {medians_of(runs)}."
    return f"{caption}\n\n{table(checkpoint, rows)}"
