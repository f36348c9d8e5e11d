"""Watches a worker's topics: where its partitions end, and whether the topics exist and are still the same ones.

The offsets of its own events show a batch what others wrote before it. Without batches, compaction could keep the
events of a stalled owner, and nobody would notice a deleted topic until the next event. A log that has lost its end,
or is another one, is noticed here at the latest.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from sowline.changes.progress import ChangesId
from sowline.kafka.admin import Cluster
from sowline.kafka.cluster_answer import ClusterAnswer, RepeatedQuestion
from sowline.kafka.leaderless import Leaderless
from sowline_materializer.partition.partition import PartitionId

LOOK_SECONDS: Final = 3.0
"""Seconds between two looks, each of which asks for the ids of all topics. A log that was replaced is to be noticed
within five seconds."""

ENDS_MAX: Final = 200
"""The partitions whose ends a look asks for. If there are more, each look takes some, in turn."""

TURN_SECONDS_MAX: Final = 30.0
"""Within this time, a worker that has all partitions looks at each of them; a new one waits at most twice as long.
That is much less than compaction leaves alone. If a log has lost its end, the consumer notices that at once, too."""


class KnownEnd(NamedTuple):
    """The end offset of a partition and its topic, as its owner knows them.

    `id` is a topic id; if the head of the partition counts, it is a `ChangesId`.
    """

    id: str
    end: int
    has_head: bool = True

    def is_in(self, topic_id: str, start: int | None, end: int | None) -> bool:
        """Return whether it can be an end of the topic with this id, which begins and ends at these offsets.

        None stands for an offset that was not asked for.
        """
        mine = ChangesId.parse(self.id)
        is_same = mine.topic == topic_id and (not self.has_head or start in (None, mine.start))
        return (not self.id or is_same) and (end is None or end >= self.end)


class MonitorAnswer(NamedTuple):
    """The result of a look: ends of some partitions, those that were replaced or cut, topics that are gone, and
    partitions without a leader.
    """

    ends: Mapping[PartitionId, int]
    replaced: frozenset[PartitionId]
    gone: frozenset[str]
    leaderless: Leaderless = MappingProxyType({})


class TopicMonitor:
    """Checks partitions without waiting for Kafka: the answer arrives some calls later.

    `topics` returns those that are checked even if none of their partitions is known. To ask where thousands of idle
    partitions end, every few seconds, would take several percent of a core.
    """

    def __init__(self, cluster: Cluster, topics: Callable[[], Collection[str]]) -> None:
        self._cluster = cluster
        self._topics = topics
        self._question = RepeatedQuestion(LOOK_SECONDS)
        self._known: dict[PartitionId, KnownEnd] = {}
        self._waiting: list[PartitionId] = []

    def look(self, known: Callable[[], Mapping[PartitionId, KnownEnd]], now: float) -> MonitorAnswer | None:
        """Return the result of a look that has ended; most calls return None.

        `known` is called when a look begins; `now` is in seconds of a monotonic clock.
        """

        def ask() -> ClusterAnswer | None:
            # The ends from before the question: an owner that writes until the answer arrives must not seem to be
            # ahead of its topic.
            self._known = dict(known())
            topics = self._topics()
            return self._ask(self._turn(), topics) if self._known or topics else None

        return self._question.look(now, ask, self._found)

    def _turn(self) -> list[PartitionId]:
        """Return the partitions whose ends are asked for next."""
        # Partitions may have moved away since the turn was planned.
        waiting = [one for one in self._waiting if one in self._known] or list(self._known)
        count = max(ENDS_MAX, math.ceil(len(self._known) * LOOK_SECONDS / TURN_SECONDS_MAX))
        self._waiting = waiting[count:]
        return waiting[:count]

    def _ask(self, turn: Sequence[PartitionId], topics: Collection[str]) -> ClusterAnswer:
        heads = [one for one in turn if self._known[one].has_head]
        return self._cluster.ask(turn, starts=heads, topics={*topics, *(topic for topic, _ in self._known)})

    def _found(self, asked: ClusterAnswer) -> MonitorAnswer:
        gone = asked.gone()
        ids, starts, ends = asked.topic_ids(gone), asked.starts(gone), asked.ends(gone)
        replaced = frozenset(
            one
            for one, known in self._known.items()
            if one[0] in ids and not known.is_in(ids[one[0]], starts.get(one), ends.get(one))
        )
        return MonitorAnswer(ends, replaced, gone, asked.leaderless(gone))
