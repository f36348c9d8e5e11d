"""The records of a source, joined: which rows they make, which records a joined record concerns, and the limit."""

from typing import Any

import orjson
import pytest

from sowline.changes.change import Change
from sowline.config.topics import Topics, parse_topics
from sowline.errors import SowlineError
from sowline.model.key import partition_of
from sowline.model.position import Position
from sowline_views.core.joined_tables import JoinedEvent, JoinedTables, joined_table
from sowline_views.core.joins import JoinedStates
from sowline_views.core.native_groups import native_states
from sowline_views.core.spilling import SpillSpace
from sowline_views.core.states import StateChange
from tests.property import join_steps
from tests.property.join_steps import customer, order, step
from tests.property.join_world import SOURCE, Joins
from tests.property.spill_disks import DictDisk
from tests.unit.views.core.native_stand_ins import StandInCore, StandInGroups

TOPICS = parse_topics("""
topics:
  - {name: orders, key: /id}
  - {name: customers, key: /id}
views:
  - name: named
    from: orders
    join: [{topic: customers, on: /customer = /id, as: c}]
    projection: [/id, /c/name AS /name]
  - name: members
    from: orders
    join: [{topic: customers, on: /customer = /id, as: c, kind: inner}]
    projection: [/id, /c/name AS /name]
  - name: many
    from: orders
    join: [{topic: customers, on: /desk = /desk, as: c, multiply: true}]
    projection: [/id, /c/name AS /name]
  - name: twice
    from: orders
    join:
      - {topic: customers, on: /customer = /id, as: c}
      - {topic: customers, on: /desk = /desk, as: d, multiply: true}
    projection: [/id, /c/name AS /name, /d/name AS /other]
  - name: totals
    from: orders
    join: [{topic: customers, on: /customer = /id, as: c}]
    grouping: [/c/desk]
    projection: [COUNT(1) AS /orders]
  - name: inner
    from: orders
    join: [{topic: customers, on: /customer = /id, as: c, kind: inner}]
    grouping: [/c/desk]
    projection: [COUNT(1) AS /orders]
""")
ANN = {"name": "Ann", "desk": "a"}
BEN = {"name": "Ben", "desk": "a"}


def sow_key(id: str) -> bytes:
    """Return the SOW key of a customer."""
    return TOPICS.named("customers").key_rule.sow_key(id)


class Joined:
    """The states of a view with joins, and its joined topics."""

    def __init__(
        self, view: str, topics: Topics = TOPICS, native: Any = None, space: SpillSpace | None = None
    ) -> None:
        computed, space = topics.named(view).view, SpillSpace() if space is None else space
        assert computed is not None
        tables = [joined_table(join, topics.named(join.topic), space) for join in computed.joins]
        self.tables = JoinedTables(tables)
        self.states = JoinedStates(self.tables, native_states(computed, 0, native, tables))
        self._offset = -1

    def changed(self, key: bytes, body: dict[str, Any] | None) -> Change:
        """Return the next change of the source."""
        self._offset += 1
        text = None if body is None else orjson.dumps(body)
        position = Position(0, self._offset)
        return Change(key, text, None, position, position, "publish", 1)

    def order(self, key: bytes, body: dict[str, Any] | None) -> dict[str, Any]:
        """Write an order; return the changed states by key text."""
        return parsed(self.states.change(self.changed(key, body)))

    def event(self, id: str, body: dict[str, Any] | None) -> JoinedEvent:
        """Return the event that writes a customer."""
        change = self.changed(sow_key(id), body)
        return JoinedEvent("customers", 0, change.position, change)

    def customer(self, id: str, body: dict[str, Any] | None) -> dict[str, Any]:
        """Write a customer; return the changed states by key text."""
        event = self.event(id, body)
        taken_out = self.states.take_out(event, self.states.concerned(event))
        self.tables.put(event)
        return parsed(self.states.take_in(event, taken_out))


def parsed(changes: Any) -> dict[str, Any]:
    """Return states by key text."""
    return {one.key: one.state and orjson.loads(one.state) for one in changes}


@pytest.fixture(params=["memory", "disk"])
def space(request: pytest.FixtureRequest) -> SpillSpace:
    """Room for everything, or for nothing."""
    return SpillSpace() if request.param == "memory" else SpillSpace(DictDisk, 0)


def test_a_record_is_joined_with_its_match(space: SpillSpace) -> None:
    """As the match is when the record comes, and again whenever the match changes."""
    joined = Joined("named", space=space)
    assert joined.order(b"7", {"id": 7, "customer": "1"}) == {"7": {"id": 7, "name": None}}
    assert joined.customer("1", ANN) == {"7": {"id": 7, "name": "Ann"}}
    assert joined.customer("2", BEN) == {}
    assert joined.order(b"7", {"id": 7, "customer": "2"}) == {"7": {"id": 7, "name": "Ben"}}
    assert joined.customer("1", None) == {}


def test_a_record_that_is_deleted_is_joined_no_more() -> None:
    """Its match finds it no longer, and a deletion of no record changes nothing."""
    joined = Joined("named")
    joined.order(b"7", {"id": 7, "customer": "1"})
    assert joined.order(b"7", None) == {"7": None}
    assert joined.order(b"8", None) == {}
    assert joined.customer("1", ANN) == {}


def test_in_an_inner_join_a_record_waits_for_its_match() -> None:
    """Without one there is no row; it comes and goes with the match."""
    joined = Joined("members")
    assert joined.order(b"7", {"id": 7, "customer": "1"}) == {}
    assert joined.customer("1", ANN) == {"7": {"id": 7, "name": "Ann"}}
    assert joined.customer("1", None) == {"7": None}


def test_each_match_makes_a_row_with_a_key_of_its_own(space: SpillSpace) -> None:
    """The row without a match is gone once there is one, and back when the last one leaves."""
    joined = Joined("many", space=space)
    alone, with_one, with_two = (
        orjson.dumps(["7", None if id is None else sow_key(id).decode()]).decode() for id in (None, "1", "2")
    )
    assert joined.order(b"7", {"id": 7, "desk": "a"}) == {alone: {"id": 7, "name": None}}
    assert joined.customer("1", ANN) == {alone: None, with_one: {"id": 7, "name": "Ann"}}
    assert joined.customer("2", BEN) == {with_two: {"id": 7, "name": "Ben"}}
    assert joined.customer("1", {**ANN, "desk": "b"}) == {with_one: None}
    assert joined.customer("2", None) == {with_two: None, alone: {"id": 7, "name": None}}


def test_a_topic_that_is_joined_twice_changes_the_rows_of_both_joins() -> None:
    """A customer is the order's own, or one of its desk."""
    joined = Joined("twice")
    joined.order(b"7", {"id": 7, "customer": "1", "desk": "a"})
    made = joined.customer("1", ANN)
    assert {"id": 7, "name": "Ann", "other": "Ann"} in made.values()
    made = joined.customer("1", {**ANN, "desk": "b"})
    assert [one for one in made.values() if one is not None] == [{"id": 7, "name": "Ann", "other": None}]


def test_loaded_records_are_joined_like_those_that_change(space: SpillSpace) -> None:
    """They are found by their matches, too."""
    joined = Joined("many", space=space)
    joined.customer("1", ANN)
    change = joined.changed(b"7", {"id": 7, "desk": "a"})
    joined.states.load(iter([change]))
    assert list(parsed(joined.states.take_loaded()).values()) == [{"id": 7, "name": "Ann"}]
    assert {"id": 7, "name": "Ben"} in joined.customer("2", BEN).values()


def test_a_progress_event_concerns_no_record() -> None:
    """Nor does a topic that no join has."""
    joined = Joined("named")
    joined.order(b"7", {"id": 7, "customer": "1"})
    event = joined.event("1", ANN)
    assert joined.states.concerned(event) == [b"7"]
    assert joined.states.concerned(event._replace(change=None)) == []
    assert joined.states.concerned(event._replace(log="desks")) == []


def test_a_group_shows_the_last_of_its_states() -> None:
    """Two rows of a record in one group: the state between them would show half a change."""
    joined = Joined("totals")
    joined.customer("1", ANN)
    joined.order(b"7", {"id": 7, "customer": "1"})
    joined.order(b"8", {"id": 8, "customer": "1"})
    made = joined.customer("1", {**ANN, "desk": "b"})
    assert {key: state and state[1] for key, state in made.items()} == {'["a"]': None, '["b"]': 2}


def test_nothing_is_held_of_what_is_closed() -> None:
    """The tables of the joined topics go on."""
    space = SpillSpace()
    joined = Joined("named", space=space)
    joined.customer("1", ANN)
    held = space.bytes
    joined.order(b"7", {"id": 7, "customer": "1"})
    assert space.bytes > held
    joined.states.close()
    assert space.bytes == held


def test_a_record_makes_a_bounded_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matches that leave count no more. One too many stops the view, when it comes or when the view starts."""
    monkeypatch.setattr("sowline_views.core.joins.ROWS_MAX", 3)
    joins = Joins(join_steps.TOPICS, "desks")
    joins.change(SOURCE, order(1), is_deleted=False)
    for id in ("1", "2", "3"):
        step(joins, *customer(id, 1))
    joins.change("customers", customer("1", 1)[1], is_deleted=True)
    step(joins, *customer("4", 1))
    joins.take_joined(0, 9)
    step(joins, *customer("5", 1))
    with pytest.raises(SowlineError, match="at most 3 rows") as error:
        joins.take_joined(0, 1)
    assert error.value.reason == "too large"
    with pytest.raises(SowlineError, match="at most 3 rows"):
        joins.take_over(partition_of("1", 2), 1)


# with the native core

ORDER = {"customer": "1", "desk": "a"}
TEXT = orjson.dumps(ORDER)


def accelerated(view: str) -> tuple[Joined, StandInGroups]:
    """Return a view whose groups a native core keeps, which finds customer 1 for each order."""
    core = StandInCore()
    joined = Joined(view, native=core)
    core.groups.found = [sow_key("1")]
    core.groups.made = [(b'["a"]', b"[1]")]
    return joined, core.groups


def test_the_native_core_gets_a_record_with_its_matches() -> None:
    """None for no match in a left join. Its answers are the states."""
    joined, groups = accelerated("totals")
    assert joined.order(b"7", ORDER) == {'["a"]': [1]}
    joined.tables.put(joined.event("1", ANN))
    joined.order(b"8", ORDER)
    joined.order(b"8", None)
    ann = orjson.dumps(ANN)
    assert groups.asked == [
        (None, (TEXT, [None])),
        (None, (TEXT, [ann])),
        ((TEXT, [ann]), None),
    ]


def test_a_record_that_the_native_core_has_joined_is_found_by_its_match() -> None:
    """Also one whose match is not there yet, and no longer once it is deleted."""
    joined, groups = accelerated("inner")
    joined.order(b"7", ORDER)
    joined.order(b"8", ORDER)
    assert groups.asked == [(None, None)] * 2
    assert joined.states.concerned(joined.event("1", ANN)) == [b"7", b"8"]
    joined.order(b"7", None)
    assert joined.states.concerned(joined.event("1", ANN)) == [b"8"]


@pytest.mark.parametrize("lacking", ["join keys", "groups"])
def test_python_joins_what_the_native_core_can_not_read(lacking: str) -> None:
    """The native core then gets what Python has read of each row."""
    joined, groups = accelerated("totals")
    if lacking == "groups":
        groups.made = None
    else:
        groups.found = None
    groups.replaced = [(b"[null]", b"[2]")]
    assert list(joined.states.change(joined.changed(b"7", ORDER))) == [StateChange("[null]", b"[2]")]
    assert groups.asked[-1] == ("replace", None, (b"[null]", [1]))
    assert joined.states.concerned(joined.event("1", ANN)) == [b"7"]
