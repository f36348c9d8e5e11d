"""The commands of one request, from the log to their outcomes."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sowline.commands.command import Origin
from sowline.errors import SowlineError
from sowline.model.bookmark import Positions, PositionsByLog, format_bookmark
from sowline.model.position import Position
from sowline.serving.writes.checked_command import CheckedCommand
from sowline.serving.writes.command_writer import CommandWriter
from sowline.serving.writes.destination import OutcomeWatch, WriteDestination
from sowline.serving.writes.outcome import SECONDS_MAX, CommandOutcome, OutcomeReports
from sowline.serving.writes.requests import RequestedCommand, of_one

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


@dataclass(frozen=True, slots=True)
class WriteService:
    """The shared parts of all writes of a service: the topics' destination, and the writer of their logs."""

    destination: WriteDestination
    writer: CommandWriter

    async def check(self, commands: Sequence[RequestedCommand]) -> None:
        """Check the commands against the records that they name; raise `not entitled`."""
        for number, command in enumerate(commands, 1):
            if command.check is not None:
                topic, key_text = command.write.topic.name, command.check.key_text
                held = await self.destination.bodies_of(topic, command.check)
                template = {} if key_text is None else self.destination.template(topic, key_text)
                try:
                    command.check.check(command.write, held, template)
                except SowlineError as error:
                    raise of_one(number, len(commands), error) if len(commands) > 1 else error from None
            await _let_others_run(number)

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
        for number, (command, persisted) in enumerate(zip(self._commands, self._persisted, strict=True), 1):
            topic = command.write.topic
            partition, offset = await persisted
            era = self._destination.era(topic.name, partition)
            positions = positions_by_log.setdefault(topic.log, {})
            positions[partition] = max(Position(era, offset), positions.get(partition, Position(era, -1)))
            await _let_others_run(number)
        return format_bookmark(positions_by_log)

    async def wait_outcomes(self) -> WriteSummary:
        """Wait for all outcomes; raise the error of the first command that was refused."""
        outcomes: list[CommandOutcome] = []
        for number, (command, persisted) in enumerate(zip(self._commands, self._persisted, strict=True), 1):
            try:
                outcomes.append(await self._wait_outcome(command.write, await persisted))
            except SowlineError as error:
                if len(self._commands) == 1:
                    raise
                raise of_one(number, len(self._commands), error) from error
            await _let_others_run(number)
        each = [outcome.outcome for outcome in outcomes]
        deleted = [outcome.deleted for outcome in outcomes]
        effect = _effect_of(self._commands, outcomes)
        return WriteSummary(each, sum(deleted), self._compared(deleted), effect)

    async def _wait_outcome(self, write: CheckedCommand, origin: Origin) -> CommandOutcome:
        """Wait for the outcome of a command; raise `behind`, or why the materializer refused it."""
        try:
            async with asyncio.timeout(SECONDS_MAX):
                outcome = await self._wait_concluded(write, origin)
        except TimeoutError:
            raise SowlineError(
                "behind",
                f"the command is on the log, but was not applied within {SECONDS_MAX:g} s. Nothing is lost: the"
                " materializer is behind, or does not run",
            ) from None
        if outcome.refusal is not None:
            raise SowlineError(
                outcome.refusal,
                f"the materializer refused the {write.command}; its dead letter in {write.topic.kafka.dead} says why",
            )
        return outcome

    async def _wait_concluded(self, write: CheckedCommand, origin: Origin) -> CommandOutcome:
        """Wait until all partitions that a command concerns have reported about it."""
        assert self._watch is not None, "an outcome is awaited before `end`"
        everywhere = range(write.topic.partitions if write.is_for_all else 0)
        found = OutcomeReports(origin)
        while missing := found.missing(everywhere):
            found.add(await self._watch.wait_reports(write.topic, origin, missing))
        return found.concluded(everywhere)

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


async def _let_others_run(number: int) -> None:
    """Let other tasks run after every `TURN_COMMANDS` commands."""
    if number % TURN_COMMANDS == 0:
        await asyncio.sleep(0)
