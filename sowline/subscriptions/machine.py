"""The parts of subscription machines: tables of what an event does in a state, events, and actions."""

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
    """The outcome of an event in a state."""

    ACTS = "+"
    IS_PASSED_OVER = "-"
    """It is late, and has no effect."""
    IS_REFUSED = "."


def read_table(text: str, states: Iterable[S]) -> Mapping[str, Mapping[S, Legal]]:
    """Return the outcome of each event in each state; the columns of the text are the states in their order."""
    columns, head = list(states), text.split("\n", 2)[1].split()
    assert head == [state.value.replace(" ", "_") for state in columns], "a table names its states"
    # A row with a missing mark fails here, on import (`strict`), not in the state that would read the wrong mark.
    _, *rows = (line.split() for line in text.strip().splitlines())
    assert len({name for name, *_ in rows}) == len(rows), "a table has each event once"
    return {name: dict(zip(columns, map(Legal, marks), strict=True)) for name, *marks in rows}


class SignalEvent(Enum):
    """The base of events without data."""

    @property
    def row(self) -> str:
        """The row of the table."""
        return str(self.value)

    @property
    def kept(self) -> Any:
        """The part that a record keeps; as JSON, it describes the event."""
        return self


class StructEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The base of events with data; the tag of each names its row."""

    @property
    def row(self) -> str:
        """The row of the table."""
        return str(self.__struct_config__.tag)

    @property
    def kept(self) -> Any:
        """The part that a record keeps; as JSON, it describes the event."""
        return self


class StructAction(msgspec.Struct, frozen=True, gc=False):
    """The base of the actions that a machine asks for."""


E = TypeVar("E", bound=SignalEvent | StructEvent)
A = TypeVar("A")


class Machine(ABC, Generic[S, E, A]):
    """Leads one subscription through its states; `handle` is the only way to change it."""

    __slots__ = ("_record", "state")

    legal: ClassVar[Mapping[str, Mapping[Any, Legal]]]
    """The outcome of each event in each state."""

    def __init__(self, state: S, *, record: bool) -> None:
        self.state = state
        self._record: deque[Any] | None = deque(maxlen=RECORDED_MAX) if record else None

    def __repr__(self) -> str:
        lines = (msgspec.json.encode(kept).decode() for kept in self._record or ())
        return "\n  ".join([f"<{type(self).__name__} {self._about}", *lines]) + ">"

    @property
    @abstractmethod
    def _about(self) -> str:
        """The state, as a log shows it."""

    def handle(self, event: E) -> list[A]:
        """Take an event, and return the actions, in their order. An illegal event is refused."""
        # Before it acts: the record of a machine that fails must end with the event at which it failed.
        if self._record is not None:
            self._record.append(event.kept)
        # A service of another version may send a message that no row names
        # (test_a_message_that_is_no_row_ends_the_subscription).
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
