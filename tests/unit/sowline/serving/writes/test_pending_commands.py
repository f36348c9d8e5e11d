"""The commands of a request, from the log to their outcomes: they wait together."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sowline.commands.command import Origin
from sowline.errors import SowlineError
from sowline.model.position import Position
from sowline.serving.writes import pending_commands
from sowline.serving.writes.destination import AwaitedReports
from sowline.serving.writes.outcome import OutcomeReports, OwnReport
from sowline.serving.writes.pending_commands import PendingCommands, WriteService
from sowline.serving.writes.requests import RequestedCommand
from tests.unit.sowline.serving.writes.test_command_writer import COMMAND
from tests.waiting import loop_turns

REQUESTED = [RequestedCommand(COMMAND, None, may_see_all=True)] * 5


class Reports:
    """A watch that knows the outcomes of some commands, by offset, and gives those up to the first it lacks."""

    def __init__(self, outcomes: dict[int, str]) -> None:
        self.outcomes = outcomes
        self.asked = 0
        self.news = asyncio.Event()

    async def wait_reports(self, awaited: Iterable[AwaitedReports]) -> list[OutcomeReports]:
        """Wait for the first one."""
        self.asked += 1
        first, *others = awaited
        while first.origin.offset not in self.outcomes:
            await self.news.wait()
        found = []
        for one in (first, *others):
            if (outcome := self.outcomes.get(one.origin.offset)) is None:
                break
            found.append(OutcomeReports(one.origin, OwnReport(outcome, Position(0, one.origin.offset))))
        return found


def written(reports: Reports) -> tuple[PendingCommands, list["asyncio.Future[Origin]"]]:
    """Return commands that were written, and the futures of Kafka's answers."""
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[Origin]] = [loop.create_future() for _ in REQUESTED]
    answers = iter(futures)
    service = SimpleNamespace(
        writer=SimpleNamespace(write=lambda command: next(answers)),
        destination=SimpleNamespace(records=lambda topic: 0, era=lambda topic, partition: 0),
    )
    pending = PendingCommands(cast("Any", service), REQUESTED, cast("Any", reports))
    pending.write()
    return pending, futures


def answered(futures: list["asyncio.Future[Origin]"]) -> None:
    """Let Kafka take all commands."""
    for offset, future in enumerate(futures):
        future.set_result(Origin(0, offset))


@pytest.mark.parametrize("portion", [2, 200])
async def test_outcomes_that_are_known_together_are_awaited_once(
    portion: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for each portion, however many commands it has."""
    monkeypatch.setattr(pending_commands, "TURN_COMMANDS", portion)
    reports = Reports(dict.fromkeys(range(5), "applied"))
    pending, futures = written(reports)
    answered(futures)
    assert (await pending.wait_persisted()).endswith(":0@4")
    assert (await pending.wait_outcomes()).each == ["applied"] * 5
    assert reports.asked == -(-5 // portion)


async def test_a_refusal_is_known_before_what_follows_it() -> None:
    """The client learns of it while later commands still wait."""
    reports = Reports({0: "applied", 1: "dead:bad body"})
    pending, futures = written(reports)
    answered(futures)
    with pytest.raises(SowlineError, match="record 2 of 5") as error:
        await pending.wait_outcomes()
    assert error.value.reason == "bad body"


async def test_an_outcome_that_comes_late_is_waited_for() -> None:
    """And those behind it, in their order."""
    reports = Reports({0: "applied"})
    pending, futures = written(reports)
    answered(futures)
    waiting = asyncio.create_task(pending.wait_outcomes())
    await loop_turns(10)
    assert not waiting.done()
    reports.outcomes |= dict.fromkeys(range(1, 5), "unchanged")
    reports.news.set()
    assert (await waiting).each == ["applied", *["unchanged"] * 4]


async def test_a_command_that_kafka_did_not_take_fails_the_request() -> None:
    """The first one of them, once all others are answered."""
    pending, futures = written(Reports({}))
    waiting = asyncio.create_task(pending.wait_persisted())
    futures[3].set_exception(SowlineError("not written", "the fourth"))
    await loop_turns(10)
    assert not waiting.done()
    futures[1].set_exception(SowlineError("not written", "the second"))
    for number in (0, 2, 4):
        futures[number].set_result(Origin(0, number))
    with pytest.raises(SowlineError, match="the second"):
        await waiting


async def test_a_request_that_ends_leaves_kafkas_answers() -> None:
    """A cancelled wait cancels none of them: the commands are on their way."""
    pending, futures = written(Reports({}))
    waiting = asyncio.create_task(pending.wait_persisted())
    await loop_turns(10)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert not any(future.cancelled() for future in futures)


class Records:
    """A destination that notes whose records were read."""

    def __init__(self) -> None:
        self.read: list[str] = []

    async def bodies_of(self, checks: Iterable[Any]) -> AsyncIterator[list[bytes]]:
        """Yield no records."""
        for check in checks:
            self.read.append(check.name)
            yield []


class Check:
    """A check that refuses, or does not."""

    key_text = None

    def __init__(self, name: str, *, refuses: bool) -> None:
        self.name, self._refuses = name, refuses

    def check(self, *_: object) -> None:
        """Raise the refusal."""
        if self._refuses:
            raise SowlineError("not entitled", self.name)


async def test_a_request_is_checked_up_to_its_first_refusal() -> None:
    """The records of the commands after it are not read: at a gateway that is a request to a node for each."""
    records = Records()
    checks = [None, Check("a", refuses=False), None, Check("b", refuses=True), Check("c", refuses=True)]
    requested = [RequestedCommand(COMMAND, cast("Any", check), may_see_all=True) for check in checks]
    with pytest.raises(SowlineError, match=r"(?s)4.*b"):
        await WriteService(cast("Any", records), cast("Any", None)).check(requested)
    assert records.read == ["a", "b"]
