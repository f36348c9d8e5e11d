"""Small mistakes in joins of views."""

from typing import Any
from unittest.mock import patch

from msgspec import structs

from sowline.model.position import Position
from sowline.protocol.change import Change
from tests.simulation.join_world import JoinOwner, Process
from tests.simulation.mistake import Mistake, mistakes_in
from views.core.joins import NO_MATCH, JoinedStates, JoinedTable
from views.core.outgoing import OutgoingPartials
from views.core.source_partition import SourcePartition, TakenOut
from views.core.states import StateChange

_touched = JoinedStates.touched
_touch = JoinedStates.touch
_put = JoinedTable.put
_key_of = JoinedTable.key_of
_in_portions = OutgoingPartials._in_portions


def _one_join_side_behind() -> list[Any]:
    def touched(self: JoinedStates, table: JoinedTable, sow_key: bytes) -> TakenOut:
        return _touched(self, table, sow_key) if table is self._tables[0] else []

    return [patch.object(JoinedStates, "touched", touched)]


def _snapshot_before_the_joined_topics_are_there() -> list[Any]:
    def has_joined(self: Process, owner: JoinOwner) -> bool:
        return True

    return [patch.object(Process, "has_joined", has_joined)]


def _generation_not_raised() -> list[Any]:
    def position(self: SourcePartition) -> Position:
        if self._joined is None:
            return self._followed
        self._count += 1
        return Position(1, self._count)

    return [patch.object(SourcePartition, "_next_position", position)]


def _deletion_of_a_joined_record_lost() -> list[Any]:
    def put(self: JoinedTable, change: Change) -> None:
        if change.body is not None:
            _put(self, change)

    return [patch.object(JoinedTable, "put", put)]


def _only_one_record_of_many_joined_again() -> list[Any]:
    def touched(self: JoinedStates, table: JoinedTable, sow_key: bytes) -> TakenOut:
        return _touched(self, table, sow_key)[:1]

    return [patch.object(JoinedStates, "touched", touched)]


def _first_state_of_a_group_written() -> list[Any]:
    def touch(self: JoinedStates, taken_out: TakenOut) -> list[StateChange]:
        first: dict[str, StateChange] = {}
        for one in taken_out:
            for made in _touch(self, [one]):
                first.setdefault(made.key, made)
        return list(first.values())

    return [patch.object(JoinedStates, "touch", touch)]


def _record_without_a_match_forgotten() -> list[Any]:
    def touched(self: JoinedStates, table: JoinedTable, sow_key: bytes) -> TakenOut:
        return [] if table.get(sow_key) is None else _touched(self, table, sow_key)

    return [patch.object(JoinedStates, "touched", touched)]


def _strings_and_numbers_do_not_match() -> list[Any]:
    def key_of(self: JoinedTable, document: Any) -> bytes:
        return NO_MATCH if document.get("g") == 1 else _key_of(self, document)

    return [patch.object(JoinedTable, "key_of", key_of)]


def _each_step_of_many_states_ends() -> list[Any]:
    def in_portions(self: OutgoingPartials, *given: Any, **named: Any) -> Any:
        for one in _in_portions(self, *given, **named):
            yield one._replace(message=structs.replace(one.message, ends=True))

    return [patch.object(OutgoingPartials, "_in_portions", in_portions)]


JOIN_MISTAKES: dict[str, Mistake] = mistakes_in(globals())
"""Each mistake, by what it is."""
