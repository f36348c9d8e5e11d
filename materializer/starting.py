"""Whether the service starts: only then do transient topics begin at their recovery point.

It starts with the first worker of a group that has no other members. A partition that merely moves between workers,
or comes back to one that began again, keeps its state.
"""

from collections.abc import Iterable

from sowline.cluster import Cluster
from sowline.topics import TopicDefinition

Place = tuple[str, int]
"""A log topic's name and the number of one of its partitions."""


class Starting:
    """Where the partitions of transient topics begin anew; asked before the worker joins its group."""

    def __init__(self, cluster: Cluster, group: str, definitions: Iterable[TopicDefinition]) -> None:
        self._cluster = cluster
        transient = [definition for definition in definitions if definition.begins_anew]
        self._definitions = {definition.log: definition for definition in transient}
        self._changes_ends: dict[Place, int] = {}
        if transient and cluster.is_empty_group(group):
            for definition in transient:
                ends = cluster.ends(definition.changes, range(definition.partitions))
                self._changes_ends |= {(definition.log, number): end for number, end in ends.items()}

    def offset(self, place: Place, changes_end: int, log_end: int) -> int | None:
        """Return where in its log a partition begins anew; None if it goes on, for somebody has had it since."""
        if self._changes_ends.get(place) != changes_end:
            return None
        time = self._definitions[place[0]].recovery_time
        return log_end if time is None else self._cluster.offset_at(*place, time)

    def over(self) -> None:
        """Say that the first partitions were handed out: from now on they only move."""
        self._changes_ends = {}
