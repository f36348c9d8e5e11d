"""Two workers of one group: partitions move when one comes, dies or stalls, and all stays right."""

import asyncio
import random
import re
import signal
import uuid
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from sowline import Client, LocalView
from sowline.model.key import partition_of
from tests.integration.changes import read_changes
from tests.integration.compaction import compact, end_haste, hasten_compaction
from tests.integration.load import Publishers, check_all, check_sow, model_of, new_seed, write_marks
from tests.integration.model import Body, Model
from tests.integration.services import Service, System, http_text, system
from tests.waiting import SECONDS_MAX, wait_for

PARTITIONS = 4

SLOWLY = "batch.num.messages=1,max.in.flight.requests.per.connection=1"
"""A request for each change, one after the other: a worker writes for so long that it can be stopped meanwhile."""

ON_THE_WAY = 1
"""Changes of each partition that may have left such a worker and are not with Kafka yet."""

BURST = 300
"""Records of each partition that are deleted at once for that."""


class Pair:
    """A topic, two workers with a disk each, and a query service."""

    def __init__(self, made: System) -> None:
        self.system = made
        self.topic = made.topics.topics[0].name
        self.workers = [
            made.service("materializer", data_dir=made.directory / f"disk{number}", kafka_options=SLOWLY)
            for number in range(2)
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

    def partitions_of(self, worker: Service) -> list[int]:
        """Return the partitions that a worker has."""
        lines = http_text(f"{worker.url}/metrics")
        return [int(n) for n in re.findall(r'^sowline_behind_records{partition="(\d+)"', lines, re.MULTILINE)]

    def changes_ends(self) -> dict[int, int]:
        """Return where the partitions of the changes end."""
        return self.system.cluster.ends(self.system.topic(self.topic).changes, range(PARTITIONS))

    def write_burst(self, qty: int) -> None:
        """Write as many records to each partition, the same ones each time."""
        self.system.write(self.topic, *({"id": key, "qty": qty} for keys in KEYS for key in keys))

    def wait_settled(self) -> dict[int, int]:
        """Wait until all is applied, and every delete that is forwarded is; return the ends of the log."""
        wait_for(lambda: not model_of(self.system, self.topic).missing, "every forward to be on the log")
        return self.system.wait_settled(self.query.url, self.topic)

    def stop_within_delete(self, worker: Service) -> None:
        """Stop a worker when Kafka has some of the many changes of one log record, but not all.

        The worker has applied that record, and nothing else is written meanwhile.
        """
        publisher, owned = self.system.publisher(), self.partitions_of(worker)
        assert len(owned) == PARTITIONS // 2
        self.wait_settled()  # what the load deletes by a filter, and is forwarded late, would take these records too
        while True:
            self.write_burst(13)
            log_ends = self.wait_settled()
            before = self.changes_ends()
            written = partial(self.written_since, before, owned)
            publisher.sow_delete(self.topic, filter="/qty = 13")
            publisher.flush()
            wait_for(lambda written=written: max(written()) > ON_THE_WAY, "a worker to write changes")
            worker.signal(signal.SIGSTOP)
            deleted = self.deleted_since(log_ends)
            if any(ON_THE_WAY < deleted[partition] < BURST - ON_THE_WAY for partition in owned):
                return
            worker.signal(signal.SIGCONT)

    def written_since(self, ends: dict[int, int], partitions: list[int]) -> list[int]:
        """Return how many changes there are of some partitions, from where they ended."""
        now = self.changes_ends()
        return [now[partition] - ends[partition] for partition in partitions]

    def deleted_since(self, log_ends: dict[int, int]) -> Counter[int]:
        """Return how many changes of each partition belong to log records from these offsets on.

        A repair writes changes too, of older log records: they are not counted.
        """
        events, _ = read_changes(self.system, self.topic)
        return Counter(one.partition for one in events if one.position[0] >= log_ends[one.partition])

    def old_events(self) -> int:
        """Return how many changes came after newer ones of their partition, and not for compaction's sake."""
        newest = dict.fromkeys(range(PARTITIONS), (-1, 0))
        old = 0
        for event in read_changes(self.system, self.topic)[0]:
            old += event.position <= newest[event.partition] and event.about["op"] != "again"
            newest[event.partition] = max(newest[event.partition], event.position)
        return old

    def compact(self) -> None:
        """Let Kafka compact the changes of all partitions, up to what is written now at the least."""
        hasten_compaction(self.system, self.topic)
        compact(
            self.system,
            self.topic,
            lambda n: self.system.write(self.topic, *({"id": keys[0], "qty": n} for keys in KEYS)),
            everywhere=True,
        )
        end_haste(self.system, self.topic)
        self.system.wait_settled(self.query.url, self.topic)

    def check(self) -> None:
        """Compare everything with the model once all is applied; each partition gets a last record first."""
        write_marks(self.system, self.query.url, self.topic)
        model = model_of(self.system, self.topic)
        asyncio.run(check_all(model, self.system, self.query.url, self.topic))


KEYS = [
    [
        key
        for key in (f"burst {n}" for n in range(PARTITIONS * BURST * 2))
        if partition_of(key, PARTITIONS) == p
    ][:BURST]
    for p in range(PARTITIONS)
]
"""The keys of a burst, by partition."""


class ViewLog:
    """What a live view that began with nothing is told of each record: its states, one after the other."""

    def __init__(self) -> None:
        self.states: dict[str, list[Body | None]] = {}
        self.callbacks: dict[str, Any] = {
            "on_insert": self._tell,
            "on_update": lambda key, record, before: self._tell(key, record),
            "on_remove": lambda key, record, reason: self._tell(key, None),
        }

    def _tell(self, key: str, record: Body | None) -> None:
        self.states.setdefault(key, []).append(record)

    def check(self, view: LocalView, model: Model) -> None:
        """Compare with the model, once the view has come so far: each step that changes a record, once."""
        wanted = model.sow()
        view.wait_for(lambda view: dict(view) == wanted, SECONDS_MAX)
        states: dict[str, list[Body | None]] = {}
        for step in model.steps:
            if step.before != step.now:
                states.setdefault(step.sow_key, []).append(step.now)
        assert self.states == states


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
    """A worker that stalls past its session and wakes again repeats old events at most, and none of them stays.

    It stalls under load, and within the events of a delete, whose records come again meanwhile: compaction keeps
    them all the same, a live view is told of each change once, and one that begins after compaction shows the same.
    """
    first, second = pair.workers
    seed, view_log = new_seed(), ViewLog()
    with Client(pair.query.url) as client, client.local_view(pair.topic, **view_log.callbacks) as view:
        second.start()
        pair.wait_shared()
        with Publishers(pair.system, pair.topic, seed, count=1) as publishers:
            goal = random.Random(seed).randrange(50, 150)
            wait_for(lambda: publishers.written >= goal, "the load to move on")
            first.signal(signal.SIGSTOP)
            pair.wait_taken_over(second)
            first.signal(signal.SIGCONT)
            pair.wait_shared()
        pair.stop_within_delete(second)
        pair.wait_taken_over(first)
        pair.write_burst(45)
        pair.wait_settled()
        old = pair.old_events()
        second.signal(signal.SIGCONT)
        wait_for(lambda: pair.old_events() > old, "the woken worker to write old events")
        pair.wait_shared()
        pair.check()
        pair.compact()
        model = model_of(pair.system, pair.topic)
        view_log.check(view, model)
    fresh = pair.system.service("query_service").start().wait_ready()
    asyncio.run(check_sow(model, fresh.url, pair.topic))
    with Client(fresh.url) as client, client.local_view(pair.topic) as view:
        assert dict(view) == model.sow()


def test_stale_owner_writes(pair: Pair) -> None:
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
