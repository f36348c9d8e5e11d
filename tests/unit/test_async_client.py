"""The asynchronous client over connections that a test holds in its hands."""

import asyncio
import json
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosedError

from sowline.async_client import AsyncClient, topics_of
from sowline.stream import Ask


class Connection:
    """What the client sends, and what it is to receive."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def send(self, text: str) -> None:
        """Take a request."""
        self.sent.append(json.loads(text))

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
        self._frames.put_nowait(json.dumps(message).encode())

    def lose(self) -> None:
        """Let nothing arrive any more."""
        self._frames.put_nowait(None)


class Service:
    """Gives out one connection after another, as soon as the test has them ready."""

    def __init__(self) -> None:
        self._ready: asyncio.Queue[Connection] = asyncio.Queue()

    async def connect(self, url: str, **options: Any) -> Connection:
        """Wait for the next connection."""
        return await self._ready.get()

    def accept(self) -> Connection:
        """Return the connection that the client gets next."""
        connection = Connection()
        self._ready.put_nowait(connection)
        return connection


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    """What clients connect to; they ask again at once."""
    made = Service()
    monkeypatch.setattr("sowline.async_client.connect", made.connect)
    monkeypatch.setattr("sowline.async_client.ASK_AGAIN_SECONDS", 0)
    return made


async def all_have_had_turns() -> None:
    """Wait until whatever can go on has done so."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_refused_request_is_sent_again(service: Service) -> None:
    """A service that is loading is asked again, over the same connection."""
    connection = service.accept()
    async with AsyncClient("http://x") as client:
        opening = asyncio.create_task(client.open(Ask("subscribe", "orders")))
        await all_have_had_turns()
        connection.give(command="ack", command_id="1", status="failure", reason="not ready")
        await all_have_had_turns()
        assert [request["command"] for request in connection.sent] == ["subscribe"] * 2
        connection.give(command="ack", command_id="1", status="success", ack_type="processed")
        await opening


async def test_refused_request_is_sent_once_over_a_new_connection(service: Service) -> None:
    """Where the connection is lost before the request is sent again, the new one has it once, not twice."""
    first = service.accept()
    async with AsyncClient("http://x") as client:
        opening = asyncio.create_task(client.open(Ask("subscribe", "orders")))
        await all_have_had_turns()
        first.give(command="ack", command_id="1", status="failure", reason="not ready")
        first.lose()
        await all_have_had_turns()
        second = service.accept()
        await all_have_had_turns()
        assert [request["command"] for request in second.sent] == ["subscribe"]
        second.give(command="ack", command_id="1", status="success", ack_type="processed")
        await opening
    assert len(first.sent) == 1


def test_a_topic_without_a_key_is_one_without_a_sow() -> None:
    """A publisher needs no more than what the service says of its topics, of either kind."""
    common = {
        "message_type": "json",
        "partitions": 2,
        "record_bytes_max": 100,
        "preprocessing": [],
        "records": 0,
    }
    keyed = {**common, "name": "orders", "log": "o", "key": ["/id"], "key_domain": "d"}
    without = {**common, "name": "ticks", "log": "t", "key": [], "key_domain": ""}
    orders, ticks = topics_of({"topics": [keyed, without]}).topics
    assert (orders.has_sow, orders.key_paths, orders.key_domain) == (True, (("id",),), "d")
    assert (ticks.has_sow, ticks.log, ticks.record_bytes_max) == (False, "t", 100)
