"""Restoring a backup: its records become the newest events of an empty changes topic, which all others load.

The restore writes the position last, so an interrupted restore is recognized as incomplete.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from sowline.changes.event import Event
from sowline.config.kafka_options import KafkaConfig
from sowline.config.settings import WORKERS
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.kafka.admin import Cluster
from sowline.kafka.last_eras import LastEras, note_begun_era
from sowline_materializer.admin.backup import Backup, BackupPart, read_entries
from sowline_materializer.admin.offline_copy import OfflineCopies, fill
from sowline_materializer.admin.restored_eras import in_their_eras
from sowline_materializer.emitter import Emitter, NotWritten
from sowline_materializer.partition.kafka_partition import changes_id
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.partition import Partition, progress_of
from sowline_materializer.store.rocksdb import RocksStore

BATCH_MAX = 1000


def require_no_workers(cluster: Cluster, group: str, definition: TopicDefinition) -> None:
    """Raise `workers active` unless no materializer of any group is running: no other process may write changes."""
    active = [name for name in cluster.groups_reading(definition.log) if name.endswith(WORKERS)]
    if not cluster.is_empty_group(group):
        active.append(group)
    if active:
        raise SowlineError(
            "workers active",
            f"expected no materializer to run, but group {active[0]} has members. Stop them, and wait until the "
            "group is empty",
        )


def restore(
    kafka: KafkaConfig,
    group: str,
    definition: TopicDefinition,
    backup: Backup,
    asides: Iterable[OfflineCopies],
) -> Backup:
    """Write a backup into the empty changes of a topic; return it with the checkpoints of the restored state.

    Raises `definition changed`, `workers active`, `changes present`, `not supported`, and `backup damaged` before
    anything is written of the partition.
    """
    if any(part.checkpoint.under(definition) is None for part in backup.parts):
        raise SowlineError(
            "definition changed",
            f"expected a backup of a topic that is defined as {definition.name} in topics.yaml, got one of "
            f"{backup.topic} that is defined otherwise: in {definition.deciding}",
        )
    cluster = Cluster(kafka)
    require_no_workers(cluster, group, definition)
    cluster.ensure_topic(definition)
    _require_empty(cluster, definition)
    topic_id = cluster.topic_id(definition.changes)
    starts = cluster.starts(definition.changes, range(definition.partitions))
    parts = _in_their_eras(kafka, cluster, definition, backup.parts)
    emitter = Emitter(kafka, lambda: False)
    try:
        stand: list[Event] = [
            _restore_part(
                emitter,
                offline,
                backup,
                part,
                changes_id(definition, topic_id, starts[offline.partition]),
            )
            for offline, part in zip(asides, parts, strict=True)
        ]
        # Last, and only when Kafka has all records: a partition with a position counts as complete.
        for number, event in enumerate(stand):
            emitter.events(definition, number, [event])
        emitter.wait()
    except NotWritten as error:
        raise SowlineError(
            "not written", f"{error}. Delete {definition.changes}, and restore again"
        ) from error
    finally:
        emitter.close()
    return replace(backup, parts=parts)


def _in_their_eras(
    kafka: KafkaConfig, cluster: Cluster, definition: TopicDefinition, parts: list[BackupPart]
) -> list[BackupPart]:
    """Return the parts with the checkpoints to continue from; an era that begins is stored as used."""
    log, log_id = definition.log, cluster.topic_id(definition.log)
    if definition.view is not None and any(part.checkpoint.log_id != log_id for part in parts):
        # The positions that it reflects may be those of another source, which would seem to have less. The view would
        # keep what it has until its source is that far (test_a_view_is_restored_over_its_log_only).
        raise SowlineError(
            "not supported",
            f"expected the Kafka topic {log} from which the backup of {definition.name} was made, got another one:"
            f" restore no view, and start the materializers. It computes its records from {definition.view.source}",
        )
    starts = cluster.starts(log, range(definition.partitions))
    last = LastEras(kafka, cluster).of(log)
    eras = in_their_eras([part.checkpoint for part in parts], log_id, last, starts)
    newest = max(one.position.era for one in eras)
    if newest > max(part.checkpoint.position.era for part in parts):
        note_begun_era(kafka, cluster, log, newest)
    return [replace(part, checkpoint=one) for part, one in zip(parts, eras, strict=True)]


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


def _restore_part(
    emitter: Emitter, offline: OfflineCopies, backup: Backup, part: BackupPart, id: str
) -> Event:
    """Write one partition's records, and return the event with their position."""
    store = RocksStore(offline.new_path(), create=True)
    # The whole part is read before any of it is written: a damaged file must not leave half a partition in Kafka.
    fill(store, read_entries(backup, part), part.checkpoint)
    partition = Partition(
        offline.definition,
        offline.partition,
        OpenedPartition(store, part.checkpoint, part.checkpoint.position),
    )
    keys, done = (key for key, _ in store.scan()), 0
    while batch := list(islice(keys, BATCH_MAX)):
        emitter.events(offline.definition, offline.partition, partition.newest_events(batch))
        emitter.wait()
        done += len(batch)
        offline.report(f"restoring {offline.name}", done, part.entries)
    store.close()
    checkpoint = replace(part.checkpoint, changes_id=id, stale_keys=frozenset())
    return progress_of(checkpoint, checkpoint.next_offset, {})
