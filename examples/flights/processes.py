"""The processes that the demo starts: each ends with it, however it ends."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from sowline.runtime.child_process import bound_to_parent

START_S_MAX = 180.0
STOP_S_MAX = 60.0
LOG_LINES = 20


class DemoError(Exception):
    """A problem that ends the demo, as a sentence."""


class Child:
    """A running process: its name, where it logs, and the first line that it prints."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    async def first_line(self) -> str:
        """Wait until the process reports that it is ready; raises DemoError if it does not."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(START_S_MAX):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise self._failure(f"did not start in {START_S_MAX:.0f} s") from None
        if not line:
            raise self._failure("did not start")
        return line.decode()

    async def must_live(self) -> None:
        """Wait until the process ends, and raise DemoError, because it should not end."""
        code = await self._process.wait()
        raise self._failure(f"ended by itself with exit code {code}")

    async def stop(self) -> None:
        """End the process and the rest of its group: by a request first, then by force."""
        if self._process.returncode is None:
            self._process.terminate()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), STOP_S_MAX)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    def _failure(self, came: str) -> DemoError:
        tail = self._log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        return DemoError("\n".join([f"{self.name} {came}; the end of {self._log}:", *tail]))


@asynccontextmanager
async def child(
    name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[Child]:
    """Run a command in its own process group, out of reach of Ctrl-C, and stop it at the end.

    `environment` is added to this process's own.
    """
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *bound_to_parent(list(command)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=out,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    started = Child(name, process, log)
    try:
        yield started
    finally:
        await started.stop()
