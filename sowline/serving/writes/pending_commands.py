"""The commands of one request, from the log to their outcomes."""

import asyncio
import itertools
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sowline.commands.command import Origin
from sowline.errors import SowlineError
from sowline.model.bookmark import Positions, PositionsByLog, format_bookmark
from sowline.model.position import Position
from sowline.serving.writes.checked_command import CheckedCommand
from sowline.serving.writes.command_writer import CommandWriter
from sowline.serving.writes.destination import AwaitedReports, OutcomeWatch, WriteDestination
from sowline.serving.writes.outcome import SECONDS_MAX, CommandOutcome, OutcomeReports
from sowline.serving.writes.requests import RequestedCommand, of_one
from sowline.serving.writes.write_entitlements import RecordCheck

TURN_COMMANDS = 200
"""Commands of one request to write before other tasks of the event loop run."""


@dataclass(frozen=True, slots=True)
class WriteSummary:
    """The outcomes of a request's commands."""

    each: Sequence[str]
    """The outcome of each command."""
    deleted: int
    records: int
    effect: PositionsByLog
    """The positions of the effect: a replica that has reached them shows what the commands did."""

    @property
    def outcomes(self) -> Mapping[str, int]:
        """The number of commands with each outcome."""
        return Counter(self.each)

    @property
    def counts(self) -> dict[str, int]:
        """The counts of a `stats` acknowledgement."""
        return {
            "topic_matches": self.records,
            "matches": self.deleted,
            "records_returned": 0,
            "records_deleted": self.deleted,
        }


class _Written(NamedTuple):
    """A command that was given to Kafka, with its number in its request."""

    number: int
    write: CheckedCommand
    persisted: asyncio.Future[Origin]


class _Reported:
    """The reports about a command that is on the log, so far."""

    def __init__(self, written: _Written) -> None:
        self.number, self._write, persisted = written
        self.found = OutcomeReports(persisted.result())
        topic = self._write.topic
        self._everywhere = range(topic.partitions if self._write.is_for_all else 0)

    @property
    def missing(self) -> Collection[int]:
        """The partitions that it concerns and whose reports are needed next."""
        return self.found.missing(self._everywhere)

    @property
    def awaited(self) -> AwaitedReports:
        """The reports to wait for next."""
        return AwaitedReports(self._write.topic, self.found.origin, self.missing)

    def concluded(self) -> CommandOutcome:
        """Return its outcome; raise why the materializer refused it."""
        outcome = self.found.concluded(self._everywhere)
        if outcome.refusal is not None:
            raise SowlineError(
                outcome.refusal,
                f"the materializer refused the {self._write.command}; its dead letter in"
                f" {self._write.topic.kafka.dead} says why",
            )
        return outcome


@dataclass(frozen=True, slots=True)
class WriteService:
    """The shared parts of all writes of a service: the topics' destination, and the writer of their logs."""

    destination: WriteDestination
    writer: CommandWriter

    async def check(self, commands: Sequence[RequestedCommand]) -> None:
        """Check the commands against the records that they name; raise `not entitled`."""
        for start in range(0, len(commands), TURN_COMMANDS):
            portion = list(enumerate(commands[start : start + TURN_COMMANDS], start + 1))
            named = [(number, one.write, one.check) for number, one in portion if one.check is not None]
            waiting = iter(named)
            async for bodies in self.destination.bodies_of(check for _, _, check in named):
                number, write, check = next(waiting)
                self._check_one(write, check, bodies, number, len(commands))
            await _let_others_run(len(portion))

    def _check_one(
        self, write: CheckedCommand, check: RecordCheck, held: Sequence[bytes], number: int, of: int
    ) -> None:
        key_text = check.key_text
        template = {} if key_text is None else self.destination.template(check.topic.name, key_text)
        try:
            check.check(write, held, template)
        except SowlineError as error:
            raise of_one(number, of, error) if of > 1 else error from None

    async def begin(self, commands: Sequence[RequestedCommand]) -> "PendingCommands":
        """Check the commands, and begin to watch for their outcomes."""
        await self.check(commands)
        # Watch before the commands are written: the materializer may report an outcome before Kafka's acknowledgement
        # arrives here.
        return PendingCommands(self, commands, await self.destination.watch([one.write for one in commands]))

    def begin_now(self, commands: Sequence[RequestedCommand]) -> "PendingCommands | None":
        """Begin to watch for the outcomes of the commands; None if something must be awaited first."""
        if any(one.check is not None for one in commands):
            return None
        watch = self.destination.watch_now([one.write for one in commands])
        return None if watch is None else PendingCommands(self, commands, watch)


class PendingCommands:
    """Commands that are written in their order. Call `end`: until then, their outcomes are kept."""

    def __init__(
        self, service: WriteService, commands: Sequence[RequestedCommand], watch: OutcomeWatch
    ) -> None:
        self._service = service
        self._commands = commands
        self._destination = service.destination
        self._watch: OutcomeWatch | None = watch
        # Count before the commands are written: afterwards, the records that they deleted are missing.
        self._records = {
            one.write.topic.name: service.destination.records(one.write.topic.name)
            for one in commands
            if one.may_see_all
        }
        self._persisted: list[asyncio.Future[Origin]] = []

    def write(self) -> None:
        """Write all commands in one step; if one fails, the commands after it are not written."""
        for _ in self._portions():
            continue

    async def write_with_turns(self) -> None:
        """Write all commands; other tasks run in between."""
        for _ in self._portions():
            await asyncio.sleep(0)

    def _portions(self) -> Iterator[None]:
        try:
            for number, command in enumerate(self._commands, 1):
                self._persisted.append(self._service.writer.write(command.write))
                if number % TURN_COMMANDS == 0:
                    yield
        except Exception:
            # Whatever the error is, nobody waits for these outcomes: they would be kept until the service ends
            # (test_outcomes_are_not_kept_after_a_failed_write).
            self.end()
            raise

    def end(self) -> None:
        """Stop waiting for the outcomes."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.end()

    async def wait_persisted(self) -> str:
        """Wait until Kafka has all commands; return the bookmark after them, or raise `not written`."""
        positions_by_log: dict[str, dict[int, Position]] = {}
        for portion in self._written():
            await _wait_settled(portion)
            for one in portion:
                topic = one.write.topic
                partition, offset = one.persisted.result()
                era = self._destination.era(topic.name, partition)
                positions = positions_by_log.setdefault(topic.log, {})
                positions[partition] = max(Position(era, offset), positions.get(partition, Position(era, -1)))
            await _let_others_run(len(portion))
        return format_bookmark(positions_by_log)

    def _written(self) -> Iterator[list[_Written]]:
        """Yield the written commands, in portions."""
        written = map(_Written, itertools.count(1), (one.write for one in self._commands), self._persisted)
        while portion := list(itertools.islice(written, TURN_COMMANDS)):
            yield portion

    async def wait_outcomes(self) -> WriteSummary:
        """Wait for all outcomes; raise the error of the first command that was refused."""
        outcomes: list[CommandOutcome] = []
        for portion in self._written():
            await _wait_settled(portion)
            outcomes += await self._wait_concluded(portion)
            await _let_others_run(len(portion))
        each = [outcome.outcome for outcome in outcomes]
        deleted = [outcome.deleted for outcome in outcomes]
        effect = _effect_of(self._commands, outcomes)
        return WriteSummary(each, sum(deleted), self._compared(deleted), effect)

    async def _wait_concluded(self, portion: Sequence[_Written]) -> list[CommandOutcome]:
        """Wait for the outcomes of some commands; raise the error of the first one that has none, or was refused."""
        outcomes: list[CommandOutcome] = []
        pending = deque(map(_Reported, portion))
        while pending:
            try:
                await self._wait_first(pending)
                while pending and not pending[0].missing:
                    outcomes.append(pending[0].concluded())
                    pending.popleft()
            except SowlineError as error:
                if len(self._commands) == 1:
                    raise
                raise of_one(pending[0].number, len(self._commands), error) from error
        return outcomes

    async def _wait_first(self, pending: Collection["_Reported"]) -> None:
        """Wait until the first command's outcome is known; raise `behind` if that takes too long.

        What is known by then of the others is noted, too.
        """
        assert self._watch is not None, "an outcome is awaited before `end`"
        try:
            async with asyncio.timeout(SECONDS_MAX):
                while next(iter(pending)).missing:
                    # All at once: one batch of events usually has the outcomes of many commands, and a wait for each
                    # would look at the reports as often (test_outcomes_that_are_known_together_are_awaited_once).
                    reports = await self._watch.wait_reports(one.awaited for one in _open(pending))
                    assert reports, "there is a report on the first one"
                    for report, one in zip(reports, _open(pending), strict=False):
                        one.found.add(report)
        except TimeoutError:
            raise SowlineError(
                "behind",
                f"the command is on the log, but was not applied within {SECONDS_MAX:g} s. Nothing is lost: the"
                " materializer is behind, or does not run",
            ) from None

    def _compared(self, deleted: Sequence[int]) -> int:
        """Return the number of records that the commands were compared with: all records of each topic.

        If the user may not see all records of a topic, count only the deleted ones.
        """
        # How many records there are is not told to a user who may see only some of them
        # (test_a_delete_counts_what_may_be_seen).
        hidden = (count for one, count in zip(self._commands, deleted, strict=True) if not one.may_see_all)
        return sum(self._records.values()) + sum(hidden)


def _effect_of(commands: Sequence[RequestedCommand], outcomes: Sequence[CommandOutcome]) -> PositionsByLog:
    """Return the positions from which the effects of all commands are visible."""
    positions_by_log: dict[str, Positions] = {}
    for command, outcome in zip(commands, outcomes, strict=True):
        positions = positions_by_log.setdefault(command.write.topic.log, {})
        for partition, position in outcome.effect.items():
            positions[partition] = max(position, positions.get(partition, position))
    return positions_by_log


def _open(pending: Iterable[_Reported]) -> Iterator[_Reported]:
    """Yield the commands of which reports are missing; each is looked at when it is needed, which most never are."""
    return (one for one in pending if one.missing)


async def _wait_settled(portion: Sequence[_Written]) -> None:
    """Wait until Kafka has answered for all of these commands; raise the error of the first that it did not take."""
    # `asyncio.wait` leaves the futures as they are. Awaited directly or gathered, they would be cancelled with their
    # request, and no error of Kafka would be seen (test_a_request_that_ends_leaves_kafkas_answers).
    waiting = [one.persisted for one in portion if not one.persisted.done()]
    if waiting:
        await asyncio.wait(waiting)
    for one in portion:
        one.persisted.result()


async def _let_others_run(count: int) -> None:
    """Let other tasks run after a whole portion; a request with one command goes on at once."""
    if count == TURN_COMMANDS:
        await asyncio.sleep(0)
