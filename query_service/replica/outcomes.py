"""Finds the outcomes of commands of the APIs in the events of their topic. Pure.

A command is identified by its partition and offset in the log. That partition reports the outcome, in a change or in
the progress event that covers the command. A delete by filter or SOW keys goes on to all other partitions, whose
changes name its origin. A command may also have a key that is unknown when a client writes it. Then it may go on to
the owner of the key, whose changes name the origin too; if there are none, the outcome stays `forwarded`.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from query_service.replica.plain_run import Portion, events_of
from sowline.model.bookmark import Positions
from sowline.model.position import Position
from sowline.protocol.change import Change, Progress
from sowline.protocol.command import Origin

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


@dataclass(slots=True)
class _Command:
    """The reports about one command. `number` counts the commands of a log that have reports."""

    number: int
    outcome: str | None = None
    position: Position | None = None
    emitted_elsewhere: str | None = None
    deleted_elsewhere: int = 0
    done_elsewhere: dict[int, Position] = field(default_factory=dict)


class _Log:
    """The reports in the events of one log, since the start of the oldest command that a client waits for."""

    def __init__(self) -> None:
        self._begun: OrderedDict[int, int] = OrderedDict()
        """By token, oldest first, the least number that the command of a waiting client can have."""
        self._tokens = 0
        self._numbers = 0
        self._commands: OrderedDict[Origin, _Command] = OrderedDict()
        self._reached: dict[tuple[int, int], tuple[int, Position]] = {}
        """By partition and partition of origin: the highest offset of a forwarded command that is processed, and the
        position in the partition at which it was."""

    def begin(self) -> int:
        """Let a client wait for a command whose outcome is not reported yet."""
        self._tokens += 1
        self._begun[self._tokens] = self._numbers
        return self._tokens

    def end(self, token: int) -> bool:
        """Drop the reports that only this client needed; return whether another one still waits."""
        del self._begun[token]
        oldest = next(iter(self._begun.values()), self._numbers)
        while self._commands and next(iter(self._commands.values())).number < oldest:
            self._commands.popitem(last=False)
        return bool(self._begun)

    def _command(self, origin: Origin) -> _Command:
        command = self._commands.get(origin)
        if command is None:
            command = self._commands[origin] = _Command(self._numbers)
            self._numbers += 1
        return command

    def note_change(self, partition: int, change: Change) -> None:
        """Note the outcome of the command that made a change."""
        if change.origin is not None:
            command = self._command(change.origin)
            command.deleted_elsewhere += change.body is None
            if change.last:
                command.done_elsewhere[partition] = change.position
                command.emitted_elsewhere = change.outcome or APPLIED
        elif change.last:
            command = self._command(Origin(partition, change.position.offset))
            command.outcome, command.position = change.outcome or APPLIED, change.position

    def note_progress(self, partition: int, progress: Progress) -> None:
        """Note the outcomes in a progress event: of the partition's own commands without a change, and of forwarded
        ones.
        """
        for offset, outcome in progress.outcomes.items():
            command = self._command(Origin(partition, int(offset)))
            if command.outcome is None:
                command.outcome, command.position = outcome, Position(progress.position.era, int(offset))
        for origin, reached in progress.origins.items():
            known = self._reached.get((partition, origin))
            if known is None or reached > known[0]:
                self._reached[partition, origin] = reached, progress.position

    def outcome(self, origin: Origin, others: Iterable[int]) -> CommandOutcome | None:
        """Return the outcome of a command; None until it is known in its partition and in the `others`."""
        command = self._commands.get(origin)
        if command is None or command.outcome is None or command.position is None:
            return None
        effect = {origin.partition: command.position}
        if command.outcome.startswith(_FORWARDED):
            owner = int(command.outcome.removeprefix(_FORWARDED))
            if (done := self._done_at(owner, origin, command)) is None:
                return None
            effect[owner] = done
            return CommandOutcome(
                command.emitted_elsewhere or command.outcome, command.deleted_elsewhere, effect
            )
        if not command.outcome.startswith(_DELETED):
            return CommandOutcome(command.outcome, 0, effect)
        for other in others:
            if (done := self._done_at(other, origin, command)) is None:
                return None
            effect[other] = done
        here = int(command.outcome.removeprefix(_DELETED))
        return CommandOutcome(command.outcome, here + command.deleted_elsewhere, effect)

    def _done_at(self, partition: int, origin: Origin, command: _Command) -> Position | None:
        """Return where a partition has processed a command that was forwarded to it; None if it has not."""
        if partition in command.done_elsewhere:
            return command.done_elsewhere[partition]
        reached, position = self._reached.get((partition, origin.partition), (-1, None))
        return position if reached >= origin.offset else None


class Outcomes:
    """Keeps the reports about commands, but only while a client waits."""

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}

    def begin(self, log: str) -> int:
        """Start to keep the reports about a log's commands, for a command that is about to be written.

        Return a token for `end`.
        """
        return self._logs.setdefault(log, _Log()).begin()

    def end(self, log: str, token: int) -> None:
        """Stop waiting for the command that was begun."""
        if not self._logs[log].end(token):
            del self._logs[log]

    def take(self, log: str, partition: int, portions: Sequence[Portion]) -> None:
        """Add the events that were applied for a partition."""
        kept = self._logs.get(log)
        if kept is None:
            return
        for _, event in events_of(portions):
            if isinstance(event, Change):
                kept.note_change(partition, event)
            else:
                kept.note_progress(partition, event)

    def of(self, log: str, origin: Origin, others: Iterable[int] = ()) -> CommandOutcome | None:
        """Return the outcome of a command; None until it is known in its partition and in the `others`."""
        return self._logs[log].outcome(origin, others)
