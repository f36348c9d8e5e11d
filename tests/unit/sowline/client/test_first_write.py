"""What a client makes at its first write, and what it closes after the last."""

import asyncio
from typing import Any, Self

import pytest
from confluent_kafka import KafkaError

from sowline.client.async_client import AsyncClient
from sowline.client.http_api import HttpClient
from sowline.client.write_failures import FlushAttempt, WriteFailures
from sowline.errors import SowlineError
from tests.waiting import loop_turns


class _Refused:
    """A publisher whose command Kafka did not accept."""

    @classmethod
    def of(cls, *_: object, **__: object) -> Self:
        """Return one, for any settings."""
        return cls()

    def __contains__(self, topic: object) -> bool:
        """Know no topic."""
        return False

    def redefine(self, topics: object) -> None:
        """Take the topics of a service that knows none."""

    def begin_flush(self) -> FlushAttempt:
        """Return a wait that ends at once, and raises the refusal."""
        failures = WriteFailures()
        failures.note(KafkaError(KafkaError._MSG_TIMED_OUT))
        return FlushAttempt(failures, lambda _: 0, 1.0)


async def _topics(_: HttpClient) -> dict[str, Any]:
    await loop_turns()
    return {"kafka": "127.0.0.1:1", "topics": []}


def _without_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HttpClient, "topics", _topics)
    monkeypatch.setattr("sowline.client.writing.topics_of", lambda _: {})
    monkeypatch.setattr("sowline.client.writing.Publisher", _Refused.of)


async def test_two_first_writes_share_one_publisher(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a publisher each, commands of one would count as repeats."""
    client = AsyncClient(publisher="p")

    _without_service(monkeypatch)
    first, second = await asyncio.gather(client.publisher("orders"), client.publisher("orders"))
    assert first is second


async def test_a_client_is_closed_though_a_write_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reader would reconnect forever."""
    _without_service(monkeypatch)
    client, closed = AsyncClient(), list[str]()

    async def close(_: HttpClient) -> None:
        closed.append("http")

    monkeypatch.setattr(HttpClient, "close", close)
    await client.publisher("orders")
    with pytest.raises(SowlineError, match="did not accept"):
        await client.close()
    assert closed == ["http"]
