"""A step of the pure core: the result of a batch of log records, and the records that it reads and changes."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from sowline.changes.change import Change
from sowline.commands.command import CopyOf, LogRecord
from sowline.model.position import Position
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import Record

REPEAT: Final = "repeat"
"""The outcome of a command that was seen before."""

FOREIGN: Final = "foreign"
"""The outcome of a forwarded copy whose original is in another log."""


class Records(Protocol):
    """The records of a partition as a step sees and changes them."""

    def get(self, key: bytes) -> Record | None:
        """Return the entry of the SOW key: a record, the tombstone of a deleted record, or None."""

    def put(self, key: bytes, record: Record | None) -> None:
        """Store the record under the SOW key; None removes the entry."""

    def entries(self, start: bytes = b"") -> Iterator[tuple[bytes, Record]]:
        """Yield all entries from a SOW key on, those of deleted records too, in the order of the keys' bytes."""
        ...

    def scan(self, start: bytes = b"") -> Iterator[tuple[bytes, Record]]:
        """Yield all live records from a SOW key on, in the order of the keys' bytes."""
        ...


class Accelerator(Protocol):
    """Applies runs of plain log records at once, with the same result."""

    def apply(self, records: Sequence[LogRecord], start: int, state: Any) -> int:
        """Apply log records from `start` on, up to the first that it does not know; return its index.

        `state` is the `BatchState`; its step gets the changes and outcomes.
        """
        ...

    def merge_states(self, states: bytes, source: int, reached: Position, state: Any) -> int | None:
        """Merge partial states of a source partition, a JSON array, that are newer than a position into their groups.

        Return how many groups `write_states` has to write; None if only Python can merge them.
        """

    def write_states(self, state: Any, reflects: tuple[int, Position] | None, taken: str | None) -> None:
        """Write the groups that were merged. The last change has `reflects` and `taken`."""


@dataclass(frozen=True, slots=True)
class Forward:
    """A log record that another partition must apply: a misplaced one, or a delete for all."""

    partition: int
    record: LogRecord
    origin: CopyOf


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A log record that could not be applied, with the reason's code and a sentence."""

    record: LogRecord
    reason: str
    message: str


@dataclass(slots=True)
class Step:
    """The result of a batch of log records, in log order; `outcomes` names those that made no change.

    `unreported` holds checkpoints with the number of changes before them. Each follows a forwarded record without a
    change, or new limits, which nothing else reports before the next change. `others` are the log records that the
    accelerator has not applied alone, expiries, and those with a trace context. `commands` counts the changes by
    command. `tombstones` has the log time and the SOW key of each deleted record that is kept for its publishers'
    numbers.
    """

    checkpoint: Checkpoint
    changes: list[Change] = field(default_factory=list)
    forwards: list[Forward] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)
    outcomes: dict[str, str] = field(default_factory=dict)
    unreported: list[tuple[int, Checkpoint]] = field(default_factory=list)
    publishers_pushed_out: int = 0
    others: list[LogRecord] = field(default_factory=list)
    commands: Counter[str] = field(default_factory=Counter)
    tombstones: list[tuple[int, bytes]] = field(default_factory=list)
