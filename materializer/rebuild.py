"""Rebuilding: after a change of what a definition decides, the state is made anew, from the log's begin on.

An era with an empty base begins: each record's end is written to the changes, and then where the partition stands,
with the new definition. Local stores do not lead there: workers load the changes, and apply the log from its begin.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from materializer.aside import Aside, Copy
from materializer.emitter import Emitter, NotWritten
from materializer.emptying import Emptying
from materializer.forwarded import require_forwards
from materializer.head import Head
from materializer.partition import progress_of
from materializer.recovery import Extent, Loader, first_limits
from materializer.restore import require_no_workers
from materializer.store import Store
from sowline.change import Event
from sowline.cluster import Cluster
from sowline.command import LogRecord
from sowline.errors import SowlineError
from sowline.kafka import KafkaConfig
from sowline.topics import TopicDefinition


class EndsLoader(Loader):
    """Loads what is to end: SOW keys and bodies, made under whichever definition, and wherever that was left off."""

    def __init__(self, store: Store, definition: TopicDefinition) -> None:
        super().__init__(store, TopicDefinition.model_construct(name=definition.name))

    @property
    def is_whole(self) -> bool:
        """Whether there is a state to end."""
        return self.progress is not None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done with one partition: the state to end, and, of a rebuild that was cut short, its emptying."""

    aside: Aside
    extent: Extent
    copy: Copy
    emptying: Emptying | None


def rebuild(
    kafka: KafkaConfig, group: str, definition: TopicDefinition, asides: Iterable[Aside], accept_loss: bool
) -> dict[str, Any]:
    """Begin an era with an empty base in each partition, and return what to say of it.

    Raises `workers active`, and `state missing`, `log incomplete` or `not supported` before anything is written.
    """
    cluster = Cluster(kafka)
    require_no_workers(cluster, group, definition)
    cluster.ensure_topic(definition)
    _require_all_partitions(cluster, definition)
    plans = [plan for aside in asides if (plan := _plan(aside, accept_loss)) is not None]
    if not plans:
        raise SowlineError(
            "state missing",
            f"expected changes in {definition.changes}, found none. There is nothing to end: delete the "
            "materializers' data directories, and start them",
        )
    require_forwards(definition, lambda number: _log_of(plans, number))
    emitter = Emitter(kafka, [definition], lambda: False)
    try:
        heads = {plan.aside.partition: _begin_anew(kafka, emitter, plan) for plan in plans}
    except NotWritten as error:
        raise SowlineError("not written", f"{error}. Rebuild again") from error
    finally:
        emitter.close()
    return {
        "topic": definition.name,
        "records_ended": sum(plan.copy.head.records for plan in plans),
        "positions": {str(partition): str(head.position) for partition, head in heads.items()},
    }


def _require_all_partitions(cluster: Cluster, definition: TopicDefinition) -> None:
    """Refuse fewer partitions than there were: nobody would end the records of the others, or read their logs."""
    beyond = cluster.ends(definition.changes, range(cluster.partitions(definition.changes)))
    held = [number for number, end in beyond.items() if end and number >= definition.partitions]
    if held:
        raise SowlineError(
            "bad topic",
            f"expected no changes beyond the {definition.partitions} partitions of {definition.name}, found some in "
            f"partition {held[0]}. A topic can't have fewer partitions than it had: define a new one",
        )


def _plan(aside: Aside, accept_loss: bool) -> Plan | None:
    """Return what is to be done with a partition; None for one that nobody has had yet."""
    extent = aside.extent()
    if extent.changes_start >= extent.changes_end:
        return None
    copy, loader = aside.load(extent, EndsLoader)
    if not accept_loss:
        try:
            aside.require_whole_era(extent, _told_last(copy.head, loader))
        except SowlineError as error:
            raise SowlineError(
                error.reason, f"{error.message}. With --accept-loss the state is what the rest of it makes"
            ) from error
    emptying = Emptying(copy.head, copy.head.position.nth + 1) if loader.is_emptying else None
    return Plan(aside, extent, copy, emptying)


def _log_of(plans: Iterable[Plan], number: int) -> Iterator[LogRecord]:
    """Yield the log of a partition that is planned for; nothing was forwarded to or from one that nobody has had."""
    for plan in plans:
        if plan.aside.partition == number:
            extent, what = plan.extent, f"looking for forwards in {plan.aside.name}"
            yield from chain.from_iterable(plan.aside.log(extent.log_start, extent.log_end, what))


def _told_last(head: Head, loader: Loader) -> Head:
    """Return the head of the era that was told of last: an era that only ends records has made none of them."""
    told = loader.progress
    assert told is not None, "there is a state to end"
    return replace(head, position=told.position, begin=told.begin, log_id=told.log_id)


def _begin_anew(kafka: KafkaConfig, emitter: Emitter, plan: Plan) -> Head:
    """Write the records' ends and where the partition stands then; returns the head of that."""
    aside, extent = plan.aside, plan.extent
    definition, start = aside.definition, extent.log_start
    emptying = plan.emptying or Emptying.begun(plan.copy.head, extent.log_id, start)
    end, done = extent.changes_end, 0
    for events in emptying.ends(plan.copy.store):
        end = _write(emitter, aside, end, events)
        done += len(events)
        aside.tell(f"ending the records of {aside.name}", done, plan.copy.head.records)
    head = emptying.done(end)
    if plan.emptying is not None:
        head = Emptying.begun(head, extent.log_id, start).head
    limits = first_limits(kafka, definition, aside.partition, start, extent.log_end)
    head = replace(
        head, definition=definition.digest, limits=limits or definition.limits, begin=(start, head.time)
    )
    _write(emitter, aside, end, [progress_of(head, extent.log_end, {})])
    return head


def _write(emitter: Emitter, aside: Aside, start: int, events: Sequence[Event]) -> int:
    """Write events and return the offset behind them; raises `workers active` if somebody else writes as well."""
    emitter.events(aside.definition, aside.partition, events)
    emitter.wait()
    end = emitter.end(aside.definition.changes, aside.partition)
    assert end is not None, "Kafka acknowledged the events"
    if end - start != len(events):
        raise SowlineError(
            "workers active",
            f"expected to be alone in {aside.definition.changes} [{aside.partition}], but somebody else has written "
            "there: a materializer that was thought dead. End it, and rebuild again",
        )
    return end
