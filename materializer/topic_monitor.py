"""Watches the topics of a worker's partitions: where they end, and whether they are still the same ones.

The offsets of its own events show a batch what others wrote before it. Without batches, compaction could keep the
events of a stalled owner, and nobody would notice a deleted topic until the next event. A log that has lost its end,
or is another one, is noticed here at the latest.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import structlog
from confluent_kafka import KafkaException

from materializer.partition.partition import PartitionId
from sowline.kafka.admin import Cluster
from sowline.kafka.cluster_answer import ClusterAnswer
from sowline.protocol.change import ChangesId

log = structlog.get_logger()

LOOK_SECONDS = 3.0
"""Seconds between two looks: much less than compaction leaves alone; each look costs two requests. A log that was cut
is to be noticed within five seconds."""


class KnownEnd(NamedTuple):
    """The end offset of a partition and which topic it is of, as its owner knows them.

    `id` is a topic id; if the head of the partition counts, it is a `ChangesId`.
    """

    id: str
    end: int
    has_head: bool = True


class MonitorAnswer(NamedTuple):
    """What a look has found: the ends of partitions, those that were replaced or cut, and topics that are gone."""

    ends: Mapping[PartitionId, int]
    replaced: frozenset[PartitionId]
    gone: frozenset[str]


class TopicMonitor:
    """Checks partitions without waiting for Kafka: the answer comes some calls later."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._asked: ClusterAnswer | None = None
        self._known: dict[PartitionId, KnownEnd] = {}
        self._next = 0.0

    def look(self, known: Callable[[], Mapping[PartitionId, KnownEnd]], now: float) -> MonitorAnswer | None:
        """Return what a look has found that is over; most calls return None.

        `known` is called when a look begins; `now` is in seconds of a monotonic clock.
        """
        if self._asked is None:
            if now >= self._next:
                self._next = now + LOOK_SECONDS
                self._known = dict(known())
                heads = [one for one, known in self._known.items() if known.has_head]
                self._asked = self._cluster.ask(self._known, starts=heads) if self._known else None
            return None
        if not self._asked.is_answered:
            return None
        asked, self._asked = self._asked, None
        try:
            return self._found(asked)
        except KafkaException as error:
            log.warning("Kafka reported an error", why=str(error))
            return None

    def _found(self, asked: ClusterAnswer) -> MonitorAnswer:
        gone = asked.gone()
        ids, starts, ends = asked.topic_ids(gone), asked.starts(gone), asked.ends(gone)
        replaced = {
            one
            for one, known in self._known.items()
            if one[0] in ids
            and (
                known.id not in ("", str(ChangesId(ids[one[0]], starts[one] if known.has_head else 0)))
                or ends[one] < known.end
            )
        }
        return MonitorAnswer(ends, frozenset(replaced), gone)
