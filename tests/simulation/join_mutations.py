"""Small mistakes in joins of views."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from msgspec import structs

from sowline.changes.change import Change
from sowline.model.position import Position
from sowline_views.core.join_keys import NO_MATCH
from sowline_views.core.joined_tables import JoinedEvent, JoinedTable, KeyedTable, MultipliedTable
from sowline_views.core.joins import JoinedStates, TakenOut
from sowline_views.core.native_groups import JoinedRow, NativeGroupedStates
from sowline_views.core.outgoing import OutgoingPartials
from sowline_views.core.source_partition import SourcePartition
from sowline_views.core.states import StateChange
from tests.simulation.join_world import JoinOwner, Process
from tests.simulation.mistake import Mistake, mistakes_in

_concerned = JoinedStates.concerned
_take_in = JoinedStates.take_in
_key_of = JoinedTable.key_of
_in_portions = OutgoingPartials._in_portions
_native_row = JoinedStates._native_row
_change_rows = NativeGroupedStates.change_rows


def _one_join_side_behind() -> list[Any]:
    def concerned(self: JoinedStates, event: JoinedEvent) -> list[bytes]:
        return _concerned(self, event) if event.log == self._tables.all[0].topic.log else []

    return [patch.object(JoinedStates, "concerned", concerned)]


def _snapshot_before_the_joined_topics_are_there() -> list[Any]:
    def has_joined(self: Process, owner: JoinOwner) -> bool:
        return True

    return [patch.object(Process, "has_joined", has_joined)]


def _generation_not_raised() -> list[Any]:
    def position(self: SourcePartition) -> Position:
        if self._joined is None:
            return self.reader.position
        self._count += 1
        return Position(1, self._count)

    return [patch.object(SourcePartition, "_next_position", position)]


def _deletion_of_a_joined_record_lost() -> list[Any]:
    def lost(put: Callable[[Any, Change], None]) -> Callable[[Any, Change], None]:
        return lambda table, change: None if change.body is None else put(table, change)

    return [patch.object(kind, "put", lost(kind.put)) for kind in (KeyedTable, MultipliedTable)]


def _only_one_record_of_many_joined_again() -> list[Any]:
    def concerned(self: JoinedStates, event: JoinedEvent) -> list[bytes]:
        return _concerned(self, event)[:1]

    return [patch.object(JoinedStates, "concerned", concerned)]


def _first_state_of_a_group_written() -> list[Any]:
    def take_in(self: JoinedStates, event: JoinedEvent, taken_out: TakenOut) -> list[StateChange]:
        first: dict[str, StateChange] = {}
        for one in taken_out:
            for made in _take_in(self, event, [one]):
                first.setdefault(made.key, made)
        return list(first.values())

    return [patch.object(JoinedStates, "take_in", take_in)]


def _record_without_a_match_forgotten() -> list[Any]:
    def concerned(self: JoinedStates, event: JoinedEvent) -> list[bytes]:
        tables = (self._tables.all[number] for number in self._tables.of(event.log))
        is_new = event.change is None or not any(table.matches(event.change.sow_key) for table in tables)
        return [] if is_new else _concerned(self, event)

    return [patch.object(JoinedStates, "concerned", concerned)]


def _strings_and_numbers_do_not_match() -> list[Any]:
    def key_of(self: JoinedTable, document: Any) -> bytes:
        return NO_MATCH if document.get("g") == 1 else _key_of(self, document)

    return [patch.object(JoinedTable, "key_of", key_of)]


def _each_step_of_many_states_ends() -> list[Any]:
    def in_portions(self: OutgoingPartials, *given: Any, **named: Any) -> Any:
        for one in _in_portions(self, *given, **named):
            yield one._replace(message=structs.replace(one.message, ends=True))

    return [patch.object(OutgoingPartials, "_in_portions", in_portions)]


def _native_join_keys_without_a_match_forgotten() -> list[Any]:
    def native_row(self: JoinedStates, native: NativeGroupedStates, body: bytes | None) -> Any:
        made = _native_row(self, native, body)
        return made and made._replace(
            keys=[(join, key) for join, key in made.keys if self._tables.all[join].body(key)]
        )

    return [patch.object(JoinedStates, "_native_row", native_row)]


def _deleted_record_kept_in_native_groups() -> list[Any]:
    def change_rows(self: NativeGroupedStates, before: JoinedRow | None, now: JoinedRow | None) -> Any:
        return _change_rows(self, before if now else None, now)

    return [patch.object(NativeGroupedStates, "change_rows", change_rows)]


JOIN_MISTAKES: dict[str, Mistake] = mistakes_in(globals())
"""Each mistake, by what it is."""
