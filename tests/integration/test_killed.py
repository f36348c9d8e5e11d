"""Services are killed under load, at random moments; all ends as if they were not."""

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from sowline.async_client import AsyncClient
from sowline.stream import Stream
from tests.integration.changes import check_chain, check_compacted, read_changes
from tests.integration.load import (
    SELECTIONS,
    Life,
    Publishers,
    check_sow,
    model_of,
    new_seed,
    subscribed,
    write_marks,
)
from tests.integration.model import Position
from tests.integration.services import SECONDS_MAX, Service, System, system, wait_for

KILLS = 3


class Served:
    """A system with a materializer and a query service, and one topic."""

    def __init__(self, made: System) -> None:
        self.system = made
        self.topic = made.topics.topics[0].name
        self.materializer = made.service("materializer").start()
        self.query = made.service("query_service", ring_changes_max=200).start()
        self.materializer.wait_ready()
        self.query.wait_ready()

    @property
    def changes(self) -> int:
        """The number of events on the changes topic."""
        definition = self.system.topic(self.topic)
        return sum(self.system.cluster.ends(definition.changes, range(definition.partitions)).values())


@pytest.fixture
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A system of the test's own."""
    topics = [{"name": f"t{uuid.uuid4().hex[:12]}-killed", "key": ["/id"], "partitions": 3}]
    with system(kafka, tmp_path_factory.mktemp("killed"), topics) as made:
        yield Served(made)


@asynccontextmanager
async def watching(served: Served) -> AsyncIterator["Watchers"]:
    """Lend subscribers, one for each filter, that read all the time."""
    async with AsyncExitStack() as stack:
        watchers = Watchers()
        for filter in SELECTIONS:
            client = await stack.enter_async_context(AsyncClient(served.query.url))
            life = Life(filter, oof=True)
            stream = await stack.enter_async_context(subscribed(client, served.topic, life))
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
        """Begin to read a stream for ever."""
        self.lives.append(life)
        self._tasks.append(asyncio.create_task(self._read(life, stream)))

    @staticmethod
    async def _read(life: Life, stream: Stream) -> None:
        while True:
            for message in await stream.next_batch():
                life.take(message)

    async def wait_for(self, marks: dict[int, Position]) -> None:
        """Wait until everyone has seen the last record of every partition."""
        async with asyncio.timeout(SECONDS_MAX):
            while any(life.position(p) < mark for life in self.lives for p, mark in marks.items()):
                for task in self._tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.02)

    def stop(self) -> None:
        """Read no more."""
        for task in self._tasks:
            task.cancel()


def kill_again_and_again(
    served: Served, service: Service, dice: random.Random, publishers: Publishers
) -> None:
    """Kill a service whenever the load has moved on by a random number of commands and changes."""
    for _ in range(KILLS):
        wait_for_growth(lambda: publishers.written, dice.randrange(200, 600))
        if dice.random() < 0.8:
            wait_for_growth(lambda: served.changes, dice.randrange(1, 400))
        service.kill()
        service.start()
    service.wait_ready()


def wait_for_growth(count: Callable[[], int], growth: int) -> None:
    """Wait until a count has grown by so much."""
    goal = count() + growth
    wait_for(lambda: count() >= goal, "the load to move on")


async def run(served: Served, service: Service) -> None:
    """Kill a service under load, and compare everything with the model in the end."""
    seed = new_seed()
    async with watching(served) as watchers:
        with Publishers(served.system, served.topic, seed, count=2) as publishers:
            dice = random.Random(seed)
            await asyncio.to_thread(kill_again_and_again, served, service, dice, publishers)
        marks = await asyncio.to_thread(write_marks, served.system, served.query.url, served.topic)
        await watchers.wait_for(marks)
    model = await asyncio.to_thread(model_of, served.system, served.topic)
    for life in watchers.lives:
        life.check(model)
    await check_sow(model, served.query.url, served.topic)
    changes, _ = read_changes(served.system, served.topic)
    check_chain(changes, model)
    check_compacted(changes, model)


async def test_killed_materializer(served: Served) -> None:
    """A materializer that is killed repeats work: nothing is lost, and nothing has its effect twice."""
    await run(served, served.materializer)


async def test_killed_query_service(served: Served) -> None:
    """Subscribers of a query service that is killed go on from their bookmarks and never notice."""
    await run(served, served.query)
