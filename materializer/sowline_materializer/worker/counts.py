"""The statistics of a worker."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from sowline.native import Core
from sowline.runtime.metrics import Latencies
from sowline_materializer.core.step import FOREIGN, REPEAT
from sowline_materializer.partition.partition import PartitionId, Prepared
from sowline_materializer.standby.statistics import StandbyStatistics

_OP = attrgetter("op")


@dataclass
class Counts:
    """The work of a worker since it started."""

    records: int = 0
    changes: int = 0
    commands: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    dead: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    repeats: int = 0
    foreign_copies: int = 0
    forwards: int = 0
    publishers_pushed_out: int = 0
    stale_owner_writes: int = 0
    batches: int = 0
    busy_seconds: float = 0.0
    flush_seconds: float = 0.0
    emitting: Latencies = field(default_factory=Latencies)
    """From a record's append to the log until Kafka had its change; each batch counts its oldest record."""

    def count(self, batch: Prepared) -> None:
        """Add what a batch did."""
        step = batch.step
        self.records += batch.records
        self.changes += len(step.changes)
        for op, changes in step.commands.items():
            self.commands[op] += changes
        for letter in step.dead:
            self.dead[letter.reason] += 1
        self.repeats += sum(outcome == REPEAT for outcome in step.outcomes.values())
        self.foreign_copies += sum(outcome == FOREIGN for outcome in step.outcomes.values())
        self.forwards += len(step.forwards)
        self.publishers_pushed_out += step.publishers_pushed_out


@dataclass(frozen=True)
class WorkerStatistics:
    """A worker's counts, the positions of its partitions and their lag, and which are stopped or being opened.

    `cores` is how many partitions each core applies. `leaderless` says why partitions wait for a leader, `waiting`
    why they wait for a schema, and `logs_gone` why they get no records.
    """

    counts: Counts
    positions: dict[PartitionId, str]
    behind: dict[PartitionId, int]
    stopped: dict[PartitionId, str]
    opening: list[PartitionId]
    leaderless: Mapping[PartitionId, str] = field(default_factory=dict)
    standby: StandbyStatistics = field(default_factory=StandbyStatistics)
    cores: Mapping[Core, int] = field(default_factory=dict)
    waiting: Mapping[PartitionId, str] = field(default_factory=dict)
    logs_gone: Mapping[PartitionId, str] = field(default_factory=dict)
