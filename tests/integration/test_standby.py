"""Workers with warm copies on a real Kafka: partitions move again and again, and no reader notices."""

import asyncio
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from sowline.client.async_client import AsyncClient
from sowline.client.stream import Stream
from tests.integration.load import (
    Life,
    Publishers,
    check_all,
    model_of,
    new_seed,
    subscribed,
    write_marks,
)
from tests.integration.model import Position
from tests.integration.services import Service, System, system
from tests.waiting import until, wait_for

PARTITIONS = 2

ALL = 2 * PARTITIONS
"""Those of the topic and those of its view."""

LOADED = ("warm copy opened", "state loaded from the changes topic")


class Workers:
    """Two workers that keep copies of each other's partitions, of a topic and of a view; and a query service."""

    def __init__(self, made: System) -> None:
        self.system = made
        self.topic = made.topics.topics[0].name
        self.both = [
            made.service("materializer", data_dir=made.directory / f"disk{number}", standby=True)
            for number in range(2)
        ]
        self.query = made.service("query_service")

    def wait_shared(self) -> None:
        """Wait until each worker has its half, and a warm copy of the other's."""
        half = ALL // 2
        for worker in self.both:
            wait_for(
                lambda worker=worker: counted(worker) == (half, half), "each worker to have its half twice"
            )

    def wait_alone(self, worker: Service) -> None:
        """Wait until a worker has everything."""
        wait_for(lambda: counted(worker) == (ALL, 0), "a worker to have all partitions")


def counted(worker: Service) -> tuple[int, int]:
    """Return how many partitions a worker owns, and how many warm copies it keeps."""
    if not worker.answers:
        return 0, 0
    return int(worker.metric("sowline_partitions")), int(worker.metric("sowline_standby_copies"))


@pytest.fixture
def workers(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """Two workers that have started."""
    name = f"t{uuid.uuid4().hex[:12]}-standby"
    topics = [{"name": name, "key": ["/id"], "partitions": PARTITIONS}]
    views = [
        {
            "name": f"{name}-view",
            "from": name,
            "projection": ["/status", "COUNT(1) AS /n"],
            "grouping": ["/status"],
        }
    ]
    with system(kafka, tmp_path_factory.mktemp("standby"), topics, views=views) as made:
        workers = Workers(made)
        made.create_topics()
        for service in (*workers.both, workers.query):
            service.start()
        workers.query.wait_ready()
        workers.wait_shared()
        yield workers


async def read_on(stream: Stream, life: Life) -> None:
    """Read a stream to its end."""
    while messages := await stream.next_batch():
        for message in messages:
            life.take(message)


async def watch(workers: Workers, life: Life, marks: "Future[dict[int, Position]]") -> None:
    """Subscribe, and read until the last record of every partition has come, once it is known which that is."""
    async with AsyncClient(workers.query.url) as client, subscribed(client, workers.topic, life) as stream:
        reading = asyncio.create_task(read_on(stream, life))
        wanted = await asyncio.wrap_future(marks)
        await until(
            lambda: reading.done() or all(life.position(p) >= mark for p, mark in wanted.items()),
            "the last record of every partition",
        )
        if not reading.cancel():
            reading.result()


@contextmanager
def watched(workers: Workers) -> Iterator[Life]:
    """Let a subscriber read, in a thread of its own, what happens meanwhile: then all of it."""
    life, marks = Life("1=1", oof=True), Future[dict[int, Position]]()
    with ThreadPoolExecutor(1) as threads:
        subscriber = threads.submit(asyncio.run, watch(workers, life, marks))
        try:
            yield life
            marks.set_result(write_marks(workers.system, workers.query.url, workers.topic))
            subscriber.result()
        finally:
            marks.cancel()


def load_counts(worker: Service) -> list[int]:
    """Return how often a worker has loaded, by what it says of that."""
    return [worker.log.count(event) for event in LOADED]


def test_rolling_restart(workers: Workers) -> None:
    """Each worker is restarted under load, then one is killed: nothing is lost, nothing comes twice.

    A worker that takes over has a warm copy, and loads nothing.
    """
    system, topic, (first, second) = workers.system, workers.topic, workers.both
    loads = [load_counts(worker) for worker in workers.both]

    with watched(workers) as life, Publishers(system, topic, new_seed(), count=1):
        for worker, other in ((first, second), (second, first)):
            assert worker.stop() == 0
            workers.wait_alone(other)
            worker.start()
            workers.wait_shared()
        first.kill()
        workers.wait_alone(second)
    model = model_of(system, topic)
    life.check(model)
    asyncio.run(check_all(model, system, workers.query.url, topic))
    assert second.metric("sowline_standby_takeovers_total") == ALL
    assert [load_counts(worker) for worker in workers.both] == loads
