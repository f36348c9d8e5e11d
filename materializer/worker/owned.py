"""The partitions that a worker owns. Assignment, batches and repair share them."""

from collections.abc import Mapping

from materializer.partition.owner_commands import OwnerCommands
from materializer.partition.partition import Partition, PartitionId
from materializer.store.rocksdb import RocksStore
from materializer.store.write_behind import WriteBehindStore
from sowline.config.topic_definition import TopicDefinition


class OwnedPartitions:
    """The open partitions of a worker, and why others that were assigned to it are stopped."""

    def __init__(self, definitions: Mapping[str, TopicDefinition]) -> None:
        self.definitions = definitions
        """By their log topics."""
        self.partitions: dict[PartitionId, Partition] = {}
        self.stores: dict[PartitionId, WriteBehindStore[RocksStore]] = {}
        self.owner_commands: dict[PartitionId, OwnerCommands] = {}
        self.stopped: dict[PartitionId, str] = {}

    @property
    def assigned(self) -> list[PartitionId]:
        """The partitions that are open or stopped."""
        return [*self.partitions, *self.stopped]

    def add(self, partition_id: PartitionId, partition: Partition) -> None:
        """Add a partition that was opened."""
        self.partitions[partition_id] = partition
        self.owner_commands[partition_id] = OwnerCommands(partition)

    def close(self) -> None:
        """Close the stores of all partitions; their state stays on disk."""
        for partition in self.partitions.values():
            partition.close()
        self.partitions.clear()
        self.stores.clear()
        self.owner_commands.clear()
