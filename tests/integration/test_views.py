"""Subscribers come and go while publishers write: each one's view is the State of the World at its bookmark."""

import asyncio
import random
import uuid
from collections.abc import Iterator

import pytest

from sowline.client.async_client import AsyncClient
from tests.integration.load import (
    SELECTIONS,
    Life,
    Publishers,
    check_sow,
    model_of,
    new_seed,
    read_until_marks,
    subscribed,
    write_marks,
)
from tests.integration.positions import positions_of
from tests.integration.services import System, system

SUBSCRIBERS = 5
VISITS = 6
"""How often each subscriber connects before the last time."""


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[System, str]]:
    """A system with one topic of three partitions, and the address of its query service."""
    name = f"t{uuid.uuid4().hex[:12]}-views"
    topics = [{"name": name, "key": ["/id"], "partitions": 3}]
    with system(kafka, tmp_path_factory.mktemp("views"), topics) as made:
        services = [made.service("materializer").start(), made.service("query_service").start()]
        for service in services:
            service.wait_ready()
        yield made, services[1].url


class Subscriber:
    """Connects, reads a while, leaves, comes back with its bookmark or begins again."""

    def __init__(self, url: str, topic: str, seed: int) -> None:
        self._url = url
        self._topic = topic
        self._dice = random.Random(seed)
        self.lives: list[Life] = []

    async def come_and_go(self) -> None:
        """Visit again and again."""
        for _ in range(VISITS):
            life = self._next_life()
            async with (
                AsyncClient(self._url) as client,
                subscribed(client, self._topic, life, life.bookmark) as stream,
            ):
                for _ in range(self._dice.randrange(1, 25)):
                    for message in await stream.next_batch(self._dice.randrange(1, 50)):
                        life.take(message)
            if life.bookmark is None:
                self.lives.pop()  # it left before its snapshot was whole, and starts again from nothing

    def _next_life(self) -> Life:
        if not self.lives or self._dice.random() < 0.25:
            self.lives.append(Life(self._dice.choice(SELECTIONS), self._dice.random() < 0.8))
        return self.lives[-1]

    async def come_back(self, marks: dict[int, tuple[int, int]]) -> None:
        """Come back to every life once more and read to the end."""
        async with AsyncClient(self._url) as client:
            for life in self.lives:
                async with subscribed(client, self._topic, life, life.bookmark) as stream:
                    await read_until_marks(stream, life, marks)


async def test_views_equal_the_sow_at_their_bookmarks(served: tuple[System, str]) -> None:
    """Each snapshot, each message and each view on the way is what the log says: no gap, no repeat, oofs included."""
    made, url = served
    topic = made.topics.topics[0].name
    seed = new_seed()
    subscribers = [Subscriber(url, topic, seed + number) for number in range(SUBSCRIBERS)]
    with Publishers(made, topic, seed) as publishers:
        await asyncio.gather(*(subscriber.come_and_go() for subscriber in subscribers))
    assert publishers.written
    marks = await asyncio.to_thread(write_marks, made, url, topic)
    await asyncio.gather(*(subscriber.come_back(marks) for subscriber in subscribers))
    model = await asyncio.to_thread(model_of, made, topic)
    for subscriber in subscribers:
        for life in subscriber.lives:
            life.check(model)
            assert positions_of(life.bookmark or "") == marks or not life.oof
    await check_sow(model, url, topic)
