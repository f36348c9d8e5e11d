"""What the landing page's buttons do: kill a service, or restart Kafka, and check that nothing was lost."""

import asyncio
import os
import signal
import subprocess
import time
from dataclasses import dataclass

from examples.flights.run import Run
from sowline.runtime.local_kafka import LocalKafka

BACK_S_MAX = 60.0
LOOK_S = 0.02


@dataclass(slots=True)
class Event:
    """Something that was done to the system, and what came of it."""

    what: str
    back_s: float | None = None
    """After how many seconds changes came through again; None until they did."""
    verdict: str = ""
    """The result of the comparison afterwards; empty until it was made."""
    is_lossless: bool | None = None


class Disturbances:
    """Kills and restarts parts of a running demo, one at a time."""

    def __init__(self, run: Run, system: int, kafka: LocalKafka) -> None:
        self._run = run
        self._system = system
        self._kafka = kafka
        self._turn = asyncio.Lock()
        self.events: list[Event] = []

    async def kill_materializer(self) -> None:
        """Kill the materializer; `sowline up` starts it again."""
        await self._disturb("killed the materializer", "materializer")

    async def kill_query_service(self) -> None:
        """Kill the query service; `sowline up` starts it again, and the subscribers come back."""
        await self._disturb("killed the query service", "query_service")

    async def restart_kafka(self) -> None:
        """Kill the broker, and start it again."""
        await self._disturb("killed Kafka, and started it again", None)

    async def _disturb(self, what: str, program: str | None) -> None:
        async with self._turn:
            event = Event(what)
            self.events.append(event)
            before = self._run.changes_received
            if program is None:
                await asyncio.to_thread(self._restart_broker)
            else:
                _kill(self._system, program)
            began = time.monotonic()
            while self._run.changes_received == before and time.monotonic() - began < BACK_S_MAX:
                await asyncio.sleep(LOOK_S)
            event.back_s = time.monotonic() - began
            problems = await self._run.compared()
            event.is_lossless = not problems
            event.verdict = "; ".join(problems) or "nothing was lost"

    def _restart_broker(self) -> None:
        self._kafka.kill()
        self._kafka.start()


def _kill(ancestor: int, program: str) -> None:
    """Kill the descendants of a process that run a module, as `kill -9` does."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
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
