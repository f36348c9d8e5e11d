"""Finds the reports about commands of the APIs in the events of their topic. Pure.

The partition of a command reports the outcome in a change, or in the progress event that covers the command. The
changes of other partitions name the command as their origin if it was forwarded to them; if they make none, their
progress events name the partition of origin.

Only the changes that a follower takes count (`sowline.changes.changes_reader`). Progress events count up to any
position of the era: an owner that is behind the emitted changes reports outcomes, too.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sowline.changes.change import Change
from sowline.changes.changes_reader import is_newer
from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.commands.command import Origin
from sowline.errors import SowlineError
from sowline.model.bookmark import Positions
from sowline.model.position import Position, before_the_log
from sowline.serving.writes.outcome import APPLIED, ForwardReport, OutcomeReports, OwnReport
from sowline_query_service.replica.plain_run import Portion, events_of


class News(NamedTuple):
    """The commands of which a batch of events reports."""

    commands: set[Origin]
    processed: dict[int, int]
    """By partition of origin, the highest offset of a forwarded command that a partition has processed."""

    def of(self, awaited: Collection[Origin]) -> list[Origin]:
        """Return the awaited commands among them."""
        found = [origin for origin in self.commands if origin in awaited]
        if self.processed:
            found += [one for one in awaited if one.offset <= self.processed.get(one.partition, -1)]
        return found


@dataclass(slots=True)
class _Command:
    """The reports about one command. `number` counts the commands of a log that have reports."""

    number: int
    own: OwnReport | None = None
    deleted: dict[int, int] = field(default_factory=dict)
    """The number of deleted records so far, by the partition that it was forwarded to."""
    done: dict[int, ForwardReport] = field(default_factory=dict)


class _Log:
    """The reports in the events of one log, since the start of the oldest command that a client waits for."""

    def __init__(self, held: Positions) -> None:
        self._held = defaultdict(before_the_log, held)
        """The newest position of each partition."""
        self._begun: OrderedDict[int, int] = OrderedDict()
        """The least number that the command of a waiting client can have, by token, oldest first."""
        self._tokens = 0
        self._numbers = 0
        self._commands: OrderedDict[Origin, _Command] = OrderedDict()
        self._reached: dict[tuple[int, int], tuple[int, Position]] = {}
        """The highest offset of a processed forwarded command, and the position of the partition that processed it.

        They are found by partition and partition of origin.
        """
        self._news = News(set(), {})

    def take_news(self) -> News:
        """Return what was reported since the last call."""
        news, self._news = self._news, News(set(), {})
        return news

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

    def note(self, partition: int, event: Event) -> None:
        """Note the outcomes in an event, unless it is a repeat or of an ended era."""
        held = self._held[partition]
        # The log was replaced: what an owner of the ended era reports of an offset is the outcome of another command
        # (test_an_owner_of_an_ended_era_reports_no_outcome).
        if event.position.era < held.era:
            return
        if event.position.era > held.era:
            self._begin_era(partition)
        if isinstance(event, Progress):
            self._note_progress(partition, event)
        # A stale owner repeats a forwarded delete, and its records would count twice. The owner repairs a deleted
        # record: that event would hide the count (test_a_forwarded_delete_that_is_repeated_is_counted_once,
        # test_a_repair_of_a_deleted_record_keeps_the_count).
        elif is_newer(event, held):
            self._note_change(partition, event)
        if is_newer(event, held):
            self._held[partition] = event.position

    def _begin_era(self, partition: int) -> None:
        """Forget what a partition reported in the ended era: its offsets may name other commands now."""
        for origin, command in self._commands.items():
            if origin.partition == partition:
                command.own = None
            command.deleted.pop(partition, None)
            command.done.pop(partition, None)
        self._reached = {key: reached for key, reached in self._reached.items() if key[0] != partition}

    def _note_change(self, partition: int, change: Change) -> None:
        """Note the outcome of the command that made a change."""
        if change.origin is not None:
            command = self._command(change.origin)
            deleted = command.deleted.get(partition, 0) + (change.body is None)
            command.deleted[partition] = deleted
            # A delete may make many changes, and only with the last one the count is complete.
            if change.last:
                emitted = change.outcome or APPLIED
                command.done[partition] = ForwardReport(change.position, emitted, deleted)
                self._news.commands.add(change.origin)
        elif change.last:
            origin = Origin(partition, change.position.offset)
            self._command(origin).own = OwnReport(change.outcome or APPLIED, change.position)
            self._news.commands.add(origin)

    def _note_progress(self, partition: int, progress: Progress) -> None:
        """Note the outcomes of commands without a change in a progress event, and of forwarded commands."""
        for offset, outcome in progress.outcomes.items():
            command = self._command(own := Origin(partition, int(offset)))
            if command.own is None:
                command.own = OwnReport(outcome, Position(progress.position.era, int(offset)))
                self._news.commands.add(own)
        for origin, reached in progress.origins.items():
            # The first progress event that reports an offset: later ones repeat it at positions that are too late.
            known = self._reached.get((partition, origin))
            if known is None or reached > known[0]:
                self._reached[partition, origin] = reached, progress.position
                self._news.processed[origin] = max(reached, self._news.processed.get(origin, -1))

    def reports(self, origin: Origin, partitions: Collection[int]) -> OutcomeReports:
        """Return the reports of these partitions about a command."""
        found = OutcomeReports(origin)
        command = self._commands.get(origin)
        if command is not None and origin.partition in partitions:
            found.own = command.own
        for number in partitions:
            if (done := self._forwarded(number, origin, command)) is not None:
                found.forwarded[number] = done
        return found

    def _forwarded(self, partition: int, origin: Origin, command: _Command | None) -> ForwardReport | None:
        """Return the report of a partition on a command that was forwarded to it; None if it has not processed it."""
        if command is not None and partition in command.done:
            return command.done[partition]
        reached, position = self._reached.get((partition, origin.partition), (-1, None))
        return ForwardReport(position) if position is not None and reached >= origin.offset else None


class Outcomes:
    """Keeps the reports about commands, but only while a client waits."""

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}

    @property
    def logs(self) -> Collection[str]:
        """The logs of which reports are kept."""
        return self._logs.keys()

    def begin(self, log: str, held: Positions) -> int:
        """Start to keep the reports about a log's commands, for commands that are about to be written.

        `held` are the positions of its partitions now. Return a token for `end`.
        """
        return self._logs.setdefault(log, _Log(held)).begin()

    def end(self, log: str, token: int) -> None:
        """Stop waiting for the commands for which it was begun."""
        if not self._logs[log].end(token):
            del self._logs[log]

    def take(self, log: str, partition: int, portions: Sequence[Portion]) -> News:
        """Add the events that have arrived for a partition; return the commands with new reports."""
        kept = self._logs.get(log)
        if kept is None:
            return News(set(), {})
        for _, event in events_of(portions):
            kept.note(partition, event)
        return kept.take_news()

    def reports(self, log: str, origin: Origin, partitions: Collection[int]) -> OutcomeReports:
        """Return the reports of these partitions about a command since `begin`; raise `behind` after `end`."""
        kept = self._logs.get(log)
        if kept is None:
            raise SowlineError("behind", "the outcome is not known: no client waits for it now")
        return kept.reports(origin, partitions)
