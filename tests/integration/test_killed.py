"""Services are killed under load, at random moments; all ends as if they were not."""

import asyncio
import random
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.integration.load import (
    Publishers,
    new_seed,
    write_marks,
)
from tests.integration.services import Service, System, system
from tests.integration.watchers import watching
from tests.waiting import wait_for

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
    async with watching(served.query.url, served.topic) as watchers:
        with Publishers(served.system, served.topic, seed, count=2) as publishers:
            dice = random.Random(seed)
            await asyncio.to_thread(kill_again_and_again, served, service, dice, publishers)
        marks = await asyncio.to_thread(write_marks, served.system, served.query.url, served.topic)
        await watchers.wait_for(marks)
    await watchers.check(served.system, served.query.url, served.topic)


async def test_killed_materializer(served: Served) -> None:
    """A materializer that is killed repeats work: nothing is lost, and nothing has its effect twice."""
    await run(served, served.materializer)


async def test_killed_query_service(served: Served) -> None:
    """Subscribers of a query service that is killed go on from their bookmarks and never notice."""
    await run(served, served.query)
