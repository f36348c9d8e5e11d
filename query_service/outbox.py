"""What waits to be sent to one client: bounded, because whoever fills it can wait until it has drained."""

import asyncio
from collections import deque

from query_service.rounds import Rounds

FRAME_MESSAGES_MAX = 200
FRAME_BYTES = 128 * 1024


BACKLOG_BYTES_MIN = FRAME_BYTES
"""What may wait for each client, however many there are."""


class Backlogs:
    """What all clients' outboxes may hold together, shared out equally among those that are there."""

    def __init__(self, bytes_max: int) -> None:
        self.outboxes = 0
        self._bytes_max = bytes_max

    @property
    def share(self) -> int:
        """What one of them may hold."""
        return max(BACKLOG_BYTES_MIN, self._bytes_max // max(1, self.outboxes))


class Outbox:
    """Messages in the order they go out. Above `bytes_max` it is full: live messages are no longer put here.

    With `backlogs`, `bytes_max` is less where its share of those is.
    """

    def __init__(
        self, bytes_max: int, rounds: Rounds | None = None, backlogs: Backlogs | None = None
    ) -> None:
        self._bytes_max = bytes_max
        self._backlogs = backlogs
        self._rounds = Rounds() if rounds is None else rounds
        self._messages: deque[bytes] = deque()
        self.bytes = 0
        """Of the messages that wait."""
        self._filled = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()

    @property
    def bytes_max(self) -> int:
        """What may wait for the client."""
        return self._bytes_max if self._backlogs is None else min(self._bytes_max, self._backlogs.share)

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
