"""Machines: tables of what an event does in a state, and the record of what has happened."""

from enum import Enum
from typing import Any

import pytest

from sowline.errors import SowlineError
from sowline.subscriptions.machine import RECORDED_MAX, Legal, Machine, SignalEvent, StructEvent, read_table


class Light(Enum):
    """The states of a lamp."""

    DARK = "dark"
    FULLY_LIT = "fully lit"


class Switch(SignalEvent):
    """The events without data."""

    ON = "on"
    OFF = "off"


class Dim(StructEvent, frozen=True, tag="dim"):
    """An event with data."""

    by: int


TABLE = """
           dark  fully_lit
    on      +       -
    off     .       +
"""
LEGAL = read_table(TABLE, Light)


class Lamp(Machine[Light, Any, str]):
    """Does what its table allows."""

    legal = LEGAL

    @property
    def _about(self) -> str:
        return self.state.value

    def _act(self, event: Any) -> list[str]:
        self.state = Light.FULLY_LIT if event is Switch.ON else Light.DARK
        return [event.row]


def test_a_table_has_an_outcome_for_each_event_and_state() -> None:
    """Its columns are the states in their order."""
    assert LEGAL == {
        "on": {Light.DARK: Legal.ACTS, Light.FULLY_LIT: Legal.IS_PASSED_OVER},
        "off": {Light.DARK: Legal.IS_REFUSED, Light.FULLY_LIT: Legal.ACTS},
    }


@pytest.mark.parametrize(
    ("table", "error"),
    [
        (TABLE.replace("fully_lit", "lit"), AssertionError),
        (TABLE.replace("+       -", "+"), ValueError),
        (TABLE.replace("-", "?"), ValueError),
    ],
    ids=["another state", "missing mark", "unknown mark"],
)
def test_a_table_with_a_mistake_is_refused(table: str, error: type[Exception]) -> None:
    """On import, and not in the state that would read a wrong mark."""
    with pytest.raises(error):
        read_table(table, Light)


def test_an_event_acts_is_late_or_is_refused() -> None:
    """A refusal names the events that are legal, and changes nothing."""
    lamp = Lamp(Light.DARK, record=False)
    with pytest.raises(SowlineError, match="expected one of on while it is dark, got off"):
        lamp.handle(Switch.OFF)
    assert (lamp.handle(Switch.ON), lamp.state) == (["on"], Light.FULLY_LIT)
    assert (lamp.handle(Switch.ON), lamp.state) == ([], Light.FULLY_LIT)


def test_an_event_without_a_row_is_refused() -> None:
    """A service of another version may send it."""
    with pytest.raises(SowlineError, match="expected one of on while it is dark, got dim"):
        Lamp(Light.DARK, record=False).handle(Dim(1))


def test_a_record_ends_with_the_event_that_failed() -> None:
    """It keeps the last thousand, as JSON."""
    lamp = Lamp(Light.DARK, record=True)
    for _ in range(RECORDED_MAX):
        lamp.handle(Switch.ON)
    with pytest.raises(SowlineError):
        lamp.handle(Dim(1))
    lines = repr(lamp).splitlines()
    assert (lines[0], lines[-1], len(lines)) == (
        "<Lamp fully lit",
        '  {"type":"dim","by":1}>',
        RECORDED_MAX + 1,
    )
    assert repr(Lamp(Light.DARK, record=False)) == "<Lamp dark>"
