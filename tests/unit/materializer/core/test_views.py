"""The fold of a view: what messages of partial states do to the records of one of its partitions."""

from typing import Any

import msgspec
import orjson
import pytest

from sowline.changes.change import DELETED
from sowline.changes.partials import NO_STATE, Partials
from sowline.commands.command import Headers, LogRecord
from sowline.config.topic_definition import define_topic
from sowline.config.topics import Topics
from sowline.model.limits import Limits, define_value
from sowline.model.position import Position
from sowline_materializer.core.applier import Applier
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.store.overlay import Overlay
from tests.memory_store import MemoryStore
from tests.unit.materializer.core.view_log import (
    COMMAND,
    NORTH,
    SOUTH,
    TOTALS,
    Owner,
    StandInAccelerator,
    ViewCore,
    apply_with,
    began,
    message,
    reasons,
    state,
)


def test_a_group_is_a_record() -> None:
    """Its key text are the values that it is grouped by; they are in the record, with the projection."""
    core, owner = began()
    step = core.apply(owner.write(one={"region": "north", "qty": 5}))
    (change,) = step.changes
    assert (change.sow_key, change.op, change.previous) == (NORTH.encode(), "partials", None)
    assert core.records == {NORTH: {"region": "north", "qty": 5, "orders": 1}}
    assert (change.reflects, core.reflected) == ((0, Position(0, 0)), {0: "0"})
    assert core.checkpoint.records == 1


def test_states_of_all_source_partitions_are_merged() -> None:
    """The newest state from each of them counts."""
    core, owner = began(2)
    other = Owner(core, 1, 2)
    core.apply(other.snapshot(), owner.write(one={"region": "north", "qty": 5}))
    core.apply(other.write(two={"region": "north", "qty": 2}))
    assert core.records == {NORTH: {"region": "north", "qty": 7, "orders": 2}}
    core.apply(owner.write(one={"region": "north", "qty": 1}))
    assert core.records == {NORTH: {"region": "north", "qty": 3, "orders": 2}}
    assert core.reflected == {0: "1", 1: "0"}


def test_a_record_that_moves_changes_two_groups() -> None:
    """Both changes are of one message: only the last one reports what is reflected."""
    core, owner = began()
    core.apply(owner.write(one={"region": "north", "qty": 5}))
    step = core.apply(owner.write(one={"region": "south", "qty": 5}))
    assert [(one.sow_key.decode(), one.last, one.reflects) for one in step.changes] == [
        (NORTH, False, None),
        (SOUTH, True, (0, Position(0, 1))),
    ]
    assert list(core.records) == [SOUTH]


def test_a_group_that_loses_its_last_record_is_deleted() -> None:
    """The reason is `deleted`, and nothing is kept of it."""
    core, owner = began()
    core.apply(owner.write(one={"region": "north"}))
    (change,) = core.apply(owner.write(one=None)).changes
    assert (change.body, change.value, change.reason, change.key_text) == (None, None, DELETED, NORTH)
    assert (core.kept, core.checkpoint.records) == ([], 0)


def test_a_group_stays_while_one_source_partition_has_records() -> None:
    """Its record loses what the other one had."""
    core, owner = began(2)
    other = Owner(core, 1, 2)
    core.apply(other.snapshot(), other.write(two={"region": "north", "qty": 2}))
    core.apply(owner.write(one={"region": "north", "qty": 5}))
    core.apply(other.write(two=None))
    assert core.records == {NORTH: {"region": "north", "qty": 5, "orders": 1}}


def test_null_is_a_group_of_its_own() -> None:
    """A record without the field belongs to it."""
    core, owner = began()
    core.apply(owner.write(one={"qty": 1}))
    assert core.records == {"[null]": {"region": None, "qty": 1, "orders": 1}}


def test_a_group_with_long_values_has_a_hash_for_its_key() -> None:
    """The values are in the record."""
    core, owner = began()
    core.apply(owner.write(one={"region": "n" * 300}))
    ((key, body),) = core.records.items()
    assert key.startswith("#")
    assert body["region"] == "n" * 300


def test_having_hides_and_shows_groups() -> None:
    """A group that it does not match is no record, but its states are kept."""
    core, owner = began(having="/orders > 1", **TOTALS)
    (hidden,) = core.apply(owner.write(one={"region": "north", "qty": 1})).changes
    assert (hidden.body, hidden.value, hidden.previous, hidden.reason) == (None, b"", None, None)
    assert (core.records, core.kept, core.checkpoint.records) == ({}, [NORTH], 1)
    core.apply(owner.write(two={"region": "north", "qty": 2}))
    assert core.records == {NORTH: {"region": "north", "qty": 3, "orders": 2}}
    (gone,) = core.apply(owner.write(two=None)).changes
    assert (gone.body, gone.value, gone.reason) == (None, b"", DELETED)
    assert (core.records, core.kept, core.checkpoint.records) == ({}, [NORTH], 1)
    core.apply(owner.write(one=None))
    assert core.kept == []


def test_a_view_without_groups_has_the_records_of_its_source() -> None:
    """Those that match its filter, as they are."""
    core, owner = began(filter="/qty > 1")
    core.apply(owner.write(one={"qty": 1, "note": "x"}))
    assert core.records == {}
    core.apply(owner.write(one={"qty": 2, "note": "x"}))
    assert core.records == {"one": {"qty": 2, "note": "x"}}
    (change,) = core.apply(owner.write(one=None)).changes
    assert (change.reason, core.kept) == (DELETED, [])


def test_a_view_without_groups_may_have_a_projection() -> None:
    """Each record has the fields of it."""
    core, owner = began(projection=["/qty", "/at/region AS /region"], having="/qty IS NOT NULL")
    core.apply(owner.write(one={"qty": 2, "at": {"region": "north"}}))
    assert core.records == {"one": {"qty": 2, "region": "north"}}
    core.apply(owner.write(one={"at": {"region": "north"}}))
    assert core.records == {}


def test_a_repeated_message_changes_nothing() -> None:
    """Nor does an older one: of the same group or of one that is gone."""
    core, owner = began()
    first = owner.write(one={"region": "north", "qty": 5})
    second = owner.write(one={"region": "north", "qty": 6})
    third = owner.write(one=None)
    core.apply(first, second, third)
    step = core.apply(second, first, third)
    assert (step.changes, step.outcomes) == ([], {"4": "repeat", "5": "repeat", "6": "repeat"})
    assert (core.records, core.reflected) == ({}, {0: "2"})


def test_of_an_overlapping_message_only_what_is_newer_counts() -> None:
    """Another owner has other ranges."""
    core, _ = began()
    core.apply(
        message(core, "-1", "5", ("3", NORTH, state("north", 3, 1)), ("5", SOUTH, state("south", 5, 1)))
    )
    (change,) = core.apply(
        message(core, "2", "7", ("3", NORTH, state("north", 9, 9)), ("7", SOUTH, state("south", 7, 1)))
    ).changes
    assert change.sow_key == SOUTH.encode()
    assert {key: body["qty"] for key, body in core.records.items()} == {NORTH: 3, SOUTH: 7}


def test_a_message_without_states_reports_a_position() -> None:
    """It moves what is reflected, and changes nothing."""
    core, _ = began()
    step = core.apply(message(core, "-1", "7"))
    assert (step.changes, step.outcomes, core.reflected) == ([], {}, {0: "7"})


def test_missing_messages_are_refused_until_a_snapshot_comes() -> None:
    """Without the messages between, the view would be of no position of its source."""
    core = ViewCore()
    assert reasons(core.apply(message(core, "-1", "5"))) == ["partials missing"]
    core.apply(message(core, "7", "7", is_snapshot=True))
    step = core.apply(message(core, "8", "9", ("9", NORTH, state("north", 9, 1))))
    assert (reasons(step), core.records, core.reflected) == (["partials missing"], {}, {0: "7"})
    assert "from 7 on, got those after 8" in step.dead[0].message
    core.apply(message(core, "7", "9", ("9", NORTH, state("north", 9, 1))))
    assert core.reflected == {0: "9"}


def test_a_message_by_another_definition_is_passed_over() -> None:
    """An owner with another version of topics.yaml computes something else."""
    core, _ = began()
    other = msgspec.structs.replace(message(core, "-1", "5"), definition="another")
    step = core.apply(other)
    assert (step.dead, step.outcomes, core.reflected) == ([], {"1": "other definition"}, {0: "-1"})


@pytest.mark.parametrize(
    ("value", "command", "reason"),
    [
        (b'{"region":"north"}', None, "view"),
        (b'{"region":"north"}', "delta_publish", "view"),
        (b"[]", "delta", "view"),
        (None, "sow_delete", "view"),
        (b"{", "partials", "bad message"),
        (None, "partials", "bad message"),
        (b'{"definition":1}', "partials", "bad message"),
        (b"{}", "upsert", "bad header"),
    ],
)
def test_nothing_but_messages_of_owners_is_in_the_log_of_a_view(
    value: bytes | None, command: str | None, reason: str
) -> None:
    """A publish is a dead letter: records of a view are computed."""
    core, owner = began()
    core.apply(owner.write(one={"region": "north", "qty": 5}))
    step = core.write(value, command, NORTH.encode())
    assert reasons(step) == [reason]
    assert core.records == {NORTH: {"region": "north", "qty": 5, "orders": 1}}


def test_partial_states_are_refused_in_other_topics() -> None:
    """The log of a topic has records."""
    definition = define_topic(name="orders", key="/id")
    checkpoint = Checkpoint(limits=definition.limits, log_id="log")
    step = Applier(definition, 0, checkpoint, Overlay(MemoryStore())).apply(
        [LogRecord(0, 1, None, b"{}", COMMAND)]
    )
    assert reasons(step) == ["bad header"]


@pytest.mark.parametrize(
    "held",
    [
        b"5",
        b"{}",
        b'["x"]',
        b'["[1]",1,[],null]',
        b"[5,1,[[1,0,1,0,0,0,0],1],null]",
        *(b'["[\\"north\\"]",%d,[[1,0,1,0,0,0,0],1],null]' % records for records in (-1, 0)),
    ],
)
def test_a_state_that_can_not_be_read_is_refused(held: bytes) -> None:
    """The whole message is, and the partition goes on."""
    core, owner = began()
    good = owner.write(one={"region": "north", "qty": 5})
    bad = message(core, "-1", "0", ("0", SOUTH, state("south", 1, 1)), ("0", NORTH, msgspec.Raw(held)))
    assert reasons(core.apply(bad)) == ["bad message"]
    assert (core.records, core.reflected) == ({}, {0: "-1"})
    core.apply(good)
    assert list(core.records) == [NORTH]


def test_a_record_that_is_no_object_is_refused() -> None:
    """In a view without groups, a state is a record."""
    core, _ = began(filter="1=1")
    assert reasons(core.apply(message(core, "-1", "0", ("0", "1", msgspec.Raw(b"5"))))) == ["bad message"]


def test_a_group_that_is_too_large_is_hidden_until_it_fits() -> None:
    """Its states count on."""
    core, owner = began(
        record_bytes_max=150,
        grouping=["/region"],
        projection=["GROUP_CONCAT(/note) AS /notes", "COUNT(1) AS /n"],
    )
    core.apply(owner.write(one={"region": "north", "note": "a" * 50}))
    core.write(define_value(core.definition.limits, Limits(record_bytes_max=100)), "define")
    step = core.apply(owner.write(two={"region": "north", "note": "b" * 20}))
    assert reasons(step) == ["too large"]
    assert f"group {NORTH}" in step.dead[0].message
    assert (core.records, core.kept, core.reflected) == ({}, [NORTH], {0: "1"})
    core.apply(owner.write(one=None))
    assert core.records == {NORTH: {"region": "north", "notes": "b" * 20, "n": 1}}


def test_a_snapshot_replaces_all_states_of_its_source_partition() -> None:
    """A group that it does not have has no records there any more."""
    core, _ = began(2)
    core.apply(
        message(core, "-1", "-1", is_snapshot=True, source=1),
        message(core, "-1", "3", ("3", NORTH, state("north", 3, 1)), source=1),
        message(core, "-1", "4", ("3", NORTH, state("north", 4, 1)), ("4", SOUTH, state("south", 4, 1))),
    )
    step = core.apply(message(core, "9", "9", ("9", '["west"]', state("west", 9, 1)), is_snapshot=True))
    assert {key: body["qty"] for key, body in core.records.items()} == {NORTH: 3, '["west"]': 9}
    assert [one.reflects for one in step.changes] == [None, None, (0, Position(0, 9))]
    assert core.reflected == {0: "9", 1: "3"}


def test_a_snapshot_is_reflected_at_its_end() -> None:
    """Before its last message, groups are of different positions."""
    core, _ = began()
    core.apply(message(core, "-1", "4", ("4", SOUTH, state("south", 4, 1))))
    core.apply(message(core, "9", "9", ("9", NORTH, state("north", 9, 1)), is_snapshot=True, ends=False))
    assert (list(core.records), core.reflected) == ([NORTH, SOUTH], {0: "4"})
    core.apply(message(core, "9", "9", is_snapshot=True))
    assert (list(core.records), core.reflected) == ([NORTH], {0: "9"})


def test_what_is_taken_of_joined_topics_moves_with_the_states() -> None:
    """A message has what has moved, a snapshot has all. What does not count moves nothing."""
    core, _ = began()
    core.apply(message(core, "1/1", "1/1", is_snapshot=True, taken="orders:0@5;customers:0@3,1@4"))
    assert core.checkpoint.taken == {0: "orders:0@5;customers:0@3,1@4"}
    north = ("1/2", NORTH, state("north", 3, 1))
    (change,) = core.apply(message(core, "1/1", "1/2", north, taken="customers:1@9")).changes
    assert change.taken == core.checkpoint.taken[0] == "orders:0@5;customers:0@3,1@9"
    core.apply(message(core, "1/1", "1/2", north, taken="customers:1@12"))
    core.apply(message(core, "2/1", "2/1", is_snapshot=True, ends=False))
    assert core.checkpoint.taken == {0: "orders:0@5;customers:0@3,1@9"}
    (gone,) = core.apply(
        message(core, "2/1", "2/1", is_snapshot=True, taken="orders:0@6;customers:0@3")
    ).changes
    assert gone.taken == core.checkpoint.taken[0] == "orders:0@6;customers:0@3"


def test_positions_that_can_not_be_read_are_refused() -> None:
    """The whole message is, and the partition goes on."""
    core, _ = began()
    assert reasons(core.apply(message(core, "-1", "7", taken="customers"))) == ["bad message"]
    assert (core.reflected, core.checkpoint.taken) == ({0: "-1"}, {})


def test_a_snapshot_that_is_older_changes_nothing() -> None:
    """A stalled owner wakes and writes the rest of its snapshot."""
    core, _ = began()
    core.apply(message(core, "-1", "9", ("9", NORTH, state("north", 9, 1))))
    step = core.apply(message(core, "5", "5", is_snapshot=True))
    assert (step.outcomes, list(core.records), core.reflected) == ({"2": "repeat"}, [NORTH], {0: "9"})


def test_a_late_owner_does_not_undo_a_snapshot() -> None:
    """[snapshot at 9 begins, states of 4 by a stalled owner, the snapshot ends]: those of the snapshot count."""
    core, _ = began()
    core.apply(
        message(core, "-1", "3", ("3", SOUTH, state("south", 3, 1))),
        message(core, "9", "9", ("9", NORTH, state("north", 9, 1)), is_snapshot=True, ends=False),
        message(core, "3", "4", ("4", NORTH, state("north", 4, 1)), ("4", SOUTH, NO_STATE)),
    )
    assert (core.records[NORTH]["qty"], core.reflected) == (9, {0: "4"})
    core.apply(message(core, "4", "5", ("5", NORTH, NO_STATE)))
    core.apply(message(core, "9", "9", ("9", '["west"]', state("west", 9, 1)), is_snapshot=True))
    assert {key: body["qty"] for key, body in core.records.items()} == {NORTH: 9, '["west"]': 9}
    assert core.reflected == {0: "9"}


def test_a_view_may_read_a_view() -> None:
    """The positions of its source are those of the view's log; what the source hides is deleted here."""
    topics = Topics.model_validate(
        {
            "topics": [{"name": "orders", "key": "/id"}],
            "views": [
                {
                    "name": "many",
                    "from": "view",
                    "projection": ["COUNT(1) AS /regions", "MAX(/qty) AS /most"],
                    "grouping": ["/all"],
                },
                {"name": "view", "from": "orders", "having": "/orders > 0 AND /qty < 100", **TOTALS},
            ],
        }
    )
    first, second = ViewCore(), ViewCore()
    first.definition, second.definition = topics.named("view"), topics.named("many")
    owner, above = Owner(first), Owner(second)
    first.apply(owner.snapshot())
    second.apply(above.snapshot())

    def pass_on(one: Partials) -> None:
        for change in first.apply(one).changes:
            states = list(above.outgoing.take(change.position, above.states.change(change)))
            assert states == []
            second.apply(*(message for _, message in above.outgoing.flush(also_idle=True)))

    pass_on(owner.write(one={"region": "north", "qty": 5}))
    pass_on(owner.write(two={"region": "south", "qty": 7}))
    assert second.records == {"[null]": {"all": None, "regions": 2, "most": 7}}
    pass_on(owner.write(two={"region": "south", "qty": 700}))
    assert second.records == {"[null]": {"all": None, "regions": 1, "most": 5}}
    assert second.reflected == {0: "3"}
    pass_on(owner.write(one=None))
    assert (second.records, second.reflected) == ({}, {0: "4"})


@pytest.mark.parametrize("ends", [True, False])
def test_plain_states_are_merged_by_the_accelerator(ends: bool) -> None:
    """It writes the groups. Only the last part of a message moves what is reflected, and what is taken."""
    core, _ = began()
    accelerator = StandInAccelerator(groups=1)
    north = ("5", NORTH, state("north", 3, 1))
    one = message(core, "-1", "5", north, ends=ends, taken="orders:0@5" if ends else "")
    step = apply_with(accelerator, core, one.encode(), COMMAND)
    merge, write = accelerator.asked
    assert (merge[0], merge[2:]) == ("merge", (0, Position(0, -1)))
    assert orjson.loads(merge[1])[0][:2] == ["5", NORTH]
    assert write == ("write", (0, Position(0, 5)) if ends else None, "orders:0@5" if ends else None)
    assert step.checkpoint.reflected == {0: Position(0, 5 if ends else -1)}


def test_a_message_that_changes_no_group_is_reflected() -> None:
    """The accelerator has nothing to write; the position is reported without a change."""
    core, _ = began()
    accelerator = StandInAccelerator(groups=0)
    step = apply_with(accelerator, core, message(core, "-1", "5").encode(), COMMAND)
    assert [one[0] for one in accelerator.asked] == ["merge"]
    assert (step.changes, step.checkpoint.reflected) == ([], {0: Position(0, 5)})


def test_python_merges_what_the_accelerator_can_not() -> None:
    """It was asked, and has done nothing."""
    core, _ = began()
    accelerator = StandInAccelerator(groups=None)
    one = message(core, "-1", "5", ("5", NORTH, state("north", 3, 1)))
    (change,) = apply_with(accelerator, core, one.encode(), COMMAND).changes
    assert [one[0] for one in accelerator.asked] == ["merge"]
    assert orjson.loads(change.body or b"") == {"region": "north", "qty": 3, "orders": 1}


@pytest.mark.parametrize(
    ("change", "headers", "expected"),
    [
        ({"is_snapshot": True}, COMMAND, "change"),
        ({}, [*COMMAND, ("traceparent", b"x")], "change"),
        ({"definition": "another"}, COMMAND, "other definition"),
        ({"up_to": "-1"}, COMMAND, "repeat"),
        ({"after": "7", "up_to": "9"}, COMMAND, "dead:partials missing"),
        ({"up_to": "x"}, COMMAND, "dead:invalid bookmark"),
        ({"taken": "customers"}, COMMAND, "dead:bad message"),
    ],
    ids=lambda part: str(part)[:30],
)
def test_other_messages_are_left_to_python(change: dict[str, Any], headers: Headers, expected: str) -> None:
    """A snapshot, one with a trace, one that does not count, and one that is refused."""
    core, _ = began()
    accelerator = StandInAccelerator(groups=1)
    one = message(core, "-1", "5", ("5", NORTH, state("north", 3, 1)))
    value = msgspec.structs.replace(one, **change).encode()
    step = apply_with(accelerator, core, value, headers)
    assert accelerator.asked == []
    found = [*step.outcomes.values(), *("change" for _ in step.changes)]
    assert found == [expected]


def test_a_value_that_is_no_message_is_left_to_python() -> None:
    """It refuses it."""
    core, _ = began()
    accelerator = StandInAccelerator(groups=1)
    assert reasons(apply_with(accelerator, core, b"{", COMMAND)) == ["bad message"]
    assert accelerator.asked == []
