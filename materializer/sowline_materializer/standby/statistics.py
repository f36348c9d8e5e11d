"""The statistics of a worker's warm copies."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sowline_materializer.partition.partition import PartitionId


@dataclass(frozen=True)
class StandbyStatistics:
    """Statistics of the copies: how many are warm, how many changes each has to apply, how many were taken over."""

    warm: int = 0
    behind: Mapping[PartitionId, int] = field(default_factory=dict)
    takeovers: int = 0
