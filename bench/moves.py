"""How long a partition stands still when it moves: the longest time between two of its changes, as they are written.

RECORDS orders exist already; a publisher updates some of them 200 times a second. Each worker is a process with its
own disk; with standby, each keeps a warm copy of the other's partitions.
"""

import random
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import orjson

from bench.broker import broker
from bench.merging import order_of
from bench.service import Running, running, until
from bench.table import medians_of, table
from sowline.config.kafka_options import kafka_config
from sowline.config.topic_definition import define_topic
from sowline.kafka.admin import Cluster
from sowline.kafka.clients import exact_producer, read_range

PARTITIONS = 2
RATE = 200
STEADY_SECONDS = 2.0

Moves = dict[str, float]
"""An event, and the seconds that the partition which it moves stands still."""


class Load:
    """A topic full of orders, and a publisher that continues to write."""

    def __init__(self, bootstrap: str, name: str, records: int) -> None:
        self.kafka = kafka_config(bootstrap)
        self.cluster = Cluster(self.kafka)
        self.definition = define_topic(name=name, key=("/order",), partitions=PARTITIONS)
        self.cluster.ensure_topic(self.definition)
        self._records = records
        self._chance = random.Random(7)
        self._producer = exact_producer(self.kafka)

    def fill(self) -> None:
        """Write each order once."""
        for number in range(self._records):
            self._write(number)
            if number % 10_000 == 0:
                self._producer.poll(0)
        self._producer.flush()

    def _write(self, number: int) -> None:
        self._producer.produce(self.definition.log, orjson.dumps(order_of(self._chance, number)), str(number))

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Publish at the rate during the block."""
        stop = threading.Event()
        thread = threading.Thread(target=self._publish, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _publish(self, stop: threading.Event) -> None:
        while not stop.wait(1 / RATE):
            self._write(self._chance.randrange(self._records))
            self._producer.poll(0)

    def ends(self) -> dict[int, int]:
        """Where the changes end now."""
        return self.cluster.ends(self.definition.changes, range(PARTITIONS))

    def is_applied(self) -> bool:
        """Whether the changes hold as many as there are orders."""
        return sum(self.ends().values()) >= self._records

    def stood_still(self, starts: dict[int, int]) -> float:
        """The longest time between two changes of one partition since then, in seconds."""
        ends, longest = self.ends(), 0.0
        for partition, start in starts.items():
            batches = read_range(self.kafka, self.definition.changes, partition, start - 1, ends[partition])
            times = [message.timestamp()[1] for batch in batches for message in batch]
            longest = max(longest, *(b - a for a, b in pairwise(times)))
        return longest / 1000


class Workers:
    """Workers of one group, each with its own disk."""

    def __init__(self, bootstrap: str, directory: Path, load: Load, standby: bool) -> None:
        self._load = load
        self._standby = standby
        config = directory / "topics.yaml"
        name = load.definition.name
        config.write_text(f"topics:\n  - {{name: {name}, key: [/order], partitions: {PARTITIONS}}}\n")
        self._directory = directory
        self._environment = {
            "SOWLINE_KAFKA": bootstrap,
            "SOWLINE_CONFIG": str(config),
            "SOWLINE_GROUP": name,
            "SOWLINE_STANDBY": str(standby),
        }

    def start(self, stack: ExitStack, name: str) -> Running:
        """Start a worker."""
        environment = self._environment | {"SOWLINE_DATA_DIR": str(self._directory / name)}
        return stack.enter_context(running("materializer", environment))

    def wait(self, worker: Running, partitions: int) -> None:
        """Wait until a worker has this many partitions, and warm copies of the others."""
        copies = PARTITIONS - partitions if self._standby else 0

        def is_there() -> bool:
            has = worker.metric("sowline_partitions"), worker.metric("sowline_standby_copies")
            return has == (partitions, copies) and worker.metric("sowline_behind_records") < RATE

        until(is_there)

    def measured(self, happens: Callable[[], None], *then: tuple[Running, int]) -> float:
        """Let something happen, wait until workers have their partitions, and return how long one stood still."""
        time.sleep(STEADY_SECONDS)
        starts = self._load.ends()
        happens()
        for worker, partitions in then:
            self.wait(worker, partitions)
        there = self._load.ends()
        until(lambda: all(end > there[partition] for partition, end in self._load.ends().items()))
        return self._load.stood_still(starts)

    def moves(self) -> Moves:
        """All events that move partitions, one after the other."""
        half, found = PARTITIONS // 2, Moves()
        with ExitStack() as stack:
            first = self.start(stack, "first")
            self.wait(first, PARTITIONS)
            until(self._load.is_applied)
            second = stack.enter_context(ExitStack())
            others: list[Running] = []

            def begin() -> None:
                others.append(self.start(second, "second"))

            found["a worker joins, with an empty disk"] = self._joined(begin, others, first, half)
            found["it shuts down cleanly"] = self.measured(second.close, (first, PARTITIONS))
            found["it returns, with its old disk"] = self._joined(begin, others, first, half)
            found["it is killed"] = self.measured(
                lambda: others[-1].signal(signal.SIGKILL), (first, PARTITIONS)
            )
        return found

    def _joined(self, begin: Callable[[], None], others: list[Running], first: Running, half: int) -> float:
        def happens() -> None:
            begin()
            self.wait(others[-1], half)

        return self.measured(happens, (first, PARTITIONS - half))


def run(records: int, runs: int) -> str:
    """Measure each move without and with standby, in turn; return a table of medians."""
    measured: dict[bool, list[Moves]] = {False: [], True: []}
    with broker() as bootstrap:
        for number in range(runs):
            for standby, found in measured.items():
                with tempfile.TemporaryDirectory() as directory:
                    load = Load(bootstrap, f"moves-{number}-{standby}".lower(), records)
                    load.fill()
                    with load.going_on():
                        found.append(Workers(bootstrap, Path(directory), load, standby).moves())
    rows = [[name, *(_median(measured[kind], name) for kind in (False, True))] for name in measured[False][0]]
    caption = f"{records:,} records in {PARTITIONS} partitions, {RATE} updates/s; {medians_of(runs)}."
    return f"{caption}\n\n{table(['seconds that a partition stands still', 'without', 'standby'], rows)}"


def _median(found: list[Moves], name: str) -> str:
    return f"{statistics.median(moves[name] for moves in found):.2f}"
