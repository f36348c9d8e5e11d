"""The materializer compared to others on the same job: a raw loop, Kafka Streams and Quix Streams.

The job is that of `bench.merging`: for each command on a log of two partitions, the merged record to a topic. All get
the same log with the headers of commands, and the same broker, in turn; the last output of each key is checked. The
raw loop merges nothing: it is the measure of all Python on Kafka.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import NamedTuple

from bench.broker import broker
from bench.materialize import RAW, materializer, materializers, raw_loop
from bench.merging import (
    HEAD,
    PARTITIONS,
    Entrant,
    Figure,
    Load,
    check,
    line,
    measure,
    median,
    new_load,
    ratio,
    rows,
)
from bench.peers.kafka_streams import Stores, kafka_streams
from bench.peers.quix import quix
from bench.table import medians_of, table
from sowline.config.topic_definition import define_topic

QUIX = "Quix Streams 3.28.1"
ONE, TWO = "materializer, one process", "materializer, a process for each partition"
NUMBERED = "{}, with publishers' numbers"


class Contestant(NamedTuple):
    """An entrant: its name, what it runs over a load, and whether it merges."""

    name: str
    enter: Callable[[Load], AbstractContextManager[Entrant]]
    merges: bool = True


def _with_output(
    enter: Callable[[Load, str], AbstractContextManager[Entrant]],
) -> Callable[[Load], AbstractContextManager[Entrant]]:
    """Give an entrant a topic for its outputs."""

    @contextmanager
    def entered(load: Load) -> Iterator[Entrant]:
        merged = define_topic(name=f"merged-{uuid.uuid4().hex[:8]}", key=("/order",), partitions=PARTITIONS)
        load.cluster.ensure_topic(merged)
        with enter(load, merged.log) as entrant:
            yield entrant

    return entered


CONTESTANTS = (
    Contestant(RAW, raw_loop, merges=False),
    *(Contestant(stores, _with_output(partial(kafka_streams, stores=stores))) for stores in Stores),
    Contestant(QUIX, _with_output(quix)),
    Contestant(ONE, materializer),
    Contestant(TWO, materializers),
)


def run(records: int, runs: int) -> str:
    """Measure all in turn; return a table of medians and ratios."""
    with broker() as bootstrap:
        plain, numbered = new_load(bootstrap, records), new_load(bootstrap, records, is_numbered=True)
        entered = [(contestant.name, contestant, plain) for contestant in CONTESTANTS]
        entered += [
            (NUMBERED.format(contestant.name), contestant, numbered)
            for contestant in CONTESTANTS
            if contestant.name in (Stores.PLAIN, ONE)
        ]
        figures = by_turns(entered, runs)
    return report(records, runs, figures)


def by_turns(entered: Sequence[tuple[str, Contestant, Load]], runs: int) -> dict[str, Figure]:
    """Measure each over its load as often as `runs` says, one after the other; return the medians by name."""
    figures: dict[str, list[Figure]] = {name: [] for name, _, _ in entered}
    for number in range(runs):
        for name, contestant, load in entered:
            figures[name].append(_measured(contestant, load, checked=not number))
            print(line(name, figures[name][-1]), flush=True)
    return {name: median(some) for name, some in figures.items()}


def _measured(contestant: Contestant, load: Load, checked: bool) -> Figure:
    with contestant.enter(load) as entrant:
        figure = measure(load, entrant)
        if checked and contestant.merges:
            check(load, entrant)
    return figure


def report(records: int, runs: int, figures: dict[str, Figure]) -> str:
    """Return the table of medians, and the ratios that are asked for."""
    ours, two = figures[ONE], figures[TWO]
    ratios = [ratio(ours, figures[name], f"one process compared to {name}") for name in (*Stores, QUIX)]
    ratios += [
        ratio(two, figures[Stores.PLAIN], "two processes compared to Kafka Streams, two threads"),
        ratio(
            figures[NUMBERED.format(ONE)],
            figures[NUMBERED.format(Stores.PLAIN)],
            "one process compared to Kafka Streams, with publishers' numbers",
        ),
    ]
    both = ("two processes compared to one", f"{two.rate / ours.rate:.2f} times its records/s", "", "", "")
    caption = f"{records:,} records of {records // 10:,} keys in {PARTITIONS} partitions, {medians_of(runs)}."
    return f"{caption}\n\n{table(HEAD, [*rows(figures), *ratios, both])}"
