"""The state of a query service: replicas, and who is told of their changes."""

import asyncio

import pytest
from structlog.testing import capture_logs

from sowline.changes.change import Change
from sowline.changes.progress import Progress
from sowline.errors import SowlineError
from sowline.model.position import Position
from sowline_query_service.replica.partition_replica import Head
from sowline_query_service.replica.plain_run import EventAtOffset
from tests.unit.query_service.sessions import Server
from tests.waiting import loop_turns


def change(offset: int, after: int) -> Change:
    """Return a change at an offset."""
    return Change(b"1", b"{}", None, Position(0, offset), Position(0, after), "publish", 0)


def test_loaded_records_are_not_sent() -> None:
    """Listeners hear of a change only once its partition follows."""
    server, received = Server(partitions=2), list[tuple[int, int]]()
    server.state.listen(lambda topic, number, before, changes: received.append((number, len(changes))))
    server.put({"id": 1})
    assert server.state.loading == ["orders"]
    server.state.loaded([("orders.changes", 0)])
    server.put({"id": 2})
    assert server.state.loading == ["orders"]
    server.loaded()
    server.put({"id": 3}, partition=1)
    assert (received, server.state.loading, server.topic.record_count) == ([(0, 1), (1, 1)], [], 3)


def test_a_gap_breaks_the_state() -> None:
    """After a gap nothing is applied any more: only a restart can help, and it is said why."""
    server = Server().loaded()
    server.put({"id": 1})
    server.take(change(5, 4))
    assert server.state.broken is not None
    assert "orders.changes [0]" in server.state.broken
    server.take(change(1, 0))
    assert server.topic.positions == {0: Position(0, 0)}


def test_a_broken_state_loads_nothing() -> None:
    """The events that would complete a load have not been applied."""
    server = Server(partitions=2)
    server.state.loaded([("orders.changes", 0)])
    server.take(change(5, 4))
    assert server.state.broken is not None
    server.state.loaded([("orders.changes", 1)])
    assert server.state.loading == ["orders"]


def test_a_partition_that_begins_with_a_snapshot_follows() -> None:
    """Nobody hears of its changes while its load lasts. After a gap it is empty, and has to be loaded again."""
    server, received = Server(), list[int]()
    server.state.listen(lambda topic, number, before, changes: received.append(len(changes)))
    partition, head = ("orders.changes", 0), Head(Position(0, 3), 4, 1000, 1000)
    server.state.restored(partition, head, [(Position(0, 3), 3)])
    assert server.state.take({partition: [EventAtOffset(4, change(4, 3))]}) == []
    assert (server.topic.record_count, server.topic.positions, received) == (1, {0: Position(0, 4)}, [])
    assert server.state.take({partition: [EventAtOffset(5, change(9, 8))]}) == [partition]
    assert (server.topic.record_count, server.topic.positions) == (0, {0: Position(0, -1)})
    assert server.state.snapshots_discarded == {"gap": 1}
    assert (server.state.broken, server.state.loading) == (None, ["orders"])


def restored_after(offset: int, event: Change) -> dict[str, int]:
    """Let an event follow a snapshot at 1/9, of 1,000 ms and 5 events; return the discarded snapshots."""
    server, partition = Server(), ("orders.changes", 0)
    server.state.restored(partition, Head(Position(1, 9), 5, 1000, 1000), [])
    again = server.state.take({partition: [EventAtOffset(offset, event)]})
    assert again == [partition] * server.state.snapshots_discarded.total()
    return server.state.snapshots_discarded


@pytest.mark.parametrize(("offset", "log_offset"), [(4, 7), (4, 9), (5, 9), (6, 8), (4, 10)])
def test_a_snapshot_ahead_of_changes_that_were_cut_is_discarded(offset: int, log_offset: int) -> None:
    """Commands at the lost positions are others now: what a follower would drop as repeats is later, or new."""
    position = Position(1, log_offset)
    event = Change(b"1", b"{}", None, position, Position(1, 6), "publish", 1001)
    assert restored_after(offset, event) == {"gap": 1}


@pytest.mark.parametrize(
    ("offset", "position", "time"),
    [
        (4, Position(1, 9), 1000),
        (5, Position(1, 8), 900),
        (5, Position(1, 10), 1001),
        (5, Position(0, 12), 1001),
    ],
    ids=["last", "repeat", "next", "ended"],
)
def test_a_snapshot_of_changes_that_go_on_is_kept(offset: int, position: Position, time: int) -> None:
    """Its last event is read again, stale owners repeat earlier ones, and one of an ended era may be later."""
    event = Change(b"1", b"{}", None, position, Position(0, 3), "publish", time)
    assert not restored_after(offset, event)


def test_the_followers_end_is_reported() -> None:
    """What ended the following is kept for the health answer."""
    server = Server().loaded()
    server.state.failed(ValueError("no more"))
    assert "no more" in (server.state.broken or "")


async def test_a_position_is_waited_for() -> None:
    """Anyone who waits goes on once every partition has reached what was asked for."""
    server = Server(partitions=2).loaded()
    wanted = {0: Position(0, 1), 1: Position(0, 0)}
    waiting = asyncio.create_task(server.state.wait_until_reached(server.topic, wanted, 60))
    for partition in (0, 1, 0):
        await loop_turns()
        assert not waiting.done()
        server.put({"id": 1}, partition=partition)
    assert await waiting is True


async def test_waiting_has_an_end() -> None:
    """After the time is up the answer is no."""
    server = Server().loaded()
    assert await server.state.wait_until_reached(server.topic, {0: Position(0, 1)}, 0) is False


def test_want_of_memory_for_histories_is_reported_once() -> None:
    """The oldest states go, while loading and later; how many have gone is counted."""
    server = Server(more=", history: {window: 1h}", history_bytes_max=1000)
    with capture_logs() as logs:
        for n in range(10):
            server.put({"id": 1, "n": n, "pad": "x" * 100})
        assert server.state.histories.nbytes <= 1000
        server.loaded()
        for n in range(10):
            server.put({"id": 1, "n": n, "pad": "x" * 100})
    (history,) = server.topic.histories
    assert server.state.histories.nbytes <= 1000
    assert history.states + server.state.histories.dropped == 20
    assert [entry["log_level"] for entry in logs if "history_bytes_max" in entry["event"]] == ["warning"]


def test_a_topic_without_a_history_keeps_none() -> None:
    """Only what its definition says is kept."""
    server = Server().loaded()
    server.put({"id": 1})
    server.put({"id": 1})
    assert (server.topic.histories, server.state.histories.nbytes) == ([], 0)


def test_the_past_goes_back_as_far_as_all_partitions_do() -> None:
    """And says where each of them stood."""
    server = Server(partitions=2, more=", history: {window: 5ms}").loaded()
    for n in range(20):
        server.put({"id": 1, "n": n})
    server.put({"id": 2}, partition=1)
    server.put({"id": 2, "n": 1}, partition=1)
    with pytest.raises(SowlineError) as error:
        server.topic.past(1013)
    assert error.value.reason == "history expired"
    past = server.topic.past(1014)
    assert (past.positions, past.records) == ({0: Position(0, 14), 1: Position(0, 1)}, 2)
    assert past.partitions.tolist() == [0] * 5
    now = server.topic.past(2000)
    assert (now.positions, now.records, len(now.former)) == (server.topic.positions, 2, 0)


def test_how_far_behind_kafka_a_topic_is() -> None:
    """The sum over its partitions, once that is known of all of them."""
    server = Server(partitions=2)
    assert server.state.changes_behind(server.topic) is None
    server.state.unread_changes = {("orders.changes", 0): 3}
    assert server.state.changes_behind(server.topic) is None
    server.state.unread_changes = {("orders.changes", 0): 3, ("orders.changes", 1): 4}
    assert server.state.changes_behind(server.topic) == 7


def test_when_the_newest_change_was() -> None:
    """By the log's time, whether it was loaded or followed; no matter when something went on without one."""
    server = Server()
    (partition,) = server.topic.partitions.values()
    assert partition.changed_time == 0
    server.put({"id": 1})
    assert partition.changed_time == 1000
    server.loaded()
    server.put({"id": 1})
    assert partition.changed_time == 1001
    server.take(Progress(Position(0, 5), Position(0, 1), 6, {}, "", "", 5000, {}))
    assert (partition.time, partition.changed_time) == (5000, 1001)
