"""Small mistakes in views, as somebody might make them in either stage: each is found by at least two seeds.

Those of joins are in `tests.simulation.join_mutations`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from msgspec import structs

from sowline.changes.change import AGAIN, Change
from sowline.changes.changes_reader import takes
from sowline.changes.partials import HeldState, HeldStates, Partials, read_held, read_partials
from sowline.commands.command import LogRecord
from sowline.config.topic_definition import TopicDefinition
from sowline.model.position import Position
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import Record
from sowline_materializer.core.views import NOWHERE, ViewFold
from sowline_materializer.partition.changes_follower import record_of
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.partition.partition import Partition
from sowline_materializer.partition.state_reset import StateReset
from sowline_views.core.outgoing import Outgoing, OutgoingPartials
from sowline_views.core.source_partition import SourcePartition
from sowline_views.core.states import GroupedStates, RecordStates, StateChange
from tests.simulation.join_mutations import JOIN_MISTAKES
from tests.simulation.mistake import Mistake, mistakes_in, seeds_with_errors
from tests.simulation.view_runs import simulate_views

_apply = ViewFold.apply
_in_message = ViewFold._touched
_write = ViewFold._write
_again = Partition._newest_event
_take = OutgoingPartials.take
_grouped = GroupedStates.change
_single = RecordStates.change
_decode = Checkpoint.decode
_end_load = SourcePartition.end_load
_begun = StateReset.begun
_record_of = record_of
_loaded = ChangesLoader.checkpoint

OTHER_SOURCES = 1000
"""Behind the numbers of the source partitions."""


def _partial_applied_twice() -> list[Any]:
    def apply(self: ViewFold, record: LogRecord) -> None:
        message, reflected = read_partials(record.value), self._state.reflected
        if Position.parse(message.up_to) <= reflected.get(message.partition, NOWHERE):
            other = message.partition + OTHER_SOURCES
            more = structs.replace(message, partition=other, is_snapshot=True)
            _apply(self, structs.replace(record, value=more.encode()))
            reflected.pop(other, None)
        else:
            _apply(self, record)

    return [patch.object(ViewFold, "apply", apply)]


def _retraction_lost() -> list[Any]:
    def remaining(changes: Iterable[StateChange]) -> list[StateChange]:
        return [change for change in changes if change.state is not None]

    return [
        patch.object(GroupedStates, "change", lambda self, change: remaining(_grouped(self, change))),
        patch.object(RecordStates, "change", lambda self, change: remaining(_single(self, change))),
    ]


def _going_back_after_a_restart() -> list[Any]:
    def apply(self: ViewFold, record: LogRecord) -> None:
        message = read_partials(record.value)
        if not message.is_snapshot:
            self._state.reflected.setdefault(message.partition, Position.parse(message.after))
        _apply(self, record)

    def loaded(self: ChangesLoader, changes_end: int) -> Checkpoint:
        return replace(_loaded(self, changes_end), reflected={})

    return [
        patch.object(ViewFold, "apply", apply),
        patch.object(Checkpoint, "decode", lambda data: replace(_decode(data), reflected={})),
        patch.object(ChangesLoader, "checkpoint", loaded),
    ]


def old_messages_count() -> list[Any]:
    """Messages are applied as if nothing newer were reflected; what is reported of it is right."""

    def apply(self: Any, record: LogRecord) -> None:
        message, reflected = read_partials(record.value), self._state.reflected
        source = message.partition
        self.reached = reached = reflected.get(source, NOWHERE)
        if Position.parse(message.up_to) <= reached:
            reflected[source] = NOWHERE if message.is_snapshot else Position.parse(message.after)
        _apply(self, record)
        if source in reflected:
            reflected[source] = max(reached, reflected[source])

    def write(self: Any, one: Any, reflects: Any = None, *, is_last: bool = True) -> None:
        newest = None if reflects is None else (reflects[0], max(reflects[1], self.reached))
        _write(self, one, newest, is_last=is_last)

    return [patch.object(ViewFold, "apply", apply), patch.object(ViewFold, "_write", write)]


def _any_age(self: ViewFold, record: LogRecord, message: Partials, reached: Position) -> Iterator[Any]:
    """Yield the groups of a message, even if what is held of them is newer."""

    def oldest(data: bytes | None) -> HeldStates:
        states = read_held(data)
        if (held := states.get(message.partition)) is not None:
            states[message.partition] = HeldState(str(NOWHERE._replace(era=0)), held.state)
        return states

    with patch("sowline_materializer.core.views.read_held", oldest):
        return iter(list(_in_message(self, record, message, reached)))


def _stale_owners_partial_kept() -> list[Any]:
    return [*old_messages_count(), patch.object(ViewFold, "_touched", _any_age)]


def _late_owner_undoes_a_snapshot() -> list[Any]:
    return [patch.object(ViewFold, "_touched", _any_age)]


def _emptied_group_resurrected() -> list[Any]:
    return old_messages_count()


def _progress_ahead_of_its_partial() -> list[Any]:
    def take(
        self: OutgoingPartials, position: Position, changes: Iterable[StateChange], *more: Any
    ) -> Iterator[Outgoing]:
        self.position = position
        yield from _take(self, position, changes, *more)

    return [patch.object(OutgoingPartials, "take", take)]


def _state_behind_a_message_lost() -> list[Any]:
    def take(
        self: OutgoingPartials, position: Position, changes: Iterable[StateChange], *more: Any
    ) -> Iterator[Outgoing]:
        for one in list(_take(self, position, changes, *more)):
            self._open[one.partition].states.clear()
            yield one

    return [patch.object(OutgoingPartials, "take", take)]


def _group_that_a_snapshot_lacks_kept() -> list[Any]:
    return [patch.object(ViewFold, "_left", lambda self, *given: iter(()))]


def _message_cut_short_taken_for_whole() -> list[Any]:
    def write(self: ViewFold, one: Any, reflects: Any = None, *, is_last: bool = True) -> None:
        _write(self, one, reflects)

    return [patch.object(ViewFold, "_write", write)]


def _states_not_written_again() -> list[Any]:
    def again(self: Partition, key: bytes, record: Any) -> Change:
        return structs.replace(_again(self, key, record), states=None)

    return [patch.object(Partition, "_newest_event", again)]


def _reflected_not_loaded() -> list[Any]:
    return [patch.object(ChangesLoader, "_reflected", lambda self, progress: {})]


def _missing_changes_of_the_source_not_seen() -> list[Any]:
    def takes_newer(event: Any, held: Position) -> bool:
        return bool(event.position > held)

    return [patch("sowline.changes.changes_reader.takes", takes_newer)]


def _old_change_of_the_source_taken() -> list[Any]:
    def takes_old(event: Any, held: Position) -> bool:
        is_old = isinstance(event, Change) and event.op != AGAIN and event.position < held
        return is_old or takes(event, held)

    return [patch("sowline.changes.changes_reader.takes", takes_old)]


def _snapshot_as_of_the_newest_record() -> list[Any]:
    def end_load(self: SourcePartition) -> None:
        live = [change.position for change in self._load.live()]
        self.reader.position = max(live, default=self.reader.position)
        _end_load(self)

    return [patch.object(SourcePartition, "end_load", end_load)]


def _rebuilt_view_reflects_what_it_did() -> list[Any]:
    def begun(checkpoint: Checkpoint, *given: Any) -> StateReset:
        made = _begun(checkpoint, *given)
        return replace(made, checkpoint=replace(made.checkpoint, reflected=checkpoint.reflected))

    return [patch.object(StateReset, "begun", begun)]


def _hidden_group_survives_a_rebuild() -> list[Any]:
    return [patch.object(Record, "is_live", property(lambda self: self.body is not None))]


def _copy_found_by_the_name_of_its_changes() -> list[Any]:
    def by_name(topics: Iterable[TopicDefinition]) -> dict[str, SimpleNamespace]:
        return {
            topic.changes: SimpleNamespace(log=topic.changes.removesuffix(".changes")) for topic in topics
        }

    return [patch("sowline_materializer.standby.standby.by_changes", by_name)]


def _copy_without_the_states_of_its_groups() -> list[Any]:
    def taken(definition: TopicDefinition, change: Change, held: Record | None) -> Record | None:
        return _record_of(definition, structs.replace(change, states=None), held)

    return [patch("sowline_materializer.partition.changes_follower.record_of", taken)]


VIEW_MISTAKES: dict[str, Mistake] = mistakes_in(globals())
"""Each mistake, by what it is."""

OF_JOINS: dict[str, Mistake] = {
    **JOIN_MISTAKES,
    "stale owner's partial kept with joins": _stale_owners_partial_kept,
    "going back after a restart with joins": _going_back_after_a_restart,
    "group that a snapshot lacks kept with joins": _group_that_a_snapshot_lacks_kept,
    "message cut short taken for whole with joins": _message_cut_short_taken_for_whole,
}
"""Those that seeds with joins find: mistakes in joins, and those for which joins have positions of their own."""

VIEWS_FOUND_BY: dict[str, tuple[int, ...]] = {
    "late owner undoes a snapshot": (48, 55),
    "native join keys without a match forgotten": (4, 164),
}
"""The seeds that found a mistake that few of them find: they are tried first. Once views differ, others may."""


def seeds_that_find(mistake: str, seeds: Iterable[int], wanted: int) -> list[int]:
    """Return the first seeds that fail with a mistake in views, no more than are wanted."""
    known = VIEWS_FOUND_BY.get(mistake, ())
    made = (VIEW_MISTAKES | OF_JOINS)[mistake]
    return seeds_with_errors(made, seeds, known, lambda seed: simulate_views(seed).error, wanted)
