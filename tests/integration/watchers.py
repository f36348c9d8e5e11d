"""Subscribers that stay connected through failures of their services, and record what they receive."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from sowline.client.async_client import AsyncClient
from sowline.client.stream import Stream
from tests.integration.load import SELECTIONS, Life, check_all, model_of, subscribed
from tests.integration.model import Model, Position
from tests.integration.services import System
from tests.waiting import until


@asynccontextmanager
async def watching(url: str, topic: str, *filters: str) -> AsyncIterator["Watchers"]:
    """Lend subscribers, one for each filter, that read all the time; without filters for all of `SELECTIONS`."""
    async with AsyncExitStack() as stack:
        watchers = Watchers()
        for filter in filters or SELECTIONS:
            client = await stack.enter_async_context(AsyncClient(url))
            life = Life(filter, oof=True)
            stream = await stack.enter_async_context(subscribed(client, topic, life))
            watchers.add(life, stream)
        try:
            yield watchers
        finally:
            watchers.stop()


class Watchers:
    """Subscribers that never go away by themselves."""

    def __init__(self) -> None:
        self.lives: list[Life] = []
        self._tasks: list[asyncio.Task[None]] = []

    def add(self, life: Life, stream: Stream) -> None:
        """Begin to read a stream to its end."""
        self.lives.append(life)
        self._tasks.append(asyncio.create_task(self._read(life, stream)))

    @staticmethod
    async def _read(life: Life, stream: Stream) -> None:
        while messages := await stream.next_batch():
            for message in messages:
                life.take(message)

    async def wait_for(self, marks: dict[int, Position]) -> None:
        """Wait until everyone has seen the last record of every partition."""

        def have_all() -> bool:
            for task in self._tasks:
                if task.done():
                    task.result()
            return all(life.position(p) >= mark for life in self.lives for p, mark in marks.items())

        await until(have_all, "everyone to see the last record of every partition")

    async def check(self, system: System, url: str, topic: str) -> Model:
        """Compare what they have received, the SOW and the changes topic with the model, and return that."""
        model = await asyncio.to_thread(model_of, system, topic)
        for life in self.lives:
            life.check(model)
        await check_all(model, system, url, topic)
        return model

    def stop(self) -> None:
        """Read no more."""
        for task in self._tasks:
            task.cancel()
