"""Does the same for each of many connections at regular intervals, in one task for all of them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import structlog

log = structlog.get_logger()

T = TypeVar("T")

PARTS = 8
"""An interval is divided into so many parts. Each member has its turn in one of them."""

CHUNK = 100
"""The largest number of members that have their turn before other tasks run."""


class Rounds(Generic[T]):
    """The members, each of which has its turn once in an interval; there is a task only while there are members."""

    def __init__(self, seconds: float, take_turn: Callable[[T], Awaitable[None]]) -> None:
        self._seconds = seconds
        self._take_turn = take_turn
        self._parts: list[dict[T, None]] = [{} for _ in range(PARTS)]
        self._added = 0
        self._running: asyncio.Task[None] | None = None

    def add(self, member: T) -> None:
        """Give a member its turns from now on."""
        self._parts[self._added % PARTS][member] = None
        self._added += 1
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())

    def discard(self, member: T) -> None:
        """Give a member no more turns."""
        for part in self._parts:
            part.pop(member, None)
        if self._running is not None and not any(self._parts):
            self._running.cancel()
            self._running = None

    async def _run(self) -> None:
        while True:
            for part in self._parts:
                await asyncio.sleep(self._seconds / PARTS)
                for number, member in enumerate(list(part), 1):
                    if member in part:
                        await self._guarded(member)
                    if number % CHUNK == 0:
                        await asyncio.sleep(0)

    async def _guarded(self, member: T) -> None:
        try:
            await self._take_turn(member)
        except Exception:
            log.exception("progress or ping failed")
