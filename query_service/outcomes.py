"""What becomes of commands that came in through a door: found again in the events of their topic. Pure.

A command is known by where it stands on the log. Its own partition says what became of it: on a change, or on the
progress event that covers it. A delete by filter or SOW keys is forwarded to all other partitions, which name where
it came from.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from query_service.replica import Placed
from sowline.change import Change, Progress
from sowline.command import Origin

APPLIED = "applied"
DEAD = "dead:"
_DELETED = "deleted "


class Outcome(NamedTuple):
    """What became of a command, in the words of the changes topic, and how many records it has deleted."""

    said: str
    deleted: int = 0

    @property
    def refusal(self) -> str | None:
        """The reason why it is a dead letter; None where it is not."""
        return self.said.removeprefix(DEAD) if self.said.startswith(DEAD) else None


@dataclass(slots=True)
class _Command:
    """What has been said of one command. `number` counts the commands of a log of which something was said."""

    number: int
    said: str | None = None
    deleted_elsewhere: int = 0
    done_elsewhere: set[int] = field(default_factory=set)


class _Log:
    """What the events of one log have said since the oldest command was begun that somebody waits for."""

    def __init__(self) -> None:
        self._begun: OrderedDict[int, int] = OrderedDict()
        """Who waits, oldest first: for a command whose number is at least so much."""
        self._tokens = 0
        self._numbers = 0
        self._commands: OrderedDict[Origin, _Command] = OrderedDict()
        self._reached: dict[tuple[int, int], int] = {}
        """By partition and partition of origin: the highest offset that was forwarded from there and is done with."""

    def begin(self) -> int:
        """Let somebody wait for a command of which nothing was said yet."""
        self._tokens += 1
        self._begun[self._tokens] = self._numbers
        return self._tokens

    def end(self, token: int) -> bool:
        """Forget what only this one has waited for; tell whether anybody is left."""
        del self._begun[token]
        oldest = next(iter(self._begun.values()), self._numbers)
        while self._commands and next(iter(self._commands.values())).number < oldest:
            self._commands.popitem(last=False)
        return bool(self._begun)

    def _command(self, place: Origin) -> _Command:
        command = self._commands.get(place)
        if command is None:
            command = self._commands[place] = _Command(self._numbers)
            self._numbers += 1
        return command

    def note_change(self, partition: int, change: Change) -> None:
        """Note what a change says of the command that made it."""
        if change.origin is not None:
            command = self._command(change.origin)
            command.deleted_elsewhere += change.body is None
            if change.last:
                command.done_elsewhere.add(partition)
        elif change.last:
            self._command(Origin(partition, change.position.offset)).said = change.outcome or APPLIED

    def note_progress(self, partition: int, progress: Progress) -> None:
        """Note what a progress event says of commands without a change, its own and others' forwarded ones."""
        for offset, said in progress.outcomes.items():
            command = self._command(Origin(partition, int(offset)))
            command.said = command.said or said
        for origin, reached in progress.origins.items():
            self._reached[partition, origin] = max(reached, self._reached.get((partition, origin), -1))

    def outcome(self, place: Origin, others: Iterable[int]) -> Outcome | None:
        """Return what became of a command, once it and what `others` did of it is known."""
        command = self._commands.get(place)
        if command is None or command.said is None:
            return None
        if not command.said.startswith(_DELETED):
            return Outcome(command.said)
        if not all(self._is_done_in(other, place, command) for other in others):
            return None
        here = int(command.said.removeprefix(_DELETED))
        return Outcome(command.said, here + command.deleted_elsewhere)

    def _is_done_in(self, partition: int, place: Origin, command: _Command) -> bool:
        reached = self._reached.get((partition, place.partition), -1)
        return reached >= place.offset or partition in command.done_elsewhere


class Outcomes:
    """Keeps what events say of commands while somebody waits, and nothing else."""

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}

    def begin(self, log: str) -> int:
        """Keep what is said of a log's commands: one of them will be written now, nobody knows where to.

        Returns a token, to be given back with `end`.
        """
        return self._logs.setdefault(log, _Log()).begin()

    def end(self, log: str, token: int) -> None:
        """Say that nobody waits any more for the command that was begun."""
        if not self._logs[log].end(token):
            del self._logs[log]

    def take(self, log: str, partition: int, events: Iterable[Placed]) -> None:
        """Take in what was applied of a log's partition."""
        kept = self._logs.get(log)
        if kept is None:
            return
        for _, event in events:
            if isinstance(event, Change):
                kept.note_change(partition, event)
            else:
                kept.note_progress(partition, event)

    def of(self, log: str, place: Origin, others: Iterable[int] = ()) -> Outcome | None:
        """Return what became of a command that was begun; None while that, or what `others` did, is not known."""
        return self._logs[log].outcome(place, others)
