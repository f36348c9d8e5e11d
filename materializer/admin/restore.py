"""Restoring a backup: its records become the newest events of an empty changes topic, which all others load.

The events say where the state stands last of all, so what was cut short is no state, and is found out.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from materializer.aside import Aside, fill
from materializer.backup import Backup, Part, read_entries
from materializer.emitter import Emitter, NotWritten
from materializer.partition import Partition, progress_of
from materializer.recovery import Opened
from materializer.store import RocksStore
from sowline.change import Event
from sowline.cluster import Cluster
from sowline.errors import SowlineError
from sowline.kafka import KafkaConfig
from sowline.settings import WORKERS
from sowline.topics import TopicDefinition

BATCH_MAX = 1000


def require_no_workers(cluster: Cluster, group: str, definition: TopicDefinition) -> None:
    """Raise `workers active` unless no materializer is running, of whichever group: nobody else may write changes."""
    active = [name for name in cluster.groups_reading(definition.log) if name.endswith(WORKERS)]
    if not cluster.is_empty_group(group):
        active.append(group)
    if active:
        raise SowlineError(
            "workers active",
            f"expected no materializer to run, but group {active[0]} has members. Stop them, and wait until the "
            "group has noticed",
        )


def restore(
    kafka: KafkaConfig, group: str, definition: TopicDefinition, backup: Backup, asides: Iterable[Aside]
) -> None:
    """Write a backup into the empty changes of a topic.

    Raises `definition changed`, `workers active`, `changes present`, and `backup damaged` before anything is written
    of the partition.
    """
    if backup.definition != definition.digest:
        raise SowlineError(
            "definition changed",
            f"expected a backup of a topic that is defined as {definition.name} in topics.yaml, got one of "
            f"{backup.topic} that is defined otherwise (key, key_domain, partitions, preprocessing, enrichment)",
        )
    cluster = Cluster(kafka)
    require_no_workers(cluster, group, definition)
    cluster.ensure_topic(definition)
    _require_empty(cluster, definition)
    changes_id = cluster.topic_id(definition.changes)
    emitter = Emitter(kafka, [definition], lambda: False)
    try:
        stand: list[Event] = [
            _restore_part(emitter, aside, backup, part, changes_id)
            for aside, part in zip(asides, backup.parts, strict=True)
        ]
        for number, event in enumerate(stand):
            emitter.events(definition, number, [event])
        emitter.wait()
    except NotWritten as error:
        raise SowlineError(
            "not written", f"{error}. Delete {definition.changes}, and restore again"
        ) from error
    finally:
        emitter.close()


def _require_empty(cluster: Cluster, definition: TopicDefinition) -> None:
    partitions = range(definition.partitions)
    starts, ends = (
        cluster.starts(definition.changes, partitions),
        cluster.ends(definition.changes, partitions),
    )
    held = [number for number in partitions if starts[number] < ends[number]]
    if held:
        raise SowlineError(
            "changes present",
            f"expected an empty topic {definition.changes}, found changes in partition {held[0]}. Delete it to "
            "replace the state that it holds, or restore under another name",
        )


def _restore_part(emitter: Emitter, aside: Aside, backup: Backup, part: Part, changes_id: str) -> Event:
    """Write one partition's records, and return the event that says where they stand."""
    store = RocksStore(aside.new_path(), create=True)
    fill(store, read_entries(backup, part), part.head)
    partition = Partition(aside.definition, aside.partition, Opened(store, part.head, part.head.position))
    keys, done = (key for key, _ in store.scan()), 0
    while batch := list(islice(keys, BATCH_MAX)):
        emitter.events(aside.definition, aside.partition, partition.again(batch))
        emitter.wait()
        done += len(batch)
        aside.tell(f"restoring {aside.name}", done, part.entries)
    store.close()
    head = replace(part.head, changes_id=changes_id, spoiled=frozenset())
    return progress_of(head, head.next_offset, {})
