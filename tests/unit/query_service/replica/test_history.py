"""The past of a partition: one state a record and interval, no longer than the window, within a limit."""

import pytest

from sowline.changes.change import Change
from sowline.config.topic_fields import HistoryDefinition
from sowline.model.position import Position, before_the_log
from sowline_query_service.index.rows import UNKNOWN_OFFSET, UNKNOWN_TIME, Rare, Rows
from sowline_query_service.replica.history import (
    INTERVAL_BYTES,
    SLACK_MIN,
    STATE_BYTES,
    Former,
    Histories,
    PartitionHistory,
    joined,
    time_text,
)
from tests.memory import deep_bytes


class Partition:
    """Records of one partition and their past, and the changes that make them."""

    def __init__(self, window: int = 1000, granularity: int = 0, histories: Histories | None = None) -> None:
        self.rows = Rows()
        self.history = PartitionHistory(
            HistoryDefinition(window=f"{window}ms", granularity=f"{granularity}ms"),  # type: ignore[arg-type]
            self.rows,
        )
        self.last = before_the_log()
        if histories is not None:
            histories.add(self.history)

    def put(self, key: str, text: str | None, time: int, correlation: str | None = None) -> None:
        """Change a record; None is its end."""
        sow, body = key.encode(), None if text is None else text.encode()
        position = Position(0, self.last.offset + 1)
        previous = self.rows.body(sow)
        self.history.note(Change(sow, body, previous, position, self.last, "publish", time))
        if body is None:
            self.rows.remove(sow)
        else:
            self.rows.put(sow, body, 0, position, time, correlation)
        self.last = position
        self.history.sweep()

    def was(self, time: int) -> dict[str, str | None]:
        """Return what differed then from now: the earliest state of each record."""
        since = self.history.since(time)
        if since is None:
            return {}
        states = reversed(list(zip(since.former.keys, since.former.bodies, strict=True)))
        return {key.decode(): None if body is None else body.decode() for key, body in states}


def test_a_record_is_put_back_to_what_it_was() -> None:
    """As of a time, its changes up to and including it have happened; where it was not, there is None."""
    partition = Partition()
    for time, key, text in ((10, "a", "1"), (20, "a", "2"), (20, "b", "1"), (30, "a", None), (40, "a", "3")):
        partition.put(key, text, time)
    assert [partition.was(time) for time in (9, 10, 19, 20, 29, 30, 39, 40, 99)] == [
        {"a": None, "b": None},
        {"a": "1", "b": None},
        {"a": "1", "b": None},
        {"a": "2"},
        {"a": "2"},
        {"a": None},
        {"a": None},
        {},
        {},
    ]


def test_a_time_is_rounded_down() -> None:
    """An interval has its end, and not its beginning."""
    partition = Partition(granularity=10)
    for time in range(8, 33):
        partition.put("a", str(time), time)
    assert [partition.was(time)["a"] for time in (0, 9, 10, 19, 20, 29)] == [
        None,
        None,
        "10",
        "10",
        "20",
        "20",
    ]
    assert partition.was(30) == {"a": "30"}
    assert partition.was(40) == {}


def test_where_a_partition_stood() -> None:
    """At its last change up to then, and with so many records less."""
    partition = Partition(granularity=10)
    for time, key, text in ((5, "a", "1"), (12, "a", "2"), (13, "b", "1"), (31, "b", None), (32, "c", "1")):
        partition.put(key, text, time)
    found = [
        (since.after.offset, since.gained) for t in (0, 10, 20, 30) if (since := partition.history.since(t))
    ]
    assert found == [(-1, 2), (0, 1), (2, 0), (2, 0)]


def test_when_a_record_had_changed_last() -> None:
    """Position, time and correlation of a former state are those of the change that made it."""
    partition = Partition()
    partition.put("a", "1", 10, "why")
    partition.put("a", "2", 20)
    partition.put("a", "3", 30, "because")
    partition.put("a", "4", 40)
    since = partition.history.since(15)
    assert since is not None
    former = since.former
    assert (former.offsets.tolist(), former.times.tolist()) == ([0, 1, 2], [10, 20, 30])
    assert former.rare == {0: Rare("why"), 2: Rare("because")}
    assert (former.eras.tolist(), former.nths.tolist()) == ([0, 0, 0], [0, 0, 0])


def test_what_is_not_known_is_not_claimed() -> None:
    """Where the record at hand is not the one before the change, as after a load."""
    partition = Partition()
    partition.rows.put(b"a", b"stale", 0, Position(0, 3), 10)
    for key in (b"a", b"b"):
        partition.history.note(Change(key, b"2", b"1", Position(0, 9), Position(0, 8), "publish", 20))
    since = partition.history.since(15)
    assert since is not None
    assert since.former.bodies == [b"1", b"1"]
    assert since.former.offsets.tolist() == [UNKNOWN_OFFSET] * 2
    assert since.former.times.tolist() == [UNKNOWN_TIME] * 2


@pytest.mark.parametrize(("granularity", "intervals"), [(0, 1000), (10, 100), (250, 4), (1000, 1)])
def test_what_is_kept_is_bounded(granularity: int, intervals: int) -> None:
    """However often records change: one state of each in each interval of the window, and in the newest."""
    partition = Partition(1000, granularity)
    most = 0
    for time in range(1_000_000, 1_020_000):
        for key in ("a", "b", "c"):
            partition.put(key, "x" * 10, time)
            most = max(most, partition.history.states)
    assert 3 * intervals <= most <= 3 * (intervals + 1)
    assert partition.history.nbytes <= (intervals + 1) * (3 * (STATE_BYTES + 10) + INTERVAL_BYTES)
    assert partition.history.floor == (1_019_999 - 1000) // max(1, granularity) * max(1, granularity)
    slack = 2 * most + SLACK_MIN + 3
    shared = {id(partition.rows)}
    assert deep_bytes(partition.history, shared) <= slack * (STATE_BYTES + INTERVAL_BYTES)


def test_what_goes_is_not_counted_any_more() -> None:
    """When everything has gone, nothing is left."""
    partition = Partition(window=50, granularity=5)
    for time in range(0, 200, 3):
        partition.put("ab"[time % 2], "x" * time, time, "c")
        partition.put("c", None if time % 2 else "y", time) if time else None
    kept = partition.history
    bodies = [body for body in kept._bodies if body is not None]
    intervals = len(kept._numbers) - kept._first
    assert kept.nbytes == sum(map(len, bodies)) + kept.states * STATE_BYTES + intervals * INTERVAL_BYTES
    while kept.oldest is not None:
        kept.drop_oldest()
    assert kept.states == 0
    kept.sweep()
    assert (kept.nbytes, kept.states, kept._rare) == (0, 0, {})


def test_log_time_that_goes_on_lets_states_go() -> None:
    """Also where nothing changes."""
    partition = Partition(window=50)
    partition.put("a", "1", 10)
    partition.put("a", "2", 20)
    partition.history.advance(69)
    assert (partition.history.states, partition.history.floor, partition.was(19)) == (1, 19, {"a": "1"})
    partition.history.advance(70)
    assert (partition.history.states, partition.history.floor, partition.history.oldest) == (0, 20, None)


def test_behind_a_hole_the_past_begins_again() -> None:
    """From the end of its interval on."""
    partition = Partition(granularity=10)
    partition.put("a", "1", 10)
    partition.history.restart(25)
    partition.put("a", "2", 28)
    assert (partition.history.floor, partition.history.states, partition.was(30)) == (30, 0, {})
    partition.put("a", "3", 31)
    assert partition.was(30) == {"a": "2"}
    partition.history.restart(12)
    assert partition.history.floor == 30


def test_the_oldest_goes_first() -> None:
    """Of whichever partition it is; there is no answer then for times before its end."""
    histories = Histories(20 * (STATE_BYTES + INTERVAL_BYTES + 100))
    one, other = Partition(window=10**6, histories=histories), Partition(window=10**6, histories=histories)
    for time in range(100):
        (one if time % 4 else other).put("a", "x" * 100, time)
        histories.keep_within()
    assert histories.nbytes <= 20 * (STATE_BYTES + INTERVAL_BYTES + 100)
    assert one.history.states + other.history.states == 100 - histories.dropped
    assert histories.dropped == pytest.approx(80, abs=2)
    floors = [one.history.floor, other.history.floor]
    assert max(floors) == pytest.approx(80, abs=3)
    assert abs(floors[0] - floors[1]) <= 4
    assert one.was(max(floors)) == {"a": "x" * 100}


def test_an_interval_that_is_too_large_alone_goes_too() -> None:
    """What happens in the rest of it is not kept either: it would tell of no time that can be asked for."""
    histories = Histories(1000)
    partition = Partition(granularity=100, histories=histories)
    partition.put("a", "x" * 2000, 10)
    partition.put("a", "y", 110)
    assert histories.keep_within() == 2
    assert (histories.nbytes, partition.history.floor, histories.dropped) == (0, 200, 2)
    partition.put("b", "y", 120)
    assert (partition.history.states, histories.keep_within()) == (0, 0)
    partition.put("b", "z", 201)
    assert partition.was(200) == {"b": "y"}


def test_a_large_interval_goes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is void at once, and counted until it is gone; applying changes is not held up for long."""
    monkeypatch.setattr("sowline_query_service.replica.history.SWEPT_AT_ONCE", 10)
    histories = Histories(10**6)
    partition = Partition(window=100, granularity=100, histories=histories)
    for number in range(95):
        partition.history.note(
            Change(b"%d" % number, b"{}", b"x" * 50, Position(0, number), partition.last, "publish", 1001)
        )
    assert histories.nbytes == 95 * (STATE_BYTES + 50) + INTERVAL_BYTES
    partition.history.advance(1200)
    assert partition.history.states == 0
    for swept in range(10, 100, 10):
        assert histories.keep_within() == 0
        assert histories.nbytes == (95 - swept) * (STATE_BYTES + 50)
    histories.keep_within()
    assert histories.nbytes == 0


def test_what_is_void_goes_before_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no more room."""
    monkeypatch.setattr("sowline_query_service.replica.history.SWEPT_AT_ONCE", 10)
    histories = Histories(60 * STATE_BYTES)
    partition = Partition(window=100, granularity=100, histories=histories)
    for time in (1001, 1201):
        for number in range(50):
            key = b"%d of %d" % (number, time)
            partition.history.note(Change(key, b"{}", None, Position(0, 1), partition.last, "publish", time))
    assert (partition.history.states, histories.keep_within(), partition.history.states) == (50, 0, 50)
    assert histories.nbytes <= 60 * STATE_BYTES


def test_the_memory_that_is_counted_is_taken() -> None:
    """The estimate is not less than what the columns take, nor twice as much."""
    partition = Partition(window=10**6)
    bodies = 3000
    for time in range(bodies):
        partition.put(str(time), "x", time)
    kept = partition.history
    measured = deep_bytes(kept, {id(partition.rows)})
    assert measured < kept.nbytes < 2 * measured


def test_states_of_several_partitions_stand_together() -> None:
    """One behind the other, each with what belongs to it."""
    one, other = Partition(), Partition()
    for partition, name in ((one, "a"), (other, "b")):
        for time in (10, 20, 30):
            partition.put(name, str(time), time, name)
    found = [since.former for partition in (one, other) if (since := partition.history.since(10)) is not None]
    both = joined(found)
    assert (both.keys, both.bodies) == ([b"a", b"a", b"b", b"b"], [b"10", b"20", b"10", b"20"])
    assert both.times.tolist() == [10, 20, 10, 20]
    assert [(at, rare.correlation) for at, rare in both.rare.items()] == list(enumerate("aabb"))
    nothing: list[Former] = []
    assert len(joined(nothing)) == 0
    assert joined(nothing).times.tolist() == []


def test_a_time_is_written_as_in_a_bookmark() -> None:
    """So that anyone who reads it can ask for it."""
    assert time_text(1_763_726_400_123) == "20251121T120000.123000Z"
