"""The outcome of a command, made from the reports of its partitions. Pure.

A command is identified by its partition and offset in the log. That partition reports the outcome. A delete by filter
or SOW keys is forwarded to all other partitions, which report how many records they deleted. A command may also have
a key that is unknown when a client writes it. Then it may be forwarded to the owner of the key.

The partitions may be at several query services: their reports are merged.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from sowline.commands.command import Origin
from sowline.model.bookmark import Positions
from sowline.model.position import Position

SECONDS_MAX = 30.0
"""How long a client waits for the outcome of a command."""

APPLIED = "applied"
DEAD = "dead:"
_DELETED = "deleted "
_FORWARDED = "forwarded "


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """The outcome of a command, as in the changes topic, and the number of records that it deleted.

    `effect` has the position at which each partition that the command concerns has processed it. A replica at these
    positions shows the command's effect.
    """

    outcome: str
    deleted: int = 0
    effect: Positions = field(default_factory=dict, compare=False)

    @property
    def refusal(self) -> str | None:
        """The reason why it is a dead letter, or None."""
        return self.outcome.removeprefix(DEAD) if self.outcome.startswith(DEAD) else None


@dataclass(frozen=True, slots=True)
class OwnReport:
    """The report of a command's own partition, and the partition's position then."""

    outcome: str
    position: Position


@dataclass(frozen=True, slots=True)
class ForwardReport:
    """The report of another partition on a command that was forwarded to it.

    `emitted` is the outcome in its changes, None if it has made none.
    """

    position: Position
    emitted: str | None = None
    deleted: int = 0


@dataclass(slots=True)
class OutcomeReports:
    """The reports about one command so far, from its partition and from those that it was forwarded to."""

    origin: Origin
    own: OwnReport | None = None
    forwarded: dict[int, ForwardReport] = field(default_factory=dict)

    def missing(self, everywhere: Collection[int]) -> frozenset[int]:
        """Return the partitions whose reports are needed next; none if the outcome is known.

        `everywhere` are the partitions to which a delete goes: all, or none if it is for one record.
        """
        if self.own is None:
            return frozenset({self.origin.partition})
        if self.own.outcome.startswith(_FORWARDED):
            return frozenset({self._owner}) - self.forwarded.keys()
        if self.own.outcome.startswith(_DELETED):
            return frozenset(everywhere) - {self.origin.partition} - self.forwarded.keys()
        return frozenset()

    @property
    def _owner(self) -> int:
        assert self.own is not None
        return int(self.own.outcome.removeprefix(_FORWARDED))

    def lacking(self, wanted: Collection[int]) -> list[int]:
        """Return the wanted partitions that have not reported."""
        return [
            number
            for number in wanted
            if (self.own is None if number == self.origin.partition else number not in self.forwarded)
        ]

    @property
    def positions(self) -> Positions:
        """The position of each partition when it reported."""
        own = {} if self.own is None else {self.origin.partition: self.own.position}
        return own | {number: one.position for number, one in self.forwarded.items()}

    def add(self, other: "OutcomeReports") -> None:
        """Add the reports of other partitions."""
        # A query service reports only of its partitions: one without the command's own would hide the outcome
        # (test_a_delete_for_all_waits_for_all).
        self.own = self.own or other.own
        self.forwarded |= other.forwarded

    def concluded(self, everywhere: Collection[int]) -> CommandOutcome:
        """Return the outcome; no report may be missing."""
        assert self.own is not None, "no report is missing"
        own, effect = self.own.outcome, {self.origin.partition: self.own.position}
        if own.startswith(_FORWARDED):
            # If the owner made no change, the outcome stays `forwarded`.
            there = self.forwarded[self._owner]
            return CommandOutcome(there.emitted or own, there.deleted, effect | {self._owner: there.position})
        if not own.startswith(_DELETED):
            return CommandOutcome(own, 0, effect)
        elsewhere = frozenset(everywhere) - {self.origin.partition}
        others = {number: one for number, one in self.forwarded.items() if number in elsewhere}
        deleted = int(own.removeprefix(_DELETED)) + sum(one.deleted for one in others.values())
        return CommandOutcome(own, deleted, effect | {number: one.position for number, one in others.items()})
