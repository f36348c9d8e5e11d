"""Two workers of one group: partitions move when one comes, dies or stalls, and all stays right."""

import asyncio
import random
import signal
import uuid
from collections.abc import Iterator

import pytest

from tests.integration.changes import check_chain, check_compacted, read_changes
from tests.integration.load import Publishers, check_sow, model_of, new_seed, write_marks
from tests.integration.services import Service, System, system, wait_for

PARTITIONS = 4


class Pair:
    """A topic, two workers with a disk each, and a query service."""

    def __init__(self, made: System) -> None:
        self.system = made
        self.topic = made.topics.topics[0].name
        self.workers = [
            made.service("materializer", data_dir=made.directory / f"disk{number}") for number in range(2)
        ]
        self.query = made.service("query_service")

    def owned(self) -> list[int]:
        """Return how many partitions each worker has; none while it does not answer."""
        return [int(worker.metric("sowline_partitions")) if worker.answers else 0 for worker in self.workers]

    def wait_shared(self) -> None:
        """Wait until each worker has its half."""
        wait_for(lambda: self.owned() == [PARTITIONS // 2] * 2, "each worker to have its half")

    def wait_taken_over(self, worker: Service) -> None:
        """Wait until a worker has everything."""
        wait_for(lambda: worker.metric("sowline_partitions") == PARTITIONS, "a worker to have all partitions")

    def check(self) -> None:
        """Compare everything with the model once all is applied; each partition gets a last record first."""
        write_marks(self.system, self.query.url, self.topic)
        model = model_of(self.system, self.topic)
        asyncio.run(check_sow(model, self.query.url, self.topic))
        changes, _ = read_changes(self.system, self.topic)
        check_chain(changes, model)
        check_compacted(changes, model)


@pytest.fixture
def pair(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A system of the test's own, with one worker that has everything."""
    name = f"t{uuid.uuid4().hex[:12]}-two"
    topics = [{"name": name, "key": ["/id"], "partitions": PARTITIONS}]
    with system(kafka, tmp_path_factory.mktemp("two"), topics) as made:
        pair = Pair(made)
        pair.query.start()
        pair.workers[0].start().wait_ready()
        pair.query.wait_ready()
        yield pair


def test_workers_join_and_die(pair: Pair) -> None:
    """A worker that joins takes its half, and one that is killed leaves its half to the other, both under load."""
    first, second = pair.workers
    with Publishers(pair.system, pair.topic, new_seed(), count=1):
        pair.wait_taken_over(first)
        second.start()
        pair.wait_shared()
        first.kill()
        pair.wait_taken_over(second)
        first.start()
        pair.wait_shared()
        second.kill()
        pair.wait_taken_over(first)
    pair.check()


def test_stalled_owner_wakes(pair: Pair) -> None:
    """A worker that stalls past its session and wakes again repeats old events at most, and none of them stays."""
    first, second = pair.workers
    seed = new_seed()
    dice = random.Random(seed)
    with Publishers(pair.system, pair.topic, seed, count=1) as publishers:
        second.start()
        pair.wait_shared()
        for stalled, other in ((first, second), (second, first)):
            goal = publishers.written + dice.randrange(50, 150)
            wait_for(lambda goal=goal: publishers.written >= goal, "the load to move on")
            stalled.signal(signal.SIGSTOP)
            pair.wait_taken_over(other)
            stalled.signal(signal.SIGCONT)
            pair.wait_shared()
    pair.check()


def test_foreign_writes(pair: Pair) -> None:
    """Old events that a woken worker writes once more are followed by the newest of their keys, deletions too."""
    records = [{"id": number, "qty": number} for number in range(20)]
    pair.system.write(pair.topic, *records, *({"id": n["id"], "qty": 45 + n["id"]} for n in records))
    publisher = pair.system.publisher()
    publisher.sow_delete(pair.topic, filter="/qty > 50")
    publisher.flush()
    pair.system.wait_settled(pair.query.url, pair.topic)
    wait_for(lambda: not model_of(pair.system, pair.topic).missing, "every forward to be on the log")
    pair.system.wait_settled(pair.query.url, pair.topic)
    changes = pair.system.topic(pair.topic).changes
    first = {message.key(): message for message in reversed(pair.system.read(changes))}
    for key, old in first.items():
        pair.system.produce(changes, old.value(), key, old.partition() or 0, old.headers() or ())  # type: ignore[arg-type]
    pair.check()
    events, _ = read_changes(pair.system, pair.topic)
    assert len([event for event in events if event.about["op"] == "again"]) >= len(records)
