"""The fold of a view: what messages of partial states do to the records of one of its partitions."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import orjson
import pytest

from sowline.changes.change import AGAIN, DELETED, Change
from sowline.changes.event import Event
from sowline.changes.partials import NO_STATE, Partials, PartialState
from sowline.changes.progress import PROGRESS_KEY, Progress
from sowline.commands.command import Headers, LogRecord
from sowline.config.topic_definition import define_topic
from sowline.config.topics import Topics
from sowline.model.limits import Limits, define_value
from sowline.model.position import Position, before_the_log
from sowline_materializer.core.applier import Applier
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import decode_record
from sowline_materializer.core.step import Step
from sowline_materializer.partition.changes_follower import ChangesFollower
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.partition import Partition, progress_of
from sowline_materializer.partition.state_reset import StateReset
from sowline_materializer.store.overlay import Overlay
from sowline_query_service.index.rows import Rows
from sowline_query_service.replica.partition_replica import PartitionReplica
from sowline_query_service.replica.plain_run import EventAtOffset
from sowline_views.core.outgoing import OutgoingPartials
from sowline_views.core.states import states_of
from tests.memory_store import MemoryStore
from tests.property.view_sources import SourceModel
from tests.property.view_world import defined
from tests.property.world import written

TOTALS: dict[str, Any] = {
    "grouping": ["/region"],
    "projection": ["SUM(/qty) AS /qty", "COUNT(1) AS /orders"],
}
NORTH, SOUTH = '["north"]', '["south"]'
COMMAND: Headers = [("sow.command", b"partials")]


class ViewCore:
    """Partition 0 of a view, one message after the other."""

    def __init__(self, sources: int = 1, **view: Any) -> None:
        self.definition = defined(view or TOTALS, sources, 1)
        self.store = MemoryStore()
        self.checkpoint = Checkpoint(
            limits=self.definition.limits, log_id="log", definition=self.definition.digest
        )
        self.changes: list[Change] = []

    def apply(self, *messages: Partials) -> Step:
        """Apply messages in one batch, and keep what they make."""
        start = self.checkpoint.next_offset
        return self.apply_records(
            *(LogRecord(start + n, 1000, None, one.encode(), COMMAND) for n, one in enumerate(messages))
        )

    def apply_records(self, *records: LogRecord) -> Step:
        """Apply records of the log."""
        view = Overlay(self.store)
        step = Applier(self.definition, 0, self.checkpoint, view).apply(records)
        pending = view.written(self.store.checksum())
        self.store.commit(pending.entries, pending.checksum, b"", pending.expiries)
        self.checkpoint = step.checkpoint
        self.changes += step.changes
        return step

    def write(self, value: bytes | None, command: str | None, key: bytes | None = None) -> Step:
        """Apply a record of the log that is no message of partial states."""
        headers: Headers = [] if command is None else [("sow.command", command.encode())]
        return self.apply_records(LogRecord(self.checkpoint.next_offset, 1000, key, value, headers))

    @property
    def records(self) -> dict[str, Any]:
        """The records by key text, parsed."""
        held = {key.decode(): decode_record(data) for key, data in self.store.scan()}
        return {key: orjson.loads(one.body) for key, one in held.items() if one.body is not None}

    @property
    def kept(self) -> list[str]:
        """The key texts of all entries, those of hidden records too."""
        return [key.decode() for key, _ in self.store.scan()]

    @property
    def reflected(self) -> dict[int, str]:
        """Up to where the view reflects each source partition."""
        return {source: str(position) for source, position in self.checkpoint.reflected.items()}


class Owner:
    """The owner of a source partition: it writes the messages that its changes make."""

    def __init__(self, core: ViewCore, number: int = 0, sources: int = 1) -> None:
        self.source = SourceModel(number)
        view = core.definition.view
        assert view is not None
        self._states = states_of(view, number)
        self._outgoing = OutgoingPartials(core.definition, number, sources, before_the_log())

    def snapshot(self) -> Partials:
        """Return a snapshot, in one message."""
        ((_, message),) = self._outgoing.write_snapshot(self._states.take_loaded())
        return message

    def write(self, **records: dict[str, Any] | None) -> Partials:
        """Write records to the source, or delete them (None); return the message with all that this does."""
        messages = []
        for key, body in records.items():
            change = self.source.write(key.encode(), body)
            assert change is not None
            messages += [*self._outgoing.take(change.position, self._states.change(change))]
        messages += self._outgoing.flush(also_idle=True)
        ((_, message),) = messages
        return message


def began(sources: int = 1, **view: Any) -> tuple[ViewCore, Owner]:
    """Return a view that reflects an empty source partition 0, and the owner of that."""
    core = ViewCore(sources, **view)
    owner = Owner(core, 0, sources)
    core.apply(owner.snapshot())
    return core, owner


def state(region: str, qty: int, orders: int) -> msgspec.Raw:
    """Return the state of a group of `TOTALS`."""
    exported = [f'["{region}"]', orders, [[orders, 0, qty, 0, 0, 0, 0], orders], None]
    return msgspec.Raw(orjson.dumps(exported))


def message(
    core: ViewCore,
    after: str,
    up_to: str,
    *states: tuple[str, str, msgspec.Raw],
    source: int = 0,
    is_snapshot: bool = False,
    ends: bool = True,
    taken: str = "",
) -> Partials:
    """Return a message with states, each as (position, key text, state)."""
    held = [PartialState(*one) for one in states]
    return Partials(core.definition.digest, source, after, up_to, held, is_snapshot, ends, taken)


def reasons(step: Step) -> list[str]:
    """Return why records were refused."""
    return [letter.reason for letter in step.dead]


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
    "held", [b"5", b"{}", b'["x"]', b'["[1]",1,[],null]', b"[5,1,[[1,0,1,0,0,0,0],1],null]"]
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


def test_a_message_that_was_cut_short_is_applied_to_its_end() -> None:
    """An owner dies within a message; the next one loads what was emitted, and makes the same rest."""
    whole, cut = began()[0], began()[0]
    states = [(str(n), f'["{n}"]', state(str(n), n, 1)) for n in range(3)]
    one = message(whole, "-1", "2", *states)
    expected = whole.apply(one).changes
    for emitted in range(3):
        store, changes = MemoryStore(), list(cut.changes)
        loader = ChangesLoader(store, cut.definition)
        loader.load([progress(cut), *changes, *expected[:emitted]])
        loader.finish()
        resumed = ViewCore()
        resumed.store, resumed.checkpoint = store, loader.checkpoint(0)
        assert resumed.reflected == {0: "-1"}
        assert resumed.checkpoint.next_offset == 1
        assert resumed.apply(one).changes == expected[emitted:]
        assert (resumed.records, resumed.reflected) == (whole.records, {0: "2"})


def progress(core: ViewCore) -> Progress:
    """Return the progress event of a view."""
    at = core.checkpoint
    return Progress(
        at.position,
        at.last_change,
        0,
        {},
        at.definition,
        at.log_id,
        at.time,
        {},
        at.limits,
        reflected=at.reflected,
    )


def partition_of(core: ViewCore, store: MemoryStore | None = None) -> Partition:
    """Return a partition of the materializer that has applied nothing, with an empty store."""
    begin = Checkpoint(limits=core.definition.limits, log_id="log", definition=core.definition.digest)
    return Partition(core.definition, 0, OpenedPartition(store or MemoryStore(), begin, begin.position))


def run(partition: Partition, *messages: Partials) -> list[Event]:
    """Apply and commit a batch; return its events."""
    start = partition.checkpoint.next_offset
    records = [LogRecord(start + n, 1000, None, one.encode(), COMMAND) for n, one in enumerate(messages)]
    prepared = partition.prepare(records, 100)
    partition.commit(prepared, 0)
    return prepared.events


def compacted(events: list[Event]) -> Iterator[Event]:
    """Yield the last event of each key, as they are read from Kafka."""
    messages = [written(at, event) for at, event in enumerate(events)]
    last = {message.name: message.at for message in messages}
    return (message.event for message in messages if message.at == last[message.name])


def test_a_load_knows_what_is_reflected() -> None:
    """Compaction removes the change that reported a source partition; the progress event behind it has them all."""
    core = ViewCore(2)
    partition = partition_of(core)
    begin = [message(core, "-1", "-1", is_snapshot=True, source=source) for source in (0, 1)]
    events = run(partition, *begin)
    events += run(
        partition,
        message(core, "-1", "5", ("5", NORTH, state("north", 5, 1)), source=0),
        message(core, "-1", "7", ("7", NORTH, state("north", 7, 1)), source=1),
    )
    assert [type(event) for event in events[-3:]] == [Change, Change, Progress]
    loader = ChangesLoader(MemoryStore(), core.definition)
    loader.load(list(compacted(events)))
    assert loader.checkpoint(0).reflected == {0: Position(0, 5), 1: Position(0, 7)}
    assert loader.checkpoint(0).reflected == partition.checkpoint.reflected


def test_a_load_knows_what_a_view_reflects() -> None:
    """So does a query service, which loads the last change and the progress event of the same position behind it."""
    core = ViewCore(2)
    partition = partition_of(core)
    events = run(
        partition, *(message(core, "-1", "-1", is_snapshot=True, source=source) for source in (0, 1))
    )
    events += run(
        partition,
        message(core, "-1", "5", ("5", NORTH, state("north", 5, 1)), source=0),
        message(core, "-1", "7", ("7", NORTH, state("north", 7, 1)), source=1),
    )
    replica = PartitionReplica(0, Rows(), ring_changes_max=5)
    replica.load(EventAtOffset(at, event) for at, event in enumerate(compacted(events)))
    assert replica.reflected == {0: Position(0, 5), 1: Position(0, 7)}


def test_every_reader_knows_what_was_taken_of_joined_topics() -> None:
    """Loads of all events, of compacted ones, and without the last progress event; a copy, and a query service."""
    core = ViewCore(2)
    partition = partition_of(core)
    begin = [
        message(core, "1/1", "1/1", is_snapshot=True, source=source, taken=f"orders:{source}@1;customers:0@3")
        for source in (0, 1)
    ]
    events = run(partition, *begin)
    states = ("1/2", NORTH, state("north", 5, 1))
    events += run(partition, message(core, "1/1", "1/2", states, source=1, taken="customers:0@8"))
    expected = {0: "orders:0@1;customers:0@3", 1: "orders:1@1;customers:0@8"}
    assert partition.checkpoint.taken == expected
    assert Checkpoint.decode(partition.checkpoint.encode()).taken == expected
    for loaded in (events, list(compacted(events)), events[:-1]):
        loader = ChangesLoader(MemoryStore(), core.definition)
        loader.load(loaded)
        assert loader.checkpoint(0).taken == expected
        replica = PartitionReplica(0, Rows(), ring_changes_max=5)
        replica.load(EventAtOffset(at, event) for at, event in enumerate(loaded))
        assert replica.taken == expected
    restored = PartitionReplica(0, Rows(), ring_changes_max=5)
    assert replica.head is not None
    restored.restore(replica.head, [])
    assert (restored.reflected, restored.taken) == (replica.reflected, expected)
    copied = ChangesLoader(MemoryStore(), core.definition)
    copied.load(events[:1])
    follower = ChangesFollower(core.definition, MemoryStore(), copied.checkpoint(1), [])
    for event in events[1:]:
        follower.follow([event], 9)
    assert follower.checkpoint.taken == expected


def test_a_group_written_again_keeps_its_states() -> None:
    """A stale owner has written old events of a shown group and of a hidden one."""
    core = ViewCore(having="/qty > 1", **TOTALS)
    held = MemoryStore()
    partition = partition_of(core, held)
    run(
        partition,
        message(core, "-1", "-1", is_snapshot=True),
        message(core, "-1", "5", ("4", NORTH, state("north", 5, 1)), ("5", SOUTH, state("south", 1, 1))),
    )
    partition.mark_stale([NORTH.encode(), SOUTH.encode(), PROGRESS_KEY], 10)
    events = [event for batch in partition.repair(2) for event in batch]
    assert [event.op for event in events if isinstance(event, Change)] == [AGAIN, AGAIN]
    store = MemoryStore()
    loader = ChangesLoader(store, core.definition)
    loader.load(list(compacted(events)))
    loader.finish()
    loaded = ViewCore(having="/qty > 1", **TOTALS)
    loaded.store, loaded.checkpoint = store, loader.checkpoint(0)
    assert (list(loaded.records), loaded.kept) == ([NORTH], [NORTH, SOUTH])
    assert [decode_record(data).states for _, data in loaded.store.scan()] == [
        decode_record(data).states for _, data in held.scan()
    ]


def test_a_view_that_is_rebuilt() -> None:
    """Its era begins without records, without hidden groups, and reflects nothing: all messages count again."""
    core = ViewCore(having="/qty > 1", **TOTALS)
    held = MemoryStore()
    partition = partition_of(core, held)
    messages = [
        message(core, "-1", "-1", is_snapshot=True, taken="orders:0@1"),
        message(core, "-1", "5", ("4", NORTH, state("north", 5, 1)), ("5", SOUTH, state("south", 1, 1))),
    ]
    events = run(partition, *messages)
    begun = StateReset.begun(partition.checkpoint, "log", 0)
    ends = [change for batch in begun.ends(held) for change in batch]
    assert [(one.sow_key.decode(), one.body, one.reason, one.last) for one in ends] == [
        (NORTH, None, DELETED, False),
        (SOUTH, None, DELETED, True),
    ]
    done = begun.done(100)
    store = MemoryStore()
    loader = ChangesLoader(store, core.definition)
    loader.load([*events, *ends, progress_of(done, 100, {})])
    loader.finish()
    assert (list(store.scan()), loader.checkpoint(0).reflected, loader.checkpoint(0).taken) == ([], {}, {})
    assert loader.checkpoint(0).position == done.position == Position(1, -1, 1)
    loaded = Partition(core.definition, 0, OpenedPartition(store, done, done.position))
    run(loaded, *messages)
    assert loaded.checkpoint.reflected == partition.checkpoint.reflected
    assert [key for key, _ in store.scan()] == [NORTH.encode(), SOUTH.encode()]


@pytest.mark.parametrize("written", [1, 2])
def test_a_rebuild_that_is_interrupted_reflects_nothing(written: int) -> None:
    """The progress event that begins its era is not written yet; that of the era before does not count."""
    core = ViewCore()
    held = MemoryStore()
    partition = partition_of(core, held)
    events = run(
        partition,
        message(core, "-1", "-1", is_snapshot=True),
        message(core, "-1", "5", ("4", NORTH, state("north", 5, 1)), ("5", SOUTH, state("south", 1, 1))),
    )
    (ends,) = StateReset.begun(partition.checkpoint, "log", 0).ends(held)
    loader = ChangesLoader(MemoryStore(), core.definition)
    loader.load([*events, *ends[:written]])
    assert loader.checkpoint(0).reflected == {}


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
            states = list(above._outgoing.take(change.position, above._states.change(change)))
            assert states == []
            second.apply(*(message for _, message in above._outgoing.flush(also_idle=True)))

    pass_on(owner.write(one={"region": "north", "qty": 5}))
    pass_on(owner.write(two={"region": "south", "qty": 7}))
    assert second.records == {"[null]": {"all": None, "regions": 2, "most": 7}}
    pass_on(owner.write(two={"region": "south", "qty": 700}))
    assert second.records == {"[null]": {"all": None, "regions": 1, "most": 5}}
    assert second.reflected == {0: "3"}
    pass_on(owner.write(one=None))
    assert (second.records, second.reflected) == ({}, {0: "4"})


# with an accelerator


class StandInAccelerator:
    """Notes what it is asked to merge and to write. tests/property/test_native_views.py compares the real one."""

    def __init__(self, groups: int | None) -> None:
        self.groups = groups
        """How many groups it merges; None if only Python can."""
        self.asked: list[Any] = []

    def apply(self, records: Sequence[LogRecord], start: int, state: Any) -> int:
        """Apply none of the log records."""
        return start

    def merge_states(self, states: bytes, source: int, reached: Position, state: Any) -> int | None:
        """Return the number of groups."""
        self.asked.append(("merge", states, source, reached))
        return self.groups

    def write_states(self, state: Any, reflects: Any, taken: str | None) -> None:
        """Write nothing."""
        self.asked.append(("write", reflects, taken))


def apply_with(accelerator: StandInAccelerator, core: ViewCore, value: bytes, headers: Headers) -> Step:
    """Apply one message with an accelerator."""
    overlay = Overlay(core.store)
    record = LogRecord(core.checkpoint.next_offset, 1000, None, value, headers)
    return Applier(core.definition, 0, core.checkpoint, overlay, accelerator).apply([record])


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
