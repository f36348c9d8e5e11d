"""A connection of a client that a test holds in its hands."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

from websockets.exceptions import ConnectionClosedError

from tests.described import checked_request


class Connection:
    """What the client sends, and what it is to receive."""

    def __init__(self, **headers: str) -> None:
        self.response = SimpleNamespace(headers={f"Sowline-{name}": text for name, text in headers.items()})
        self.sent: list[Any] = []
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def send(self, text: str) -> None:
        """Take a request."""
        self.sent.append(checked_request(json.loads(text)))

    async def recv(self, decode: bool) -> bytes:
        """Return the next frame; raises once the connection is lost."""
        frame = await self._frames.get()
        if frame is None:
            raise ConnectionClosedError(None, None)
        return frame

    async def close(self) -> None:
        """Do nothing more."""

    def give(self, **message: Any) -> None:
        """Let a message arrive."""
        self.give_frame(message)

    def give_frame(self, frame: Any) -> None:
        """Let a frame arrive: a message, or a list of several."""
        self._frames.put_nowait(json.dumps(frame).encode())

    def lose(self) -> None:
        """Let nothing arrive any more."""
        self._frames.put_nowait(None)
