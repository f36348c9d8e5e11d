"""A partition of a view's source: its load, its snapshot, the messages of its changes, and those of joined topics."""

from typing import Any

import pytest

from sowline.changes.changes_reader import ChangesMissing, ChangesReader, Phase
from sowline.changes.progress import Progress
from sowline.model.bookmark import parse_bookmark
from sowline.model.key import partition_of
from sowline.model.position import Position
from sowline_views.core import outgoing
from sowline_views.core.outgoing import LargeState, Outgoing
from sowline_views.core.source_partition import SourcePartition, take_joined
from tests.property.join_steps import TOPICS, order
from tests.property.join_world import SOURCE, Joins
from tests.property.view_sources import SourceModel, SourceOwner
from tests.property.view_world import defined

TOTALS: dict[str, Any] = {"grouping": ["/region"], "projection": ["COUNT(1) AS /n"]}
NORTH, SOUTH = {"region": "north"}, {"region": "south"}


def owner(source: SourceModel, partitions: int = 1, **view: Any) -> SourceOwner:
    """Return an owner of partition 0, which has loaded what the source has by now."""
    return SourceOwner.begun(defined({**TOTALS, **view}, 1, partitions), source, 1)


def shown(messages: list[Outgoing]) -> list[tuple[str, str, list[str]]]:
    """Return of each message its range, and the key texts of its groups."""
    return [(one.after, one.up_to, [state.key for state in one.states]) for _, one in messages]


def test_a_snapshot_has_the_groups_of_the_loaded_records() -> None:
    """A deleted record is none of them. No event is taken until the snapshot is sent."""
    source = SourceModel(0)
    source.write(b"1", NORTH)
    source.write(b"2", SOUTH)
    source.write(b"2", None)
    partition = owner(source).partition
    assert partition.is_sending_snapshot
    assert partition.flush(also_idle=True) == []
    (message,) = partition.take_snapshot(9)
    assert (message.message.is_snapshot, message.message.ends) == (True, True)
    assert shown([message]) == [("2", "2", ['["north"]'])]
    assert not partition.is_sending_snapshot


def test_a_large_snapshot_is_sent_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn sends a limited number of messages. One that fills its turn may have been the last."""
    monkeypatch.setattr(outgoing, "STATES_MAX", 1)
    source = SourceModel(0)
    for number in range(3):
        source.write(b"%d" % number, {"region": str(number)})
    partition = owner(source).partition
    turns = []
    while partition.is_sending_snapshot:
        turns.append([len(message.states) for _, message in partition.take_snapshot(2)])
    assert [len(turn) for turn in turns] in ([2, 1], [2, 2, 0])
    assert sum(sum(turn) for turn in turns) == 3


def test_a_change_is_in_the_next_message() -> None:
    """Up to the position of the newest event, also one that changes nothing."""
    source = SourceModel(0)
    one = owner(source)
    one.partition.take_snapshot(9)
    source.write(b"1", NORTH)
    source.report(Position(0, 5))
    one.take(9)
    assert list(one.produced) == []
    assert shown(one.partition.flush(also_idle=False)) == [("-1", "5", ['["north"]'])]
    assert one.partition.flush(also_idle=True) == []


def test_a_group_that_changes_again_ends_the_message_before() -> None:
    """`take` returns it, whether or not its caller reads on."""
    source = SourceModel(0)
    one = owner(source)
    one.partition.take_snapshot(9)
    source.write(b"1", NORTH)
    source.write(b"2", NORTH)
    one.take(9)
    assert shown(list(one.produced)) == [("-1", "0", ['["north"]'])]


def test_a_repeat_makes_no_message() -> None:
    """A stalled owner of the source has written it again."""
    source = SourceModel(0)
    source.write(b"1", NORTH)
    one = owner(source)
    one.partition.take_snapshot(9)
    assert one.partition.take(source.changes[0], source.end) == ()
    assert one.partition.flush(also_idle=False) == []


def test_a_gap_stops_the_partition() -> None:
    """Its runner loads it again."""
    source = SourceModel(0)
    one = owner(source)
    one.partition.take_snapshot(9)
    for number in range(3):
        source.write(b"%d" % number, NORTH)
    with pytest.raises(ChangesMissing, match="partition 0"):
        one.partition.take(source.changes[2], source.end)


def test_a_large_state_is_reported_once() -> None:
    """Before the load has ended, there is none."""
    reader = ChangesReader("", 1e9)
    topic = defined({**TOTALS, "record_bytes_max": 400}, 1, 1)
    assert SourcePartition(topic, 0, 1, reader).take_large_state() is None
    source = SourceModel(0)
    one = owner(source, record_bytes_max=400)
    one.partition.take_snapshot(9)
    source.write(b"1", {"region": "n" * 60})
    one.take(1)
    large = one.partition.take_large_state()
    assert isinstance(large, LargeState)
    assert large.bytes_max == 400
    assert one.partition.take_large_state() is None


def test_a_partition_that_is_still_loading_has_nothing_to_send() -> None:
    """Nor are its records joined again: they are joined at the end of the load, with the tables of that moment."""
    joins = Joins(TOPICS, "labeled")
    reader = ChangesReader("", 1)
    reader.aim(9, 0)
    tables, log = joins.processes[0].tables, joins.source.topic.log
    one = SourcePartition(joins.view, 0, 2, reader, tables, 9, log)
    joins.change("customers", {"id": "1", "desk": "a", "tier": 7}, is_deleted=False)
    event = joins.processes[0].waiting[0]
    assert (one.concerned(event), one.take_out(event, [b"1"])) == ([], [])
    one.take_in(event, [])
    assert (one.end_joined(event), one.flush(also_idle=True)) == ((), [])
    one.close()


def test_a_view_without_joins_concerns_no_joined_record() -> None:
    """It has no records of the source to join again."""
    joins = Joins(TOPICS, "labeled")
    joins.change("customers", {"id": "1", "desk": "a", "tier": 7}, is_deleted=False)
    event, partition = joins.processes[0].waiting[0], owner(SourceModel(0)).partition
    assert (partition.concerned(event), partition.take_out(event, [b"1"])) == ([], [])
    partition.take_in(event, [])
    assert partition.end_joined(event) == ()


def test_positions_of_a_view_with_joins_are_counts_of_the_owner() -> None:
    """The order in which changes of several topics arrive decides, and each owner has a generation of its own."""
    joins = Joins(TOPICS, "labeled")
    joins.change(SOURCE, order(1), is_deleted=False)
    joins.flush(also_idle=True)
    number = partition_of("1", 2)

    def reached() -> list[Position]:
        return [
            Position.parse(one.up_to) for sent in joins.messages for one in sent if one.partition == number
        ]

    first = reached()
    joins.take_over(number, 1)
    second = reached()
    assert {position.era for position in first} == {1}
    assert (max(second).era, max(second).offset) == (2, 1)


def test_an_owner_follows_once_its_load_is_whole() -> None:
    """The phase is the reader's: a progress event proves that nothing is missing."""
    reader = ChangesReader("", 1)
    reader.aim(1, 0)
    partition = SourcePartition(defined(TOTALS, 1, 1), 0, 1, reader)
    assert partition.take(Progress(Position(0, 4), Position(0, -1), 0, {}, "", "", 0, {}), 0) == ()
    assert reader.look(0) is Phase.COMPLETE
    reader.follow()
    partition.end_load()
    assert shown(partition.take_snapshot(9)) == [("4", "4", [])]
    partition.close()


def test_a_joined_record_of_many_goes_out_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step is a message of bounded size. Only the last one moves what the view reflects."""
    monkeypatch.setattr(outgoing, "STATES_MAX", 4)
    joins = Joins(TOPICS, "labeled")
    for id in range(30):
        joins.change(SOURCE, order(id), is_deleted=False)
    joins.flush(also_idle=True)
    before = [len(messages) for messages in joins.messages]
    joins.change("customers", {"id": "1", "desk": "a", "tier": 7}, is_deleted=False)
    joins.take_joined(0, 1)
    steps = [step for messages, n in zip(joins.messages, before, strict=True) for step in messages[n:]]
    assert all(len(step.states) <= 4 for step in steps)
    assert sum(len(step.states) for step in steps) == 30
    assert [step.taken != "" for step in steps] == [step.ends for step in steps]
    assert sum(step.ends for step in steps) == 4, "of two source partitions, for two partitions of the view"
    joins.settle()


def test_a_joined_record_of_many_is_taken_in_portions() -> None:
    """Others get a turn after each portion. The view gets the whole change at the end: no group has half of it."""
    joins = Joins(TOPICS, "labeled")
    for id in range(30):
        joins.change(SOURCE, order(id), is_deleted=False)
    joins.flush(also_idle=True)
    joins.change("customers", {"id": "1", "desk": "a", "tier": 7}, is_deleted=False)
    one = joins.processes[0]
    most = max(len(owner.concerned(one.waiting[0])) for owner in one.owners.values())
    turns = 0
    for _, messages in take_joined(one.waiting.popleft(), one.tables, one.owners.values(), 4):
        turns += 1
        joins.write(messages)
        joins.flush(also_idle=True)
    assert turns == (most - 1) // 4 + len(one.owners)
    joins.settle()


def test_a_partition_that_is_lost_in_a_turn_gets_nothing_more() -> None:
    """Its records are closed. Those of the other partitions are joined again, as the record is now."""
    joins = Joins(TOPICS, "labeled")
    for id in range(30):
        joins.change(SOURCE, order(id), is_deleted=False)
    joins.flush(also_idle=True)
    joins.change("customers", {"id": "1", "desk": "a", "tier": 7}, is_deleted=False)
    one = joins.processes[0]
    taking = take_joined(one.waiting.popleft(), one.tables, one.owners.values(), 1)
    assert next(taking)[1] == ()
    lost = one.owners.pop(0)
    lost.close()
    left = list(taking)
    assert lost not in [owner for owner, messages in left if messages]
    for _, messages in left:
        joins.write(messages)
    joins.take_over(0, 1)
    joins.settle()


def test_a_joined_change_that_touches_nothing_is_taken() -> None:
    """The view names its position, in all partitions; a message has only what has moved."""
    joins = Joins(TOPICS, "labeled")
    joins.flush(also_idle=True)
    joins.change("customers", {"id": "9", "desk": "a", "tier": 7}, is_deleted=False)
    joins.take_joined(0, 1)
    joins.flush(also_idle=False)
    before = [len(messages) for messages in joins.messages]
    joins.flush(also_idle=True)
    moved = [step for messages, n in zip(joins.messages, before, strict=True) for step in messages[n:]]
    assert [(step.partition, step.states) for step in moved] == [(0, []), (1, [])] * 2
    assert {step.taken for step in moved} == {"customers:1@0"}
    joins.settle()


def test_a_topic_joined_to_itself_is_taken_twice() -> None:
    """Its changes are in the view once the source partition and the joined topic have taken them."""
    joins = Joins(TOPICS, "parents")
    joins.change(SOURCE, order(1), is_deleted=False)
    joins.flush(also_idle=True)
    number = partition_of("1", 2)

    def taken() -> int:
        return parse_bookmark(joins.merged[0].checkpoint.taken[number])[SOURCE][number].offset

    assert taken() == -1
    joins.take_joined(0, 1)
    joins.flush(also_idle=True)
    assert taken() == 0
    joins.change(SOURCE, order(1, qty=5), is_deleted=False)
    joins.take_joined(0, 1)
    joins.flush(also_idle=True)
    assert taken() == 1
    joins.settle()
