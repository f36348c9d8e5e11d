"""The actions of the landing page's buttons: kill a part of the system, and check that nothing was lost."""

import asyncio
import os
import signal
import subprocess
import time
from dataclasses import dataclass

from examples.flights.processes import DemoError
from examples.flights.run import Run
from sowline.runtime.local_kafka import LocalKafka

BACK_S_MAX = 60.0
LOOK_S = 0.02
KAFKA = "kafka"
PROGRAMS = {"materializer": "materializer", "query-service": "query_service"}
"""The services that can be killed, which `sowline up` then starts again, and what their commands contain."""
PARTS = (*PROGRAMS, KAFKA)


@dataclass(slots=True)
class Event:
    """A part of the system that was killed, and the outcome."""

    part: str
    pressed_s: float
    """When the visitor asked for it (seconds since 1970)."""
    back_s: float | None = None
    """How many seconds later changes arrived again; None until they did."""
    verdict: str = ""
    """The result of the comparison afterwards; empty until it was made."""
    is_lossless: bool | None = None
    records: int | None = None
    """How many records were compared."""


class Disturbances:
    """Kills and restarts parts of a running demo, one at a time."""

    def __init__(self, run: Run, system: int, kafka: LocalKafka) -> None:
        self._run = run
        self._system = system
        self._kafka = kafka
        self.events: list[Event] = []

    @property
    def is_busy(self) -> bool:
        """Whether the newest event has no verdict yet."""
        return bool(self.events) and self.events[-1].is_lossless is None

    @property
    def is_down(self) -> bool:
        """Whether nothing has come since the newest part was killed."""
        return self.is_busy and self.events[-1].back_s is None

    async def disturb(self, part: str) -> None:
        """Kill a part; once changes arrive again, compare everything."""
        assert not self.is_busy, "one at a time"
        event = Event(part, time.time())
        self.events.append(event)
        began = time.monotonic()
        try:
            await self._wait_back(await self._kill(part))
            event.back_s = time.monotonic() - began
            problems = await self._run.compared()
            event.records = self._run.sow_size
        except DemoError as error:
            problems = [str(error)]
        event.verdict = "; ".join(problems) or "nothing was lost"
        event.is_lossless = not problems

    async def _kill(self, part: str) -> float:
        """Kill a part, and return when it was dead; Kafka, which nothing else restarts, runs again by then."""
        if part == KAFKA:
            await asyncio.to_thread(self._kafka.kill)
            killed_s = time.time()
            await asyncio.to_thread(self._kafka.start)
            return killed_s
        await asyncio.to_thread(_kill_program, self._system, PROGRAMS[part])
        return time.time()

    async def _wait_back(self, killed_s: float) -> None:
        """Wait for the change of a command that was written since: one on its way at the kill shows nothing."""
        try:
            async with asyncio.timeout(BACK_S_MAX):
                while self._run.written_s <= killed_s:
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise DemoError(f"no change arrived for {BACK_S_MAX:.0f} s") from None


def _kill_program(ancestor: int, program: str) -> None:
    """Kill the descendants of a process that run a module, as `kill -9` does."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
    parents = {int(pid): int(parent) for pid, parent, *_ in rows}
    for pid, _, *command in rows:
        if program in " ".join(command) and _descends(int(pid), ancestor, parents):
            os.kill(int(pid), signal.SIGKILL)


def _descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == ancestor:
            return True
    return False
