"""A materializer is killed while commits wait in memory: the log makes them again, and nothing is there twice."""

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from sowline.changes.change import Change
from sowline.client.client import Client
from sowline.kafka.messages import event_of
from sowline.model.key import partition_of
from sowline.model.position import Position
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.store.secondary import open_secondary
from tests.integration.services import Service, System, headers_of, system
from tests.waiting import SECONDS_MAX, wait_for

PARTITIONS = 2
KEYS = 40
LAST = -1
"""The number that the records have at the end."""


class Killed:
    """A system whose materializer is killed, and what was written to its topic."""

    def __init__(self, made: System) -> None:
        self.system = made
        self.name = made.topics.topics[0].name
        self.definition = made.topic(self.name)
        self.materializer = made.service("materializer").start()
        self.query = made.service("query_service").start()
        self.materializer.wait_ready()
        self.query.wait_ready()
        self._producer = Producer({"bootstrap.servers": made.kafka})
        self.expected: dict[int, dict[str, Any]] = {}
        self.refused: set[str] = set()

    def write(self, number: int) -> None:
        """Write publishes, deltas, a misplaced record and a refused one; wait until Kafka has them."""
        offsets: list[int] = []
        for id in range(KEYS):
            body = {"id": id, "n": number}
            self.expected[id] = self.expected.get(id, {}) | body if id % 2 else body
            command = b"delta_publish" if id % 2 else b"publish"
            partition = partition_of(str(id), PARTITIONS)
            # The owner of the wrong partition forwards it, and remembers the forward in its checkpoint.
            partition = 1 - partition if id == 7 else partition
            self._producer.produce(
                self.definition.log,
                json.dumps(body).encode(),
                str(id).encode(),
                partition,
                headers=[("sow.command", command)],
            )
        self._producer.produce(
            self.definition.log,
            b"no JSON",
            b"x",
            0,
            lambda error, message: offsets.append(message.offset() or 0),
        )
        assert self._producer.flush(SECONDS_MAX) == 0
        self.refused.add(f"0@{offsets[0]}")

    def write_until_emitted(self, numbers: Iterator[int]) -> None:
        """Write until each partition has emitted changes of what was written.

        It still writes then: a commit of the last changes reaches the disk up to a second later.
        """
        ends = self.system.cluster.newest_ends
        partitions = range(PARTITIONS)
        before = ends(self.definition.changes, partitions)
        while True:
            self.write(next(numbers))
            now = ends(self.definition.changes, partitions)
            if all(now[number] > before[number] for number in partitions):
                return

    def emitted(self) -> dict[int, Position]:
        """Return the newest position in each changes partition."""
        newest: dict[int, Position] = {}
        for message in self.system.read(self.definition.changes):
            number, position = message.partition() or 0, event_of(message).position
            newest[number] = max(position, newest.get(number, position))
        return newest

    def stored(self, number: int, directory: Path) -> Checkpoint:
        """Return the checkpoint that the killed materializer has left on disk."""
        store, checkpoint = open_secondary(
            self.system.directory / "sow" / self.definition.log / str(number), directory
        )
        store.close()
        return checkpoint


@pytest.fixture
def killed(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    """A system of the test's own."""
    topics = [{"name": f"t{uuid.uuid4().hex[:12]}-pending", "key": ["/id"], "partitions": PARTITIONS}]
    with system(kafka, tmp_path_factory.mktemp("pending"), topics) as made:
        yield Killed(made)


def kill_with_pending_commits(killed: Killed, service: Service, directory: Path) -> dict[int, Position]:
    """Kill while the disk is behind what was emitted, in each partition; return what was emitted."""
    numbers = count()
    for attempt in count():
        killed.write_until_emitted(numbers)
        service.kill()
        emitted = killed.emitted()
        stored = {one: killed.stored(one, directory / f"{attempt}-{one}").position for one in emitted}
        assert all(stored[one] <= position for one, position in emitted.items()), "no checkpoint is ahead"
        if all(stored[one] < position for one, position in emitted.items()):
            return emitted
        service.start()
        service.wait_ready()
    raise AssertionError("it is killed before a flush sooner or later")


def test_pending_commits_are_made_again(killed: Killed, tmp_path: Path) -> None:
    """No change is emitted twice, a forward is applied once, followers lose nothing, and the store has all of it."""
    with Client(killed.query.url) as client:
        stream = client.subscribe(killed.name)
        emitted = kill_with_pending_commits(killed, killed.materializer, tmp_path)
        killed.materializer.start()
        killed.materializer.wait_ready()
        killed.write(LAST)
        killed.system.wait_settled(killed.query.url, killed.name)
        marks: dict[int, int] = {}
        for message in stream:
            assert message.command == "publish"
            marks[message.data["id"]] = message.data["n"]
            if set(marks.values()) == {LAST} and len(marks) == KEYS:
                break
        sow = [message.data for message in client.sow(killed.name) if message.command == "sow"]
        records = {record["id"]: record for record in sow}
    assert records == killed.expected
    changes = [(message, event_of(message)) for message in killed.system.read(killed.definition.changes)]
    positions = Counter(
        (message.partition(), event.position) for message, event in changes if isinstance(event, Change)
    )
    assert [one for one, times in positions.items() if times > 1] == []
    assert all(position <= killed.emitted()[number] for number, position in emitted.items())
    # Outcomes and dead letters of the pending commits may be written again, with the same key.
    letters = killed.system.read(killed.definition.kafka.dead)
    assert {(message.key() or b"").decode() for message in letters} == killed.refused
    assert {headers_of(message)["sow.reason"] for message in letters} == {b"not json"}
    wait_for(
        lambda: killed.materializer.metric("sowline_behind_records") == 0 or None, "the log to be applied"
    )
    assert killed.materializer.stop() == 0
    for number, newest in killed.emitted().items():
        assert killed.stored(number, tmp_path / f"end-{number}").position == newest
