"""Rebuilding: after a change of the definition, the state is made again, from the beginning of the log.

An era with an empty base begins: the end of each record is written to the changes, and then the partition's position,
with the new definition. Local stores do not lead there, so workers load the changes and apply the log from its
beginning.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from sowline.changes.event import Event
from sowline.changes.progress import Begin
from sowline.commands.command import LogRecord
from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.errors import SowlineError
from sowline.kafka.admin import Cluster
from sowline_materializer.admin.forwarded import require_forwards
from sowline_materializer.admin.offline_copy import OfflineCopies, OfflineCopy
from sowline_materializer.admin.restore import require_no_workers
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.emitter import Emitter, NotWritten
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.partition.kafka_partition import KafkaExtent, PartitionReader
from sowline_materializer.partition.partition import progress_of
from sowline_materializer.partition.state_reset import StateReset
from sowline_materializer.store.interface import DiskStore


class EndsLoader(ChangesLoader):
    """Loads the records that must end: SOW keys and bodies under any definition, also those of an interrupted
    rebuild.
    """

    def __init__(self, store: DiskStore, definition: TopicDefinition, changes_id: str = "") -> None:
        super().__init__(store, _of_any_key(definition), changes_id)

    @property
    def is_whole(self) -> bool:
        """Whether there is a state whose records can end."""
        return self.progress is not None


def _of_any_key(definition: TopicDefinition) -> TopicDefinition:
    """Return a definition without key fields, with the compaction lag of the topic's changes."""
    window = f"{definition.kafka.change_window_ms}ms"
    return define_topic(name=definition.name, key={"from": "kafka_key"}, resume_window=window)


@dataclass(frozen=True, slots=True)
class Plan:
    """The work on one partition: the state whose records end, and the reset of an earlier rebuild that was
    interrupted.
    """

    offline: OfflineCopies
    extent: KafkaExtent
    copy: OfflineCopy
    state_reset: StateReset | None


def rebuild(
    kafka: KafkaConfig,
    group: str,
    definition: TopicDefinition,
    asides: Iterable[OfflineCopies],
    accept_loss: bool,
) -> dict[str, Any]:
    """Begin an era with an empty base in each partition; return a report.

    Raise `workers active`, and `state missing`, `log incomplete` or `not supported` before anything is written.
    """
    cluster = Cluster(kafka)
    require_no_workers(cluster, group, definition)
    cluster.ensure_topic(definition)
    _require_all_partitions(cluster, definition)
    plans = [plan for offline in asides if (plan := _plan(offline, accept_loss)) is not None]
    if not plans:
        raise SowlineError(
            "state missing",
            f"expected changes in {definition.changes}, found none. There is nothing to end: delete the "
            "materializers' data directories, and start them",
        )
    require_forwards(
        definition,
        plans[0].extent.log_id,
        lambda number: _log_of(plans, number),
        lambda number: PartitionReader(kafka, definition, number).bodies(),
    )
    emitter = Emitter(kafka, lambda: False)
    try:
        checkpoints = {plan.offline.partition: _start_empty(kafka, emitter, plan) for plan in plans}
    except NotWritten as error:
        raise SowlineError("not written", f"{error}. Rebuild again") from error
    finally:
        emitter.close()
    return {
        "topic": definition.name,
        "records_ended": sum(plan.copy.checkpoint.records for plan in plans),
        "positions": {
            str(partition): str(checkpoint.position) for partition, checkpoint in checkpoints.items()
        },
    }


def _require_all_partitions(cluster: Cluster, definition: TopicDefinition) -> None:
    """Refuse fewer partitions than there were: no worker would end the records of the others, or read their logs."""
    beyond = cluster.ends(definition.changes, range(cluster.partitions(definition.changes)))
    held = [number for number, end in beyond.items() if end and number >= definition.partitions]
    if held:
        raise SowlineError(
            "bad topic",
            f"expected no changes beyond the {definition.partitions} partitions of {definition.name}, found some in "
            f"partition {held[0]}. A topic can't have fewer partitions than it had: define a new one",
        )


def _plan(offline: OfflineCopies, accept_loss: bool) -> Plan | None:
    """Return the work on a partition; None if no worker has owned it yet."""
    extent = offline.extent()
    if extent.changes_start >= extent.changes_end:
        return None
    copy, loader = offline.load(extent, EndsLoader)
    if not accept_loss:
        try:
            offline.require_whole_era(extent, _last_reported(copy.checkpoint, loader))
        except SowlineError as error:
            raise SowlineError(
                error.reason, f"{error.message}. With --accept-loss the state is rebuilt from the rest"
            ) from error
    state_reset = (
        StateReset(copy.checkpoint, copy.checkpoint.position.nth + 1) if loader.is_resetting else None
    )
    return Plan(offline, extent, copy, state_reset)


def _log_of(plans: Iterable[Plan], number: int) -> Iterator[LogRecord]:
    """Yield the log of a partition of the plan; a partition without a worker so far has forwarded and received
    nothing.
    """
    for plan in plans:
        if plan.offline.partition == number:
            extent, what = plan.extent, f"looking for forwards in {plan.offline.name}"
            yield from chain.from_iterable(plan.offline.log(extent.log_start, extent.log_end, what))


def _last_reported(checkpoint: Checkpoint, loader: ChangesLoader) -> Checkpoint:
    """Return the checkpoint of the era that was reported last. An era that only ends records has reported none."""
    reported = loader.progress
    assert reported is not None, "there is a state to end"
    return replace(checkpoint, position=reported.position, begin=reported.begin, log_id=reported.log_id)


def _start_empty(kafka: KafkaConfig, emitter: Emitter, plan: Plan) -> Checkpoint:
    """Write the ends of the records and then the partition's position; return that checkpoint."""
    offline, extent = plan.offline, plan.extent
    definition, start = offline.definition, extent.log_start
    state_reset = plan.state_reset or StateReset.begun(plan.copy.checkpoint, extent.log_id, start)
    end, done = extent.changes_end, 0
    for events in state_reset.ends(plan.copy.store):
        end = _write(emitter, offline, end, events)
        done += len(events)
        offline.report(f"ending the records of {offline.name}", done, plan.copy.checkpoint.records)
    checkpoint = state_reset.done(end)
    # The ends of an interrupted rebuild belong to the era that it began: another era begins under this definition.
    if plan.state_reset is not None:
        checkpoint = StateReset.begun(checkpoint, extent.log_id, start).checkpoint
    limits = PartitionReader(kafka, definition, offline.partition).limits_at(
        start, extent.log_end, definition.limits.template
    )
    # All records are stored under the newest reader schema. A `define` of the log that led there changes nothing,
    # since it names the schema that it replaced (test_a_define_that_names_another_schema_does_not_count).
    schema = definition.limits.schema
    limits = replace(limits or definition.limits, schema=schema)
    checkpoint = replace(
        checkpoint,
        definition=definition.digest_with(limits.template),
        limits=limits,
        begin=Begin(start, checkpoint.time, schema),
    )
    _write(emitter, offline, end, [progress_of(checkpoint, extent.log_end, {})])
    return checkpoint


def _write(emitter: Emitter, offline: OfflineCopies, start: int, events: Sequence[Event]) -> int:
    """Write events and return the offset after them; raise `workers active` if another process writes as well."""
    emitter.events(offline.definition, offline.partition, events)
    emitter.wait()
    end = emitter.end(offline.definition.changes, offline.partition)
    assert end is not None, "Kafka acknowledged the events"
    # A materializer that hangs is no longer a member of its group, but may still write the events that it has queued.
    if end - start != len(events):
        raise SowlineError(
            "workers active",
            f"expected to be alone in {offline.definition.changes} [{offline.partition}], but another process has "
            "written there: a materializer that was thought dead. Stop it, and rebuild again",
        )
    return end
