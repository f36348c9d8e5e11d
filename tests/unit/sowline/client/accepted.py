"""A service whose connections a test holds in its hands."""

import asyncio
import errno
from typing import Any

import pytest

from tests.held_connection import Connection
from tests.waiting import loop_turns

REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "refused")


class Service:
    """Gives out one connection after another, as soon as the test has them ready."""

    def __init__(self) -> None:
        self._ready: asyncio.Queue[Connection | Exception] = asyncio.Queue()
        self.tokens: list[str | None] = []

    async def connect(self, url: str, **options: Any) -> Connection:
        """Wait for the next connection."""
        self.tokens.append(options["additional_headers"].get("Authorization"))
        got = await self._ready.get()
        if isinstance(got, Exception):
            raise got
        return got

    def refuse(self, error: Exception) -> None:
        """Let the client's next attempt fail."""
        self._ready.put_nowait(error)

    def accept(self, **headers: str) -> Connection:
        """Return the connection that the client gets next; its handshake's answer has these headers."""
        connection = Connection(**headers)
        self.give(connection)
        return connection

    def give(self, connection: Connection) -> None:
        """Let the client get this connection next."""
        self._ready.put_nowait(connection)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    """What clients connect to; they ask again at once."""
    made = Service()
    monkeypatch.setattr("sowline.client.connection.connect", made.connect)
    monkeypatch.setattr("sowline.client.connection.REPEAT_SECONDS", 0)
    return made


async def all_have_had_turns() -> None:
    """Wait until whatever can go on has done so."""
    await loop_turns(20)
