"""The job of `bench.peers` over ten times as many records and keys.

Most keys are then updated after their record has left memory, so the local stores decide: RocksDB for all.
"""

from bench.broker import broker
from bench.merging import HEAD, PARTITIONS, new_load, ratio, rows
from bench.peers import CONTESTANTS, ONE, TWO, by_turns
from bench.peers.kafka_streams import Stores
from bench.table import medians_of, table

TIMES = 10
ENTERED = (*Stores, ONE, TWO)


def run(records: int, runs: int) -> str:
    """Measure all in turn over ten times `records`; return a table of medians and ratios."""
    with broker() as bootstrap:
        load = new_load(bootstrap, records * TIMES)
        entered = [(one.name, one, load) for one in CONTESTANTS if one.name in ENTERED]
        figures = by_turns(entered, runs)
    ratios = [
        ratio(figures[ours], figures[other], f"{ours} compared to {other}")
        for ours in (ONE, TWO)
        for other in Stores
    ]
    keys = load.records // 10
    caption = f"{load.records:,} records of {keys:,} keys in {PARTITIONS} partitions, {medians_of(runs)}."
    return f"{caption}\n\n{table(HEAD, [*rows(figures), *ratios])}"
