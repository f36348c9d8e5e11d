"""A partition that is opened with what a Kafka and a disk in memory hold."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sowline.config.topic_definition import define_topic
from sowline_materializer.partition.kafka_partition import KafkaExtent
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.recovery import Recovery
from tests.property.world import World, dump

DEFINITION = define_topic(name="orders", key="/id", partitions=2)
PATH = Path("0")


@pytest.fixture
def world() -> Iterator[World]:
    """A world with nothing in it."""
    world = World(define_topic(name="orders", key="/id"))
    with ExitStack() as stack:
        for entered in world.patched():
            stack.enter_context(entered)
        yield world


@pytest.fixture
def worked(world: World) -> World:
    """A world whose partition has applied four records: two of them live, one deleted, one refused."""
    for value in (b'{"id":1}', b'{"id":2}', b'{"id":1,"a":1}', b"{"):
        world.write(0, value, None, [])
    world.write(0, b'{"id":2}', None, [("sow.command", b"sow_delete")])
    world.write(0, b'{"id":3}', None, [])
    world.drain(2)
    world.crash(0)
    return world


def recover(
    world: World,
    accept_loss: bool = False,
    *,
    looks_at_times: bool = False,
    native: Any = None,
    first_era: int = 0,
    **found: Any,
) -> OpenedPartition[Any]:
    """Open the partition with what Kafka holds, or is `found` to hold."""
    changes = world.changes[0]
    extent: dict[str, Any] = {
        "log_id": "log",
        "log_start": 0,
        "log_end": len(world.logs[0]),
        "changes_start": changes.held[0].at if changes.held else changes.end,
        "changes_end": changes.end,
        "changes_id": f"changes {changes.since}",
    }
    since = (lambda time: first_since(world, time)) if looks_at_times else None
    kept = KafkaExtent(**(extent | found))
    return Recovery(
        {},
        world.definition,
        0,
        PATH,
        kept,
        accept_loss,
        first_since=since,
        native=native,
        first_era=lambda: first_era,
    ).open()


def first_since(world: World, time: int) -> int:
    """Return the offset of the log's first record of that time or later."""
    return next((record.offset for record in world.logs[0] if record.time >= time), len(world.logs[0]))


def state(opened: OpenedPartition[Any]) -> Any:
    """Return what all recovery sources must agree on."""
    checkpoint = opened.checkpoint
    return (
        dump(opened.store, 0, 0),
        checkpoint.position,
        checkpoint.last_change,
        checkpoint.time,
        checkpoint.origins,
        checkpoint.complete,
    )


def damage(world: World) -> None:
    """Change a record on the disk behind the store's back."""
    entries = world.disk[PATH]["_entries"]
    key = next(iter(entries))
    entries[key] = entries[key][:-1] + b"!"


def check_filled_again(worked: World) -> None:
    """The changes topic alone gives the state that its owner leaves."""
    worked.crash(0)
    expected = state(recover(worked))
    worked.disk.clear()
    assert state(recover(worked)) == expected
