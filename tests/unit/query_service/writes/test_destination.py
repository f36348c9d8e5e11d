"""Who waits for the reports about commands of a query service."""

import asyncio

import pytest

from sowline.changes.change import Change
from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.commands.command import Origin
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.model.position import Position
from sowline.serving.writes.destination import AwaitedReports
from sowline.serving.writes.outcome import OutcomeReports
from sowline_query_service.replica.plain_run import EventAtOffset
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.writes.destination import ReplicaDestination, ReplicaWatch
from tests.waiting import loop_turns

TOPICS = parse_topics("topics: [{name: orders, key: /id, partitions: 2}, {name: trades, key: /id}]")


def destination_of(looks: list[Origin]) -> tuple[ReplicaDestination, ReplicaWatch]:
    """Return a destination with a watch of `orders`; it notes in `looks` of which commands reports are looked for."""
    destination = ReplicaDestination(ServedTopics(TOPICS, ring_changes_max=10))
    found = destination.reports_now

    def noted(awaited: AwaitedReports) -> OutcomeReports | None:
        looks.append(awaited.origin)
        return found(awaited)

    destination.reports_now = noted  # type: ignore[method-assign]
    return destination, destination.watch_topics(["orders"])


def take(destination: ReplicaDestination, event: Event, topic: str = "orders", partition: int = 0) -> None:
    """Let an event arrive."""
    destination.take({(f"{topic}.changes", partition): [EventAtOffset(0, event)]})


def change(offset: int) -> Change:
    """Return a change that one command has made."""
    return Change(b"1", b"{}", None, Position(0, offset), Position(0, offset - 1), "publish", 0)


def wait(watch: ReplicaWatch, origin: Origin, partition: int = 0) -> "asyncio.Task[list[OutcomeReports]]":
    """Begin to wait for the report of a partition about a command."""
    topic = ServedTopics(TOPICS, 1).definitions["orders"]
    awaited = AwaitedReports(topic, origin, {partition})
    return asyncio.create_task(watch.wait_reports([awaited]))


async def test_commands_wake_only_for_their_own_reports() -> None:
    """Each is looked at when its wait begins, and when it is reported; other batches don't concern it."""
    looks: list[Origin] = []
    destination, watch = destination_of(looks)
    commands = [Origin(0, offset) for offset in range(20)]
    tasks = [wait(watch, command) for command in commands]
    await loop_turns()
    take(destination, change(0), "trades")
    take(destination, change(0), partition=1)
    await loop_turns()
    assert looks == commands
    for command in commands:
        take(destination, change(command.offset))
        await loop_turns()
    assert all(task.done() for task in tasks)
    assert looks == commands * 2


async def test_a_forwarded_command_is_reported_without_a_change() -> None:
    """The partition has processed it, and later ones: its progress event concerns all up to that offset."""
    looks: list[Origin] = []
    destination, watch = destination_of(looks)
    tasks = [wait(watch, Origin(0, offset), partition=1) for offset in (3, 4, 5)]
    await loop_turns()
    position = Position(0, 9)
    take(destination, Progress(position, position, 10, {0: 4}, "", "", 0, {}), partition=1)
    await loop_turns()
    assert [task.done() for task in tasks] == [True, True, False]
    assert len(looks) == 5
    tasks[2].cancel()


async def test_several_may_wait_for_one_command() -> None:
    """One of them may leave; the others hear of the command."""
    destination, watch = destination_of([])
    first, second, third = (wait(watch, Origin(0, 3)) for _ in range(3))
    await loop_turns()
    first.cancel()
    await loop_turns()
    take(destination, change(3))
    for task in (second, third):
        [found] = await task
        assert found.own is not None


async def test_who_waits_when_the_last_watch_ends_gets_an_error() -> None:
    """Nothing more is kept of the log, so no report would ever come."""
    destination, watch = destination_of([])
    later = destination.watch_topics(["orders"])
    task = wait(watch, Origin(0, 3))
    await loop_turns()
    watch.end()
    await loop_turns()
    assert not task.done()
    later.end()
    with pytest.raises(SowlineError, match="no client waits"):
        await task
