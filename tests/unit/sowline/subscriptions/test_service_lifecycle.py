"""The lifecycle of a subscription for the service that serves it: its table, and what its start is marked with."""

import pytest

from sowline.subscriptions.machine import Legal
from sowline.subscriptions.service_lifecycle import (
    LEGAL,
    CaughtUp,
    FellBehind,
    Opening,
    Renewed,
    ServiceSignal,
    ServiceState,
)


def test_each_event_has_an_outcome_in_each_state() -> None:
    """No cell of the table is missing, and no event has no row."""
    assert all(states.keys() == set(ServiceState) for states in LEGAL.values())
    rows = {event.row for event in (*ServiceSignal, CaughtUp(), FellBehind(), Renewed())}
    assert rows == LEGAL.keys()


@pytest.mark.parametrize("state", [ServiceState.ENDED, ServiceState.STOPPED])
def test_after_its_end_a_subscription_only_proves_what_it_sent(state: ServiceState) -> None:
    """All else is late and has no effect."""
    outcomes = {row: states[state] for row, states in LEGAL.items()}
    assert {row for row, outcome in outcomes.items() if outcome is Legal.ACTS} == {"prove"}
    assert Legal.IS_REFUSED not in outcomes.values()


@pytest.mark.parametrize(
    ("opening", "mark"),
    [
        (Opening.NOTHING, None),
        (Opening.GROUP, None),
        (Opening.RESET, "reset"),
        (Opening.REPLACE, "replace"),
        (Opening.LEAVE, None),
    ],
)
def test_a_group_to_a_client_that_holds_records_is_marked(opening: Opening, mark: str | None) -> None:
    """It replaces all of them, or those that it names."""
    assert opening.mark == mark
