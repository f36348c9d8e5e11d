"""Logs that were deleted and created again, or cut, while a worker applies them: their partitions begin an era."""

from typing import Final

from sowline.kafka.fetched_ids import FetchedIds
from sowline_materializer.partition.partition import PartitionId
from sowline_materializer.topic_monitor import KnownEnd, MonitorAnswer
from sowline_materializer.worker.owned import OwnedPartitions

GONE: Final = (
    "the log {topic} was deleted: create it again, and a new era begins; or restart the materializer, which creates"
    " it"
)


class ReplacedLogs:
    """Compares the logs that the consumer reads with those of the states.

    Three signs show that they differ. The consumer fetches the log by another topic id: this is known before the
    first record of the new log is applied. It finds nothing at its offset. The look of a `TopicMonitor` finds
    another id, or an end before the state.
    """

    def __init__(self, owned: OwnedPartitions, fetched: FetchedIds) -> None:
        self._owned = owned
        self._fetched = fetched
        self._seen: set[PartitionId] = set()
        self._gone: frozenset[str] = frozenset()

    def known_ends(self) -> dict[PartitionId, KnownEnd]:
        """Return the logs of our partitions, and the least offsets at which they end."""
        return {
            one: KnownEnd(partition.checkpoint.log_id, partition.checkpoint.next_offset, has_head=False)
            for one, partition in self._owned.partitions.items()
        }

    def note(self, look: MonitorAnswer) -> None:
        """Take in what a look has found."""
        self._seen |= look.replaced
        self._gone = look.gone & self._owned.definitions.keys()

    def removed(self, topic: str, partition: int) -> None:
        """Note that the consumer has found nothing at its offset of a partition."""
        self._seen.add((topic, partition))

    def take(self) -> list[PartitionId]:
        """Return our partitions whose log is no longer that of their state."""
        seen, self._seen = self._seen, set()
        # Records of the new log must not be applied in the era of the old one: they count from another beginning, and
        # the new era applies them again (test_a_log_that_is_replaced_under_a_running_worker).
        return [
            one
            for one, partition in self._owned.partitions.items()
            if one in seen or self._fetched.is_other(one[0], partition.checkpoint.log_id)
        ]

    def gone(self) -> dict[PartitionId, str]:
        """Return why partitions get no records: their logs do not exist. Safe to call from any thread.

        The group takes the partitions of a log that is gone from their owners, so each worker names all of them
        (test_a_log_that_is_gone_for_a_while).
        """
        # A copy: the worker's thread forgets a definition that left the file, up to one look before this knows it
        # (test_a_log_that_is_gone_may_leave_the_file).
        definitions = dict(self._owned.definitions)
        return {
            (log, number): GONE.format(topic=log)
            for log in sorted(self._gone & definitions.keys())
            for number in range(definitions[log].partitions)
        }
