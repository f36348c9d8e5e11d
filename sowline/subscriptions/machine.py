"""What the machines of subscriptions are made of: tables of what becomes of an event in a state, events, actions."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from sowline.errors import SowlineError

RECORDED_MAX = 1000
"""The last events that a machine with a record keeps."""

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

    @property
    def kept(self) -> Any:
        """What a record keeps of it; as JSON, it describes the event."""
        return self


class StructEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The base of events that say more; the tag of each names its row."""

    @property
    def row(self) -> str:
        """The row of the table."""
        return str(self.__struct_config__.tag)

    @property
    def kept(self) -> Any:
        """What a record keeps of it; as JSON, it describes the event."""
        return self


class StructAction(msgspec.Struct, frozen=True, gc=False):
    """The base of what a machine wants done."""


E = TypeVar("E", bound=SignalEvent | StructEvent)
A = TypeVar("A")


class Machine(ABC, Generic[S, E, A]):
    """Leads one subscription through its states; `handle` is the only way to change it."""

    __slots__ = ("_record", "state")

    legal: ClassVar[Mapping[str, Mapping[Any, Legal]]]
    """By event and state, what becomes of the event."""

    def __init__(self, state: S, *, record: bool) -> None:
        self.state = state
        self._record: deque[Any] | None = deque(maxlen=RECORDED_MAX) if record else None

    def __repr__(self) -> str:
        lines = (msgspec.json.encode(kept).decode() for kept in self._record or ())
        return "\n  ".join([f"<{type(self).__name__} {self._about}", *lines]) + ">"

    @property
    @abstractmethod
    def _about(self) -> str:
        """What it is in, for a log."""

    def handle(self, event: E) -> list[A]:
        """Take an event, and return what to do about it, in this order. One that is not legal is refused."""
        if self._record is not None:
            self._record.append(event.kept)
        states = self.legal.get(event.row)
        legal = Legal.IS_REFUSED if states is None else states[self.state]
        if legal is Legal.ACTS:
            return self._act(event)
        return self._refuse(event) if legal is Legal.IS_REFUSED else []

    @abstractmethod
    def _act(self, event: E) -> list[A]:
        """Give a legal event its effect."""

    def _refuse(self, event: E) -> list[A]:
        """Change nothing, and raise why."""
        raise SowlineError("internal", self._refusal(event))

    def _refusal(self, event: E) -> str:
        legal = ", ".join(row for row, states in self.legal.items() if states[self.state] is Legal.ACTS)
        return f"expected one of {legal or 'no events'} while it is {self.state.value}, got {event.row}"
