"""The materializer's throughput, as a ratio to a raw consume-and-produce loop over the same log: the quick look.

`bench.peers` compares it to other systems, on the same job.
"""

import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.broker import broker
from bench.merging import PARTITIONS, Entrant, Figure, Load, held_load, line, measure, median, new_load
from bench.service import metric, until
from deploy.ports import HOST, free_port
from sowline.config.topics import TopicDefinition


def run(records: int, runs: int) -> None:
    """Measure both by turns and print medians and ratios."""
    figures: dict[str, list[Figure]] = {"raw": [], "sow": []}
    with broker() as bootstrap:
        load = new_load(bootstrap, records)
        for _ in range(runs):
            for name, entrant in (("raw", raw_loop(load)), ("sow", materializer(load))):
                with entrant as entered:
                    figures[name].append(measure(load, entered))
    report(records, median(figures["raw"]), median(figures["sow"]))


@contextmanager
def raw_loop(load: Load) -> Iterator[Entrant]:
    """The raw loop, which copies the log to a topic of its own."""
    target = TopicDefinition(name=f"raw-{uuid.uuid4().hex[:8]}", key=("/order",), partitions=PARTITIONS)
    load.cluster.ensure_topic(target)
    command = [sys.executable, "-m", "bench.raw_loop", load.bootstrap, load.definition.log, target.log]
    yield Entrant([([*command, str(PARTITIONS)], {})], target.log)


@contextmanager
def materializer(load: Load) -> Iterator[Entrant]:
    """One materializer with an empty store, and an empty changes topic."""
    load.cluster.delete_topics([load.definition.changes])
    load.cluster.ensure_topic(load.definition)
    with _settings(load, 1) as (settings,):
        # Each partition begins with one event that is no change.
        yield Entrant([_process(settings)], load.definition.changes, lambda: load.partitions)


@contextmanager
def materializers(load: Load) -> Iterator[Entrant]:
    """A materializer for each partition, over a log of their own that they see once each has its partition."""
    held, release = held_load(load.bootstrap, load.records)
    changes = held.definition.changes
    with _settings(held, PARTITIONS) as settings:
        ports = [each["SOWLINE_PORT"] for each in settings]

        def have_one_each() -> bool:
            return all(metric(f"http://{HOST}:{port}", "sowline_partitions") == 1 for port in ports)

        def ready() -> int:
            until(have_one_each)
            written = sum(held.cluster.ends(changes, range(PARTITIONS)).values())
            release()
            return written

        yield Entrant([_process(each) for each in settings], changes, ready)


@contextmanager
def _settings(load: Load, processes: int) -> Iterator[list[dict[str, str]]]:
    """Lend the settings of so many materializers of one group, each with a directory of its own."""
    name, group = load.definition.name, uuid.uuid4().hex
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "topics.yaml"
        config.write_text(f"topics:\n  - {{name: {name}, key: [/order], partitions: {load.partitions}}}\n")
        yield [
            {
                "SOWLINE_KAFKA": load.bootstrap,
                "SOWLINE_CONFIG": str(config),
                "SOWLINE_DATA_DIR": f"{directory}/{number}",
                "SOWLINE_GROUP": group,
                "SOWLINE_PORT": str(free_port()),
            }
            for number in range(processes)
        ]


def _process(settings: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    return [sys.executable, "-m", "materializer"], settings


def report(records: int, raw: Figure, sow: Figure) -> None:
    """Print the medians and how they compare."""
    print(f"{records:,} records, {PARTITIONS} partitions, one process each; start-up is left out for both")
    print(line("raw consume and produce", raw))
    print(line("materializer", sow))
    print(f"  ratio: {sow.rate / raw.rate:.2f} of the raw rate, {sow.cpu_us / raw.cpu_us:.1f} times its CPU")
