"""Eras: their base is what followers were told of, up to the first event of the era."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from sowline.changes.change import Change
from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.model.key import sow_key
from sowline.model.position import Position
from sowline_materializer.core.fencing import Fenced, check_base, check_owner
from sowline_materializer.partition.kafka_partition import KafkaExtent
from sowline_materializer.worker.assignment import Assignment
from sowline_materializer.worker.counts import Counts
from sowline_materializer.worker.owned import OwnedPartitions
from sowline_materializer.worker.repair import Repair
from sowline_materializer.worker.schemas import Schemas
from sowline_query_service.index.rows import Rows
from sowline_query_service.replica.partition_replica import PartitionReplica
from sowline_query_service.replica.plain_run import EventAtOffset
from tests.property.world import Topic, World, store_on

DEFINITION = define_topic(name="orders", key="/id")

BASE = Position(0, 8)


def change(offset: int, era: int = 0) -> Change:
    """Return a change."""
    position = Position(era, offset)
    return Change(b"1", b"{}", None, position, position, "publish", 100)


def begun() -> Progress:
    """Return the first event of the era."""
    return Progress(Position(1, -1), BASE, 0, {}, "", "log", 100, {})


@pytest.mark.parametrize("found", [[], [begun()], [change(8), begun()], [begun(), change(9)]])
def test_followers_stand_on_the_base(found: list[Event]) -> None:
    """They drop what is not newer, and what comes of the old era behind the first event of the new one."""
    check_base(found, BASE)


def test_followers_received_more() -> None:
    """They have taken it: so must the base of the era."""
    with pytest.raises(Fenced, match="up to 8, found 9"):
        check_base([change(7), change(9), begun()], BASE)


def test_somebody_else_is_further() -> None:
    """What they wrote is newer than what an owner holds: it can't put that right."""
    check_owner([change(7), change(8)], BASE)
    with pytest.raises(Fenced, match="at 8, found 1/3"):
        check_owner([change(7), change(3, era=1)], BASE)


class Late:
    """An emitter before whose first event something of a previous owner arrives."""

    def __init__(self, topic: Topic, late: list[Change]) -> None:
        self._topic = topic
        self._late = late

    def events(self, definition: TopicDefinition, partition: int, events: Sequence[Event]) -> None:
        """Write events."""
        late, self._late = self._late, []
        for event in (*late, *events):
            self._topic.append(event)

    def wait(self) -> None:
        """Nothing: all is written."""

    def end(self, topic: str, partition: int) -> int:
        """Return where the changes end."""
        return self._topic.end


@pytest.fixture
def world() -> Iterator[World]:
    """A world with two records and a log that is made again after that."""
    world = World(DEFINITION)
    with ExitStack() as stack:
        for entered in world.patched():
            stack.enter_context(entered)
        stack.enter_context(patch("sowline_materializer.worker.repair.read_range", world._read_range))
        stack.enter_context(
            patch("sowline_materializer.worker.assignment.kafka_extent", lambda *_: extent(world))
        )
        for value in (b'{"id":1}', b'{"id":2}'):
            world.write(0, value, None, [])
        world.drain()
        world.crash(0)
        world.logs[0].clear()
        yield world


def extent(world: World) -> KafkaExtent:
    """Return what Kafka holds."""
    return KafkaExtent("another log", 0, 0, 0, world.changes[0].end, "changes 0")


def assignment_in(world: World, late: list[Change], start: int | None) -> Assignment:
    """Return an assignment that opens the partition from `start` on, while something late arrives."""
    settings: Any = SimpleNamespace(kafka_client={}, data_dir=Path(), accept_loss=False, cache_bytes_max=0)
    cluster: Any = SimpleNamespace(offsets_at=lambda *_: {0: 0})
    emitter: Any = Late(world.changes[0], late)
    start_phase: Any = SimpleNamespace(offset=lambda *_: start)
    owned = OwnedPartitions({"orders": DEFINITION})
    repair = Repair({}, emitter, owned, Counts(), lambda _: 0)
    schemas = Schemas({}, owned, emitter, None)
    return Assignment(settings, cluster, owned, repair, schemas, None, start_phase)


@pytest.mark.parametrize("start", [None, 0])
def test_an_owner_of_before_writes_as_an_era_begins(world: World, start: int | None) -> None:
    """The new owner, a loader of the changes and a follower of them have the same records."""
    key = sow_key(DEFINITION.declared.domain_prefix, "3")
    late = Change(key, b'{"id":3}', None, Position(0, 2), Position(0, 1), "publish", 1000)
    partition = assignment_in(world, [late], start).opened(("orders", 0))
    keys = {key for key, _ in store_on(world.disk, Path("orders/0")).scan()}
    assert (key in keys) is (start is None)
    assert len(keys) == (3 if start is None else 0)
    followed, loaded = Rows(), Rows()
    follower, loader = PartitionReplica(0, followed, 5), PartitionReplica(0, loaded, 5)
    follower.loaded()
    placed = [EventAtOffset(message.at, message.event) for message in world.changes[0].history]
    follower.apply(placed)
    loader.load(placed)
    assert set(followed.numbers) == set(loaded.numbers) == keys
    assert follower.held == loader.held == partition.checkpoint.position
