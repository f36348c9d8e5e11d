"""Watches the ends of the changes topics, because an idle worker would otherwise miss the writes of stale owners.

The offsets of its own events show a batch what others wrote before it. Without batches, compaction could keep the
events of a stalled owner, and nobody would notice a deleted topic until the next event.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import structlog
from confluent_kafka import KafkaError, KafkaException

from materializer.emitter import NotWritten
from materializer.partition.partition import PartitionId
from sowline.kafka.admin import Cluster
from sowline.kafka.cluster_answer import ClusterAnswer
from sowline.protocol.change import ChangesId

log = structlog.get_logger()

LOOK_SECONDS = 5.0
"""Seconds between two looks: much less than compaction leaves alone; each look costs two requests."""


class KnownEnd(NamedTuple):
    """The end offset of a changes partition and which changes it has (`ChangesId`), as its owner knows them."""

    changes_id: str
    end: int
    has_sow: bool = True


class StaleWriteMonitor:
    """Checks changes partitions without waiting for Kafka: the answer comes some calls later."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._asked: ClusterAnswer | None = None
        self._known: dict[PartitionId, KnownEnd] = {}
        self._next = 0.0

    def look(self, known: Callable[[], Mapping[PartitionId, KnownEnd]], now: float) -> dict[PartitionId, int]:
        """Return the ends of partitions from a look that is over; most calls return nothing.

        `known` is called when a look begins; `now` is in seconds of a monotonic clock. Raise `NotWritten` if a topic
        is gone, is another one or has lost its head: what was written to it is lost, and must be written again.
        """
        if self._asked is None:
            if now >= self._next:
                self._next = now + LOOK_SECONDS
                self._known = dict(known())
                self._asked = self._cluster.ask(self._known, starts=True) if self._known else None
            return {}
        if not self._asked.is_answered:
            return {}
        asked, self._asked = self._asked, None
        return self._found(asked)

    def _found(self, asked: ClusterAnswer) -> dict[PartitionId, int]:
        try:
            ids, starts, ends = asked.topic_ids(), asked.starts(), asked.ends()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise NotWritten(f"a changes topic is gone: {error}") from error
            log.warning("Kafka reported an error", why=str(error))
            return {}
        for partition_id, known in self._known.items():
            start = starts[partition_id] if known.has_sow else 0
            if known.changes_id not in ("", str(ChangesId(ids[partition_id[0]], start))):
                raise NotWritten(f"{partition_id[0]} was deleted and made again, or has lost its head")
            if ends[partition_id] < known.end:
                raise NotWritten(f"{partition_id[0]} was deleted and made again, or has lost its end")
        return ends
