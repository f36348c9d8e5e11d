"""Compaction of a changes topic, at once instead of after its lag."""

from collections.abc import Callable, Mapping

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.integration.changes import read_changes
from tests.integration.model import Position
from tests.integration.services import System
from tests.waiting import SECONDS_MAX, wait_for

AT_ONCE = {
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "1",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "100",
}


def hasten_compaction(system: System, topic: str) -> None:
    """Let Kafka compact a topic's changes as soon as it can."""
    _configure(
        system,
        topic,
        [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in AT_ONCE.items()
        ],
    )


def end_haste(system: System, topic: str) -> None:
    """Let the settings be Kafka's own again; a service that is started then sets them right."""
    delete = AlterConfigOpType.DELETE
    _configure(system, topic, [ConfigEntry(name, None, incremental_operation=delete) for name in AT_ONCE])


def _configure(system: System, topic: str, entries: list[ConfigEntry]) -> None:
    changes = system.topic(topic).changes
    resource = ConfigResource(ResourceType.TOPIC, changes, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": system.kafka})
    admin.incremental_alter_configs([resource])[resource].result(SECONDS_MAX)


def compact(
    system: System,
    topic: str,
    write: Callable[[int], object],
    after: Mapping[int, Position] | None = None,
    everywhere: bool = False,
) -> None:
    """Write changes again and again, until compaction has removed some, of each partition if `everywhere`.

    `write` is given a rising number. With `after`, only changes after these positions count, by partition.
    """
    rounds = iter(range(1, 1_000_000))
    partitions = system.topic(topic).partitions

    def removed() -> bool:
        write(next(rounds))
        changes, _ = read_changes(system, topic)
        held = dict.fromkeys(range(partitions), (-1, 0)) | dict(after or {})
        compacted = set()
        for change in changes:
            # A gap between older changes removes nothing that a reader at `after` still needs.
            if change.position > held[change.partition]:
                if change.after > held[change.partition]:
                    compacted.add(change.partition)
                held[change.partition] = change.position
        return len(compacted) >= (partitions if everywhere else 1)

    wait_for(removed, "compaction")
