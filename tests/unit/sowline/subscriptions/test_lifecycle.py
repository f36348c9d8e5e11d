"""The lifecycle of a subscription for its subscriber: its table, and the events as they are recorded."""

import msgspec
import pytest

from sowline.subscriptions.lifecycle import LEGAL, Arrived, Fail, NotReplaced, Replaced, Signal, State
from sowline.subscriptions.machine import Legal
from sowline.wire.client_message import Message


def test_each_event_has_an_outcome_in_each_state() -> None:
    """No cell of the table is missing."""
    assert all(states.keys() == set(State) for states in LEGAL.values())
    assert {signal.row for signal in Signal} <= LEGAL.keys()


@pytest.mark.parametrize("state", [State.ENDED, State.FAILED])
def test_nothing_leads_out_of_the_last_states(state: State) -> None:
    """What waits can still be taken, and a subscriber may leave again."""
    assert {row for row, states in LEGAL.items() if states[state] is Legal.ACTS} == {"take", "leave"}


def test_a_subscriber_may_take_and_leave_at_any_time() -> None:
    """Its own commands are never too early."""
    for row in ("take", "leave"):
        assert set(LEGAL[row].values()) == {Legal.ACTS}


def test_messages_are_events_by_their_command() -> None:
    """The record of a machine keeps them without their bodies."""
    event = Arrived("oof", (Message("oof", body=b"{}", bookmark="a:0@1", reason="match"),), more=True)
    assert event.row == "oof"
    assert event.kept == {
        "type": "arrived",
        "command": "oof",
        "messages": [{"command": "oof", "bookmark": "a:0@1", "reason": "match"}],
        "more": True,
    }
    assert "more" not in Arrived("oof", ()).kept


def test_events_are_recorded_as_json() -> None:
    """With the row of the table as their type, and without what has its default."""
    recorded = [msgspec.json.encode(event.kept) for event in (Replaced(3), Fail("gone"), Signal.LOST)]
    assert recorded == [b'{"type":"replaced","number":3}', b'{"type":"fail","reason":"gone"}', b'"lost"']
    assert NotReplaced(1, "x").row == "not_replaced"


def test_states_can_be_looked_up() -> None:
    """The hash of each is its own."""
    assert len({hash(state) for state in State}) == len(State)
