"""What waits to be sent to one client: bounded, because whoever fills it can wait until it has drained."""

import asyncio
from collections import deque

from query_service.rounds import Rounds

FRAME_MESSAGES_MAX = 200
FRAME_BYTES = 128 * 1024


class Outbox:
    """Messages in the order they go out. Above `bytes_max` it is full: live messages are no longer put here."""

    def __init__(self, bytes_max: int, rounds: Rounds | None = None) -> None:
        self.bytes_max = bytes_max
        self._rounds = Rounds() if rounds is None else rounds
        self._messages: deque[bytes] = deque()
        self.bytes = 0
        """Of the messages that wait."""
        self._filled = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()

    @property
    def full(self) -> bool:
        """Whether the client is slower than what is sent to it."""
        return self.bytes > self.bytes_max

    def put(self, message: bytes) -> None:
        """Put a message behind all others."""
        if not self._messages:
            self._rounds.add(self._filled.set)
        self._messages.append(message)
        self.bytes += len(message)
        if self.bytes > self.bytes_max:
            self._drained.clear()

    async def take(self) -> list[bytes]:
        """Wait for messages and return what goes into the next frame."""
        await self._filled.wait()
        taken: list[bytes] = []
        size = 0
        while self._messages and len(taken) < FRAME_MESSAGES_MAX and size < FRAME_BYTES:
            taken.append(self._messages.popleft())
            size += len(taken[-1])
        self.bytes -= size
        if not self._messages:
            self._filled.clear()
        if self.bytes <= self.bytes_max // 2:
            self._drained.set()
        return taken

    async def wait_drained(self) -> None:
        """Wait until a full outbox is half empty; returns at once where it was not full."""
        await self._drained.wait()
