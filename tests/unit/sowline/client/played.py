"""A client whose connection is played by the test, and local views over it."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sowline.client.async_client import AsyncClient
from sowline.client.connection import ServiceConnection, Subscriptions
from sowline.client.local_view import AsyncLocalView, LocalView
from sowline.client.record_view import Callbacks
from sowline.config.credentials import Credentials
from sowline.runtime.loop_thread import LoopThread
from sowline.wire.client_message import read_frame
from tests.waiting import as_soon_as, loop_turns

Json = dict[str, Any]


class PlayedConnection(ServiceConnection):
    """A connection without a service: it notes what is sent."""

    def __init__(self, carried: Subscriptions) -> None:
        super().__init__("", Credentials(), lambda: None, carried)
        self.sent: list[Json] = []
        self._connected.set()

    async def send(self, request: Json) -> None:
        """Note a request."""
        self.sent.append(request)


class Played(AsyncClient):
    """A client that notes what it sends, and receives what the test gives it."""

    def __init__(self) -> None:
        super().__init__()
        self._streams.connection = connection = PlayedConnection(self._streams)
        self.sent = connection.sent

    @property
    def open_ids(self) -> list[str]:
        """The ids of the subscriptions that are open."""
        return list(self._streams.by_id)

    async def hear(self, *messages: Json) -> None:
        """Let messages arrive, and all that waits for them take them in."""
        for received in read_frame(json.dumps(list(messages)).encode()):
            await self._streams.receive(received)
        await settled()

    async def lose_connection(self) -> list[Json]:
        """Let the connection be made again; return what is asked for then."""
        self._streams.lost()
        requests = list(self._streams.resume(is_void=False))
        await settled()
        return requests


class Never:
    """A condition that is never true; it knows how often it was looked at."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_waited_for = threading.Event()

    def __call__(self, view: object) -> bool:
        """Be false."""
        self.asked += 1
        self.is_waited_for.set()
        return False


async def settled() -> None:
    """Let everything run that can."""
    await loop_turns(20)


def taken(command_id: str = "1", bookmark: str = "orders:0@1") -> Json:
    """The ack of a command."""
    about = {"command_id": command_id, "sub_id": "1", "bookmark": bookmark}
    return {"command": "ack", "ack_type": "processed", "status": "success"} | about


def refused(reason: str, **fields: Any) -> Json:
    """The refusal of a command."""
    return {"command": "ack", "ack_type": "processed", "status": "failure", "reason": reason} | fields


def group(at: int = 1, mark: str = "", **held: Any) -> list[Json]:
    """A group of records, by their keys without the first letter."""
    records = [{"sow_key": key[1:], "data": record} for key, record in held.items()]
    ends = {"query_id": "1", "bookmark": f"orders:0@{at}"}
    return [
        {"command": "group_begin", **ends, **({mark: True} if mark else {})},
        {"command": "sow", "query_id": "1", "records": records},
        {"command": "group_end", **ends},
    ]


def live(command: str, key: str, at: int, **fields: Any) -> Json:
    """A live message."""
    about = {"sids": ["1"], "sow_key": key, "bookmark": f"orders:0@{at}"}
    return {"command": command, **about, "data": {}} | fields


async def entered(client: Played, view: AsyncLocalView, *messages: Json) -> AsyncLocalView:
    """Enter a view, which is sent these messages."""
    entering = asyncio.create_task(view.__aenter__())
    await settled()
    await client.hear(taken(), *messages)
    return await entering


class Threaded:
    """A view for threads, of a client that lives in a loop of its own."""

    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop
        self.client = Played()
        self.view = LocalView(loop.run, self.client, "orders", Callbacks(), None, delta=True)

    def hear(self, *messages: Json) -> None:
        """Let messages arrive."""
        self._loop.run(self.client.hear, *messages)

    def hear_once_asked(self, requests: int, *messages: Json) -> None:
        """Let messages arrive as soon as the client has sent so many requests."""

        async def answer() -> None:
            await as_soon_as(lambda: len(self.client.sent) >= requests)
            await self.client.hear(*messages)

        self._loop.start(answer)

    def enter(self) -> LocalView:
        """Enter the view, which then shows one record."""
        self.hear_once_asked(1, taken(), *group(k1={"a": 1}))
        return self.view.__enter__()


@pytest.fixture
def threaded() -> Iterator[Threaded]:
    """A view that was not entered yet."""
    loop = LoopThread("tested")
    made = Threaded(loop)
    yield made
    made.view.close()
    loop.stop()
