"""What the machines of subscriptions are made of: tables of what becomes of an event in a state, events, actions."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TypeVar

import msgspec

S = TypeVar("S", bound=Enum)


class Legal(Enum):
    """What becomes of an event in a state."""

    ACTS = "+"
    IS_PASSED_OVER = "-"
    """It may come, and has no effect: it is late."""
    IS_REFUSED = "."


def read_table(text: str, states: Iterable[S]) -> Mapping[str, Mapping[S, Legal]]:
    """Return by event and state what becomes of the event; the columns of the text are the states in their order."""
    columns, head = list(states), text.split("\n", 2)[1].split()
    assert head == [state.value.replace(" ", "_") for state in columns], "a table names its states"
    _, *rows = (line.split() for line in text.strip().splitlines())
    return {name: dict(zip(columns, map(Legal, marks), strict=True)) for name, *marks in rows}


class SignalEvent(Enum):
    """The base of events that say no more than their name."""

    @property
    def row(self) -> str:
        """The row of the table."""
        return str(self.value)


class StructEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The base of events that say more; the tag of each names its row."""

    @property
    def row(self) -> str:
        """The row of the table."""
        return str(self.__struct_config__.tag)


class StructAction(msgspec.Struct, frozen=True, gc=False):
    """The base of what a machine wants done."""
