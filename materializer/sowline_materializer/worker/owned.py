"""The partitions that a worker owns. Assignment, batches and repair share them."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import structlog

from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError, fault_sentence
from sowline.kafka.leaderless import Leaderless, why_it_waits
from sowline.kafka.retriable import RESTART_ERRORS
from sowline_materializer.core.errors import NotApplicable
from sowline_materializer.partition.owner_commands import OwnerCommands
from sowline_materializer.partition.partition import Partition, PartitionId
from sowline_materializer.store.rocksdb import RocksStore
from sowline_materializer.store.write_behind import WriteBehindStore
from sowline_materializer.worker.leaders import WithoutLeader

log = structlog.get_logger()

WORKER_ENDS: Final = (*RESTART_ERRORS, MemoryError, OSError)
"""Errors that say nothing about one partition: they end the worker, and the next one continues."""


class OwnedPartitions:
    """The partitions that were assigned to a worker, each in one of three states: open, stopped, or leaderless.

    A partition becomes open or stopped when it is opened, and leaderless at any time. It stays stopped until it is
    released, and is opened again once it is no longer leaderless.
    """

    def __init__(self, definitions: Mapping[str, TopicDefinition]) -> None:
        self.definitions = dict(definitions)
        """The definitions of the topics, by their log topics. Those that left the file stay until the group has taken
        their partitions."""
        self.partitions: dict[PartitionId, Partition] = {}
        self.stores: dict[PartitionId, WriteBehindStore[RocksStore]] = {}
        self.owner_commands: dict[PartitionId, OwnerCommands] = {}
        self.stopped: dict[PartitionId, str] = {}
        self.leaderless: dict[PartitionId, Leaderless] = {}
        """The partitions of Kafka for whose leaders a partition waits."""

    @property
    def assigned(self) -> list[PartitionId]:
        """The partitions in any state."""
        return [*self.partitions, *self.stopped, *self.leaderless]

    def of_logs(self, logs: Collection[str]) -> list[PartitionId]:
        """Return the partitions of some logs."""
        return [one for one in self.assigned if one[0] in logs]

    def add(self, partition_id: PartitionId, partition: Partition) -> None:
        """Add a partition that was opened."""
        self.partitions[partition_id] = partition
        self.owner_commands[partition_id] = OwnerCommands(partition)

    @contextmanager
    def guarded(self, partition_id: PartitionId) -> Iterator[None]:
        """Stop the partition if the block raises an error that is its own, or let it wait; others continue.

        An error of `WORKER_ENDS` is passed on.
        """
        try:
            yield
        except WithoutLeader as error:
            self.await_leader(partition_id, error.leaderless)
        except WORKER_ENDS:
            raise
        except Exception as error:
            self.stop(partition_id, error)

    def stop(self, partition_id: PartitionId, error: Exception) -> None:
        """Close the partition, and note why it stopped.

        Nothing of it is written from here on. Kafka may have events of its last batch, which is not committed: a
        repair would write older events after them. The next owner finds them, as it does after a crash.
        """
        topic, number = partition_id
        if isinstance(error, SowlineError):
            why = error.message
            log.error("partition stopped", topic=topic, partition=number, reason=error.reason, why=why)
        else:
            why = self._unexpected(partition_id, error)
            log.exception("partition stopped", topic=topic, partition=number, reason="unexpected", why=why)  # noqa: LOG004 - callers handle it
        self.stopped[partition_id] = why
        self._close(partition_id)

    def await_leader(self, partition_id: PartitionId, leaderless: Leaderless) -> None:
        """Close the partition until these of Kafka have a leader; it then continues from its checkpoint."""
        topic, number = partition_id
        log.warning(
            "partition waits for a leader", topic=topic, partition=number, why=why_it_waits(leaderless)
        )
        self.leaderless[partition_id] = leaderless
        self._close(partition_id)

    def _close(self, partition_id: PartitionId) -> None:
        self.owner_commands.pop(partition_id, None)
        self.stores.pop(partition_id, None)
        partition = self.partitions.pop(partition_id, None)
        if partition is not None:
            partition.close()

    def _unexpected(self, partition_id: PartitionId, error: Exception) -> str:
        if isinstance(error, NotApplicable):
            at, cause = f"the log record at offset {error.offset}", error.__cause__
        elif (partition := self.partitions.get(partition_id)) is not None:
            at, cause = f"the log records from offset {partition.checkpoint.next_offset} on", error
        else:
            at, cause = "the state in this worker's store and in the changes topic", error
        sentence = fault_sentence(f"apply {at}", cause, "the materializer")
        return f"{sentence}. What comes before is applied, and nothing after it is lost"

    def close(self) -> None:
        """Close the stores of all partitions; their state stays on disk."""
        for partition in self.partitions.values():
            partition.close()
        self.partitions.clear()
        self.stores.clear()
        self.owner_commands.clear()
