"""The client machine: the sequences that every client is held to, its table, and its record."""

import json
from collections import deque
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sowline.subscriptions.ask import Ask
from sowline.subscriptions.client_machine import ClientMachine
from sowline.subscriptions.lifecycle import LEGAL, Answer, Signal, State
from sowline.subscriptions.machine import Legal
from tests.conformance.lifecycle_cases import TABLE, files, handled, play, read, read_event

_TABLE = json.loads(TABLE.read_text(encoding="utf-8"))
_CELLS = [(row, state) for row in LEGAL for state in State]


@pytest.mark.parametrize("file", files(), ids=lambda file: file.stem)
def test_a_sequence(file: Path) -> None:
    """Each event leads to its actions, and to its state."""
    lines = read(file)
    assert list(play(lines)) == lines


def test_the_table_is_the_one_of_all_clients() -> None:
    """Each state and each event is in it."""
    assert _TABLE["legal"] == {row: "".join(mark.value for mark in LEGAL[row].values()) for row in LEGAL}
    assert list(_TABLE["states"]) == [state.value for state in State]
    assert list(_TABLE["events"]) == list(LEGAL)


def in_state(state: State) -> ClientMachine:
    """Return a machine in a state."""
    machine = ClientMachine(Ask(**_TABLE["ask"]))
    for line in _TABLE["states"][state.value]:
        machine.handle(read_event(line))
    assert machine.state is state
    return machine


def all_of(thing: Any) -> Any:
    """Return everything that a machine has, to compare."""
    if isinstance(thing, list | deque):
        return [all_of(one) for one in thing]
    if isinstance(thing, Enum) or not hasattr(thing, "__dict__"):
        return thing
    return {name: all_of(value) for name, value in vars(thing).items()}


@pytest.mark.parametrize(("row", "state"), _CELLS, ids=lambda part: getattr(part, "value", part))
def test_an_event_in_a_state(row: str, state: State) -> None:
    """It acts, is late and changes nothing, or is refused: an answer ends the subscription, a command raises."""
    machine, event = in_state(state), read_event(_TABLE["events"][row])
    before = machine.state, all_of(machine)
    actions = handled(machine, event)
    is_answer = isinstance(event, Answer) or event in (Signal.COMPLETED, Signal.LEFT)
    match LEGAL[row][state]:
        case Legal.IS_PASSED_OVER:
            assert (actions, machine.state, all_of(machine)) == ([], *before)
        case Legal.IS_REFUSED if is_answer:
            leaving = [{"send": "leave"}] if state not in (State.UNSENT, State.POSTPONED) else []
            assert actions == [*leaving, {"over": "bad message"}]
            assert str(machine.error).endswith(f"while it is {state.value}, got {row}")
        case Legal.IS_REFUSED:
            refused = {State.ENDED: "disconnected", State.FAILED: "bad filter"}.get(state, "internal")
            assert (actions, machine.state, all_of(machine)) == ([{"raises": refused}], *before)
        case Legal.ACTS:
            # Where no replacement was sent, an answer to one is refused, too.
            is_unasked = row == "replaced"
            assert ({"over": "bad message"} in actions) is is_unasked
            assert all("raises" not in action for action in actions)


@pytest.mark.parametrize("file", files(), ids=lambda file: file.stem)
def test_a_machine_is_replayed_from_its_record(file: Path) -> None:
    """What a log shows of a machine leads another one into the same state."""
    head, *steps = read(file)
    machine = ClientMachine(Ask(**head["ask"]), record=True)
    for step in steps:
        handled(machine, read_event(step["event"]))
    first, *lines = repr(machine).removesuffix(">").splitlines()
    again = ClientMachine(Ask(**head["ask"]))
    for line in lines:
        handled(again, read_event(msgspec.json.decode(line)))
    assert repr(again) == f"{first}>"
    assert (again.state, again.taken.holding, again.bookmark) == (
        machine.state,
        machine.taken.holding,
        machine.bookmark,
    )


def test_who_holds_the_whole_is_owed_nothing() -> None:
    """Its service may be away for hours: the other streams of its client keep their limit meanwhile."""
    machine = in_state(State.LIVE)
    handled(machine, read_event({"type": "refused", "reason": "shard unavailable", "message": "m"}))
    assert (machine.state, machine.is_owed) == (State.POSTPONED, False)
    assert in_state(State.POSTPONED).is_owed


def test_a_message_that_is_no_row_ends_the_subscription() -> None:
    """Only the one that it is for: the other streams of the connection go on."""
    machine = in_state(State.LIVE)
    actions = handled(machine, read_event({"type": "arrived", "command": "heartbeat", "messages": []}))
    assert {"over": "bad message"} in actions
