"""What a client makes at its first write, and what it closes after the last."""

import asyncio
from typing import Any

import pytest

from sowline.client.async_client import AsyncClient
from sowline.errors import SowlineError


class _Refused:
    """A publisher of which Kafka did not take a command."""

    def close(self) -> None:
        """Raise as a flush does."""
        raise SowlineError("not written", "Kafka did not accept an earlier command")


async def test_two_first_writes_share_one_publisher(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a publisher each, commands of one would count as repeats."""
    client = AsyncClient(publisher="p")

    async def topics() -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"kafka": "127.0.0.1:1", "topics": []}

    monkeypatch.setattr(client._http, "topics", topics)
    monkeypatch.setattr("sowline.client.writing.topics_of", lambda _: {})
    monkeypatch.setattr("sowline.client.writing.Publisher", lambda *_, **__: object())
    first, second = await asyncio.gather(client.publisher(), client.publisher())
    assert first is second


async def test_a_client_is_closed_though_a_write_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reader would reconnect forever."""
    client = AsyncClient()
    closed: list[str] = []

    async def close() -> None:
        closed.append("http")

    monkeypatch.setattr(client._http, "close", close)
    monkeypatch.setattr(client, "_publisher", _Refused())
    with pytest.raises(SowlineError, match="did not accept"):
        await client.close()
    assert closed == ["http"]
