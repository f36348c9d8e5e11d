"""A step of the pure core: what a batch of log records leads to, and the records that it sees and changes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from materializer.head import Head
from materializer.record import Record
from sowline.change import Change
from sowline.command import LogRecord, Origin


class Records(Protocol):
    """The records of a partition as a step sees and changes them."""

    def get(self, key: bytes) -> Record | None:
        """Return what is kept under the SOW key: a record, a deleted record's memory, or None."""

    def put(self, key: bytes, record: Record | None) -> None:
        """Keep the record, or nothing, under the SOW key."""

    def scan(self) -> Iterator[tuple[bytes, Record]]:
        """Yield all live records in the order of their SOW keys' bytes."""


@dataclass(frozen=True, slots=True)
class Forward:
    """A log record that another partition must apply: a misplaced one, or a delete for all."""

    partition: int
    record: LogRecord
    origin: Origin


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A log record that could not be applied, with the reason's code and a sentence."""

    record: LogRecord
    reason: str
    message: str


@dataclass(slots=True)
class Step:
    """What a batch of log records leads to, in log order; `outcomes` names what made no change.

    `untold` holds heads with the number of changes before them: a forwarded record that made no change, or new
    limits, came just before, and nothing else says so before the next change.
    """

    head: Head
    changes: list[Change] = field(default_factory=list)
    forwards: list[Forward] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)
    outcomes: dict[str, str] = field(default_factory=dict)
    untold: list[tuple[int, Head]] = field(default_factory=list)
    publishers_pushed_out: int = 0
