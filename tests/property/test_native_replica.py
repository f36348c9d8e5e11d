"""A replica that the native core loads is the one that Python loads: rows, positions, indexes and phases."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from sowline.changes.change import Change
from sowline.changes.wholeness import Wholeness
from sowline.config.topic_definition import define_topic
from sowline.model.position import Position, before_the_log
from sowline_query_service.index.rows import LoadBefore, Rows
from sowline_query_service.replica.plain_run import MessageColumns, PlainRun, Portion, events_of
from sowline_query_service.topics.message_reader import MessageReader, is_plain
from tests.panics import panic
from tests.property.change_messages import Message
from tests.property.loaded_replicas import Loaded, compare, life, native
from tests.property.world import written


@given(seed=st.integers(0, 10**9))
def test_native_replica_is_pythons(seed: int) -> None:
    """Whatever owners have written, in whatever batches; then both follow."""
    life(seed, 120)


def test_most_changes_are_read_by_the_native_core() -> None:
    """Otherwise the test before would compare Python with itself."""
    counts = sum((life(seed) for seed in range(30)), Counter[str]())
    assert counts["native"] > counts["messages"] / 3


def plain(offset: int, key: bytes = b"1", position: Position | None = None, **given: Any) -> Message:
    """Return the message of a plain change."""
    position = position or Position(0, offset)
    after = Position(position.era, position.offset - 1)
    change = Change(key, b"{}", None, position, after, "publish", 1000 + offset, **given)
    _, name, body, headers, *_ = written(offset, change)
    return Message(0, offset, name, body, headers)


def run_of(messages: list[Message]) -> PlainRun:
    """Return messages as a run."""
    ((portions,),) = [
        list(MessageReader(native).read(messages, {("orders.changes", 0)}).values())  # type: ignore[arg-type]
    ]
    (run,) = portions
    assert isinstance(run, PlainRun)
    return run


FAR = 2**63 + 5


@pytest.mark.parametrize(
    "newest", [Position(0, FAR), Position(0, -FAR), Position(FAR, 0), Position(0, 1, FAR)]
)
def test_positions_beyond_64_bits(newest: Position) -> None:
    """They compare as they are, and stay if they are the newest."""
    messages = [plain(offset) for offset in range(3)]
    one, other = Wholeness(), Wholeness()
    far = Change(b"far", b"{}", None, newest, before_the_log(), "publish", 1000)
    for wholeness in (one, other):
        wholeness.saw([far], [0])
    run = run_of(messages)
    one.saw_plain(run.changes)
    events = list(run)
    other.saw([event for _, event in events], [offset for offset, _ in events])
    assert vars(one) == vars(other)


@pytest.mark.parametrize("rank", [(FAR, Position(0, 0)), (0, Position(0, FAR)), (0, Position(0, -FAR))])
def test_ranks_beyond_64_bits(rank: Any) -> None:
    """A deletion at such a position outranks every plain change, and the other way round."""
    messages = [plain(offset) for offset in range(10)]
    one, other = (Loaded(core, [99, 99], False) for core in (native, None))
    for loaded in (one, other):
        partition = loaded.topic.partitions[0]
        partition._newest.ranks[b"1"] = rank
        partition._newest.era, partition.position, partition._index = 0, rank[1], [(rank[1], 0)]
        loaded.read(messages, None)
    assert one.runs == 10
    compare(one.seen(), other.seen())


def test_only_some_topics_are_plain() -> None:
    """A history, timelines and deltas need all fields of a change; what is never compacted has no rows."""

    def of(**given: Any) -> bool:
        return is_plain(define_topic(**{"name": "orders", "key": "/id", **given}))

    assert of()
    assert not of(history={"window": "1h", "granularity": "1s"})
    assert not of(documents=True)
    assert not of(delta=True)
    assert not is_plain(define_topic(name="orders", sow=False))


class Panicking:
    """Plain changes that fail when they are loaded."""

    def __init__(self, messages: MessageColumns, start: int) -> None:
        self._changes = native.PlainChanges(messages, start)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._changes, name)

    def __len__(self) -> int:
        return len(self._changes)

    load = panic


def test_a_panic_leaves_the_run_to_python() -> None:
    """Whether the native core fails where it reads changes, which ends its use, or where it puts them into rows."""
    messages = [plain(offset, b"%d" % (offset % 4)) for offset in range(20)]
    for core, runs, lines in ((panic, 0, 1), (Panicking, 20, 1)):
        expected = Loaded(None, [99, 99], False)
        mine = Loaded(type("Module", (), {"PlainChanges": core}), [99, 99], False)
        with capture_logs() as logs:
            for batch in (messages[:10], messages[10:]):
                mine.read(batch, None)
                expected.read(batch, None)
        assert (mine.runs, [line["event"] for line in logs]) == (runs, ["native core failed"] * lines)
        compare(mine.seen(), expected.seen())


def test_rows_find_no_room_missing() -> None:
    """Rows that a run makes, rows that are free, and rows that come one by one share their columns."""
    rows, partition = Rows(), 7
    for key in (b"x", b"1"):
        rows.put(key, b"{}", 1, Position(0, 0), 5)
    rows.remove(b"x")
    run = run_of([plain(offset, b"%d" % (offset % 300), Position(1, offset)) for offset in range(600)])
    rows.load(run.changes, partition, LoadBefore({}, 0, None, 0), 500)
    rows.put(b"y", b"{}", 2, Position(0, 1), 6)
    assert rows.numbers == {b"1": 1, b"0": 0, **{b"%d" % n: n for n in range(2, 300)}, b"y": 300}
    held = rows.capture(rows.all())
    assert held.partitions.tolist() == [7] * 300 + [2]
    assert held.offsets.tolist() == [300, 301, *range(302, 600), 1]
    assert len(held.times) == len(held.read_at) == rows.end


def test_events_of_portions() -> None:
    """All of them, in their order; what has no runs stays as it is."""
    run = run_of([plain(offset) for offset in range(3)])
    events: list[Portion] = list(run)
    assert [offset for offset, _ in events_of([run, *events[:1]])] == [0, 1, 2, 0]
    assert events_of(events) is events
