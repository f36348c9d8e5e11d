"""The materializer's throughput with each core, next to a raw consume-and-produce loop over the same log.

`bench.peers` compares it to other systems, on the same job.
"""

import json
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from bench.broker import broker
from bench.merging import (
    HEAD,
    PARTITIONS,
    Entrant,
    Figure,
    Load,
    held_load,
    line,
    measure,
    median,
    new_load,
    ratio,
    rows,
)
from bench.service import metric, until
from bench.table import table
from sowline.config.topic_definition import define_topic
from sowline.runtime.ports import HOST, free_port

RAW = "raw loop: copies, merges nothing"


def run(records: int, runs: int) -> str:
    """Measure both cores in turn, and return the table of their medians."""
    with broker() as bootstrap:
        load = new_load(bootstrap, records)
        entrants: dict[str, Callable[[], AbstractContextManager[Entrant]]] = {
            RAW: lambda: raw_loop(load),
            "materializer, Python core": lambda: materializer(load, "python"),
            "materializer, native core": lambda: materializer(load, "native"),
        }
        figures: dict[str, list[Figure]] = {name: [] for name in entrants}
        for _ in range(runs):
            for name, make in entrants.items():
                with make() as entered:
                    figures[name].append(measure(load, entered))
                print(line(name, figures[name][-1]), flush=True)
    return report(records, {name: median(measured) for name, measured in figures.items()})


@contextmanager
def raw_loop(load: Load) -> Iterator[Entrant]:
    """The raw loop, which copies the log to another topic."""
    target = define_topic(name=f"raw-{uuid.uuid4().hex[:8]}", key=("/order",), partitions=PARTITIONS)
    load.cluster.ensure_topic(target)
    command = [sys.executable, "-m", "bench.raw_loop", load.bootstrap, load.definition.log, target.log]
    yield Entrant([([*command, str(PARTITIONS)], {})], target.log)


@contextmanager
def materializer(load: Load, core: str | None = None) -> Iterator[Entrant]:
    """One materializer with an empty store, and an empty changes topic; with the core that is installed, or this."""
    load.cluster.delete_topics([load.definition.changes])
    load.cluster.ensure_topic(load.definition)
    with _settings(load, 1) as (settings,):
        # Each partition begins with one event that is no change.
        chosen = {} if core is None else {"SOWLINE_CORE": core}
        yield Entrant([_process(settings | chosen)], load.definition.changes, lambda: load.partitions)


@contextmanager
def materializers(load: Load) -> Iterator[Entrant]:
    """A materializer for each partition, over a separate log, which they see once each has its partition."""
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
    """Lend the settings of this many materializers of one group, each with its own directory."""
    group = uuid.uuid4().hex
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "topics.yaml"
        config.write_text(json.dumps({"topics": [load.declared]}))
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
    return [sys.executable, "-m", "sowline_materializer"], settings


def report(records: int, figures: Mapping[str, Figure]) -> str:
    """Return the medians, and how the cores compare, as a table."""
    _, python, native = figures.values()
    compared = ratio(native, python, "native compared to Python")
    return f"{records:,} records in {PARTITIONS} partitions.\n\n{table(HEAD, [*rows(figures), compared])}"
