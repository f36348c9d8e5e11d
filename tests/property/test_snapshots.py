"""A service that follows from a snapshot comes to the same state as one that has seen everything.

The snapshot is taken while changes go on, a few rows at a time. The changes topic may be compacted after that: then
the follower notices what is missing, or nothing is.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.changes.change import Change
from sowline.changes.changes_reader import ChangesMissing
from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.config.topic_definition import define_topic
from sowline.config.topics import Topics
from sowline.model.position import Position
from sowline_query_service.index.rows import Rows
from sowline_query_service.replica.partition_replica import PartitionReplica
from sowline_query_service.replica.plain_run import EventAtOffset
from sowline_query_service.snapshots import block as blocks_module
from sowline_query_service.snapshots import partition_snapshots as snapshots_module
from sowline_query_service.snapshots.block import decoded, decoded_index
from sowline_query_service.snapshots.partition_snapshots import PartitionSnapshots
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_state import TopicState

KEYS, PARTITIONS = 6, 2

Log = list[EventAtOffset]


def log_of(chance: Random, count: int) -> Log:
    """Return events of one partition that follow each other."""
    events: list[Event] = []
    after = Position(0, -1)
    for number in range(count):
        position = Position(0, number)
        if chance.random() < 0.1:
            events.append(Progress(position, after, 0, {}, "", "", 1000 + number, {}))
            continue
        body = None if chance.random() < 0.3 else b'{"n":%d}' % number
        correlation = f"c{number}" if chance.random() < 0.3 else None
        events.append(
            Change(
                b"%d" % chance.randrange(KEYS),
                body,
                None,
                position,
                after,
                "publish" if body else "delete",
                1000 + number,
                correlation=correlation,
            )
        )
        after = position
    return [EventAtOffset(offset, event) for offset, event in enumerate(events)]


def mixed(chance: Random, *lists: list[Any]) -> list[Any]:
    """Return the items of lists, each list in its order."""
    turns = [number for number, one in enumerate(lists) for _ in one]
    chance.shuffle(turns)
    iterators = [iter(one) for one in lists]
    return [next(iterators[number]) for number in turns]


def served() -> TopicState:
    """Return a topic of a query service."""
    definition = define_topic(name="orders", key=("/id",), partitions=PARTITIONS)
    return ServedTopics(Topics(topics=(definition.declared,)), ring_changes_max=10).topics["orders"]


def records(replica: PartitionReplica, rows: Rows, number: int) -> dict[Any, Any]:
    """Return all records of a partition, and check that no row is left over."""
    mine = rows.of_partition(number, 0, rows.end)
    captured = rows.capture(mine)
    found = {
        captured.keys[at]: (
            captured.bodies[at],
            captured.position(at),
            captured.times[at],
            captured.rare_of(at).correlation,
        )
        for at in range(len(captured))
    }
    assert len(found) == len(mine)
    assert all(rows.numbers[key] == row for key, row in zip(captured.keys, mine.tolist(), strict=True))
    return found | {"position": replica.held, "time": replica.time, "changed": replica.changed_time}


def taken(topic: TopicState, live: Iterator[Callable[[], Any]]) -> tuple[Any, list[Any], Any]:
    """Take a snapshot of partition 0 with the writer's own functions; between two calls more events arrive."""
    nothing: Any = None
    state: Any = SimpleNamespace(broken=None, topics={topic.definition.name: topic})
    snapshots = PartitionSnapshots(nothing, state, str, lambda topic, number: 1000.0)

    def in_loop(function: Callable[..., Any], *arguments: Any) -> Any:
        for apply in islice(live, 8):
            apply()
        return function(*arguments)

    begun = in_loop(snapshots.begin, topic, 0)
    if begun is None:
        return None, [], None
    *blocks, index = snapshots.blocks(topic, 0, begun, in_loop)
    return begun.head, blocks, index


def compacted(log: Log, head: int, chance: Random) -> Log:
    """Return what compaction may leave of a log: of each key the newest event, and any others."""
    newest = {one.event.sow_key: one.offset for one in log if isinstance(one.event, Change)}
    return [
        one
        for one in log
        if not isinstance(one.event, Change)
        or newest[one.event.sow_key] == one.offset
        or chance.random() < 0.8
    ]


@given(st.integers(0, 10**9), st.integers(0, 60), st.integers(0, 60), st.integers(1, 4), st.booleans())
@example(5, 39, 16, 3, False).via("a record that gets another row while the snapshot is taken")
@example(24, 45, 24, 2, False).via("a record that gets another row while the snapshot is taken")
def test_a_snapshot_that_is_taken_during_changes(
    seed: int, before: int, count: int, rows_max: int, is_compacted: bool
) -> None:
    """Its reader comes to the same records, positions, times and correlations, or finds a gap."""
    chance = Random(seed)
    log, other = log_of(chance, before + count), log_of(chance, 20)
    topic = served()
    replica, neighbor = topic.partitions.values()
    for partition, events in ((replica, log[:before]), (neighbor, [])):
        partition.load(events)
        partition.loaded()
    mine = [(replica, one) for one in log[before:]]
    others = [(neighbor, EventAtOffset(one.offset, _renamed(one.event))) for one in other]
    live = (partial(partition.apply, [one]) for partition, one in mixed(chance, mine, others))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots_module, "BLOCK_RECORDS_MAX", rows_max)
        patch.setattr(snapshots_module, "ROWS_MAX", rows_max)
        patch.setattr(blocks_module, "BLOCK_RECORDS_MAX", max(1, rows_max - 1))
        head, blocks, index = taken(topic, live)
    for apply in live:
        apply()
    if head is None:
        return

    again = served()
    for data in blocks:
        again.rows.restore(decoded(data), 0)
    again.rows.free_replaced()
    restored = again.partitions[0]
    restored.restore(head, decoded_index(index))
    tail = log[head.next_offset :]
    if is_compacted:
        tail = [one for one in compacted(log, head.next_offset, chance) if one.offset >= head.next_offset]
    try:
        restored.apply(tail)
    except ChangesMissing:
        assert is_compacted
        restored.begin_again()
        assert records(restored, again.rows, 0) == {
            "position": Position(0, -1),
            "time": 0,
            "changed": 0,
        }
        restored.load(log)
        restored.loaded()
    assert records(restored, again.rows, 0) == records(replica, topic.rows, 0)
    assert [restored.offset_for(Position(0, at)) for at in range(before)] == [
        replica.offset_for(Position(0, at)) for at in range(before)
    ]


def _renamed(event: Event) -> Event:
    """Return the event of another key, because each key is in one partition."""
    if not isinstance(event, Change):
        return event
    return Change(
        b"other" + event.sow_key, event.body, None, event.position, event.after, event.op, event.time
    )
