"""The tables of joined topics: which records match, which rows they make, and how a change is undone."""

from typing import Any

import orjson
import pytest

from sowline.changes.change import Change
from sowline.config.topics import parse_topics
from sowline.model.position import Position
from sowline_views.core.join_keys import NO_MATCH
from sowline_views.core.joined_tables import (
    JoinedEvent,
    JoinedTable,
    JoinedTables,
    KeyedTable,
    MultipliedTable,
    joined_table,
)
from sowline_views.core.spilling import SpillSpace
from tests.property.spill_disks import DictDisk

TOPICS = parse_topics("""
topics:
  - {name: orders, key: /id}
  - {name: customers, key: /id}
  - {name: desks, key: /id}
views:
  - {name: left, from: orders, join: [{topic: customers, on: /customer = /id, as: c}]}
  - {name: inner, from: orders, join: [{topic: customers, on: /customer = /id, as: c, kind: inner}]}
  - name: many
    from: orders
    join: [{topic: customers, on: /desk = /desk, as: c, multiply: true}]
    projection: [/id, /c/id AS /customer]
  - name: twice
    from: orders
    join:
      - {topic: customers, on: /customer = /id, as: c}
      - {topic: customers, on: /desk = /desk, as: d, multiply: true}
    projection: [/id, /d/id AS /other]
""")
CUSTOMERS = TOPICS.named("customers")
ONE, TWO = (CUSTOMERS.key_rule.sow_key(id) for id in ("1", "2"))
FIRST, LAST = sorted((ONE, TWO))


@pytest.fixture(params=["memory", "disk"])
def space(request: pytest.FixtureRequest) -> SpillSpace:
    """Room for everything, or for nothing."""
    return SpillSpace() if request.param == "memory" else SpillSpace(DictDisk, 0)


def tables(view: str, space: SpillSpace | None = None) -> JoinedTables:
    """Return the tables of a view's joins."""
    computed = TOPICS.named(view).view
    assert computed is not None
    space = SpillSpace() if space is None else space
    return JoinedTables([joined_table(join, TOPICS.named(join.topic), space) for join in computed.joins])


def table(view: str, space: SpillSpace | None = None) -> JoinedTable:
    """Return the table of a view's only join."""
    (only,) = tables(view, space).all
    return only


def change(key: bytes, body: dict[str, Any] | None, offset: int = 0) -> Change:
    """Return a change of a customer."""
    text = None if body is None else orjson.dumps(body)
    return Change(key, text, None, Position(0, offset), Position(0, offset - 1), "publish", 1)


def rows(of: JoinedTable, order: dict[str, Any]) -> list[tuple[tuple[bytes | None, ...], dict[str, Any]]]:
    """Return the rows that an order makes with its matches."""
    return list(of.rows((b"order",), dict(order), of.matches(of.key_of(order))))


def test_the_kind_of_a_join_decides_its_table() -> None:
    """Without a space of its own, a table has all records in memory."""
    computed = TOPICS.named("twice").view
    assert computed is not None
    made = [joined_table(join, CUSTOMERS) for join in computed.joins]
    assert [type(one) for one in made] == [KeyedTable, MultipliedTable]
    assert made[0].space is not made[1].space


def test_a_join_on_the_key_finds_the_record_with_that_key(space: SpillSpace) -> None:
    """The row keeps the order's key: the view's record is found by it."""
    of = table("left", space)
    of.put(change(ONE, {"id": 1, "name": "Ann"}))
    assert rows(of, {"id": 7, "customer": 1}) == [
        ((b"order",), {"id": 7, "customer": 1, "c": {"id": 1, "name": "Ann"}})
    ]
    assert of.concerned(change(TWO, None)) == {TWO}


def test_without_a_match_a_left_join_has_the_record_alone() -> None:
    """A field of the record with the join's name would look like a match, so it is dropped."""
    of = table("left")
    assert rows(of, {"id": 7, "customer": 1, "c": "own"}) == [((b"order",), {"id": 7, "customer": 1})]
    assert rows(of, {"id": 7}) == [((b"order",), {"id": 7})]


def test_without_a_match_an_inner_join_has_nothing() -> None:
    """Nor with a match that is gone."""
    of = table("inner")
    of.put(change(ONE, {"id": 1}))
    of.put(change(ONE, None))
    assert (rows(of, {"customer": 1}), of.body(ONE)) == ([], None)


def test_a_join_that_multiplies_makes_a_row_for_each_match(space: SpillSpace) -> None:
    """In the order of their keys, which are in the rows' keys."""
    of = table("many", space)
    of.put(change(LAST, {"desk": "a"}))
    of.put(change(FIRST, {"desk": "a"}))
    assert [keys for keys, _ in rows(of, {"desk": "a"})] == [(b"order", FIRST), (b"order", LAST)]
    assert [document["c"] for _, document in rows(of, {"desk": "a"})] == [{"desk": "a"}] * 2
    assert rows(of, {"desk": "b"}) == [((b"order", None), {"desk": "b"})]


def test_a_record_that_gets_another_join_key_leaves_the_first(space: SpillSpace) -> None:
    """Records of both keys are concerned before the change is taken."""
    of = table("many", space)
    of.put(change(ONE, {"desk": "a"}))
    moved = change(ONE, {"desk": "b"}, 1)
    assert of.concerned(moved) == {of.key_of({"desk": "a"}), of.key_of({"desk": "b"})}
    of.put(moved)
    found = [list(of.matches(of.key_of({"desk": desk}))) for desk in ("a", "b")]
    assert found == [[], [ONE]]


@pytest.mark.parametrize("body", [{"name": "Ann"}, {"desk": {"floor": 1}}, None])
def test_a_record_without_a_join_key_matches_nothing(body: dict[str, Any] | None) -> None:
    """It has no field to be found by, or one that can't be a key; its body is held if it has one."""
    of = table("many")
    of.put(change(ONE, {"desk": "a"}))
    of.put(change(ONE, body, 1))
    assert list(of.matches(of.key_of({"desk": "a"}))) == []
    assert of.concerned(change(ONE, body, 2)) == set()
    assert of.key_of(body or {}) == NO_MATCH
    assert (of.body(ONE) is None) is (body is None)


def test_a_change_with_the_same_join_key_is_counted_once() -> None:
    """Else a record that is deleted later would still be found."""
    of = table("many")
    of.put(change(ONE, {"desk": "a", "n": 1}))
    of.put(change(ONE, {"desk": "a", "n": 2}, 1))
    of.put(change(ONE, None, 2))
    assert list(of.matches(of.key_of({"desk": "a"}))) == []


def test_one_record_of_many_is_found_alone() -> None:
    """`[]` makes the row without a match, which is due only if no other record matches."""
    of = table("many")
    assert isinstance(of, MultipliedTable)
    key = of.key_of({"desk": "a"})
    assert of.only(key, ONE) == []
    of.put(change(TWO, {"desk": "a"}))
    assert of.only(key, ONE) is None
    of.put(change(ONE, {"desk": "a"}))
    assert of.only(key, ONE) == [ONE]


def test_an_event_goes_into_all_tables_of_its_topic() -> None:
    """Its position is noted, also that of a progress event or of a topic that no join has."""
    both = tables("twice")
    both.put(JoinedEvent("customers", 1, Position(0, 3), change(ONE, {"id": 1, "desk": "a"}, 3)))
    both.put(JoinedEvent("customers", 0, Position(0, 9)))
    both.put(JoinedEvent("desks", 0, Position(0, 1), change(TWO, {"id": 2}, 1)))
    assert [one.body(ONE) for one in both.all] == [b'{"id":1,"desk":"a"}'] * 2
    assert [one.body(TWO) for one in both.all] == [None, None]
    assert both.taken == {"customers": {1: Position(0, 3), 0: Position(0, 9)}, "desks": {0: Position(0, 1)}}
    assert (both.of("customers"), both.of("desks")) == ([0, 1], [])


def test_a_change_is_taken_back_for_a_while() -> None:
    """Its record is as it was before, by its key and by its join key; the position stays."""
    both = tables("twice")
    both.put(JoinedEvent("customers", 0, Position(0, 0), change(ONE, {"id": 1, "desk": "a"})))
    event = JoinedEvent("customers", 0, Position(0, 1), change(ONE, {"id": 1, "desk": "b"}, 1))
    before = both.before(event)
    assert before is not None
    both.put(event)
    both.take_back(event, before)
    assert [one.body(ONE) for one in both.all] == [b'{"id":1,"desk":"a"}'] * 2
    assert list(both.all[1].matches(both.all[1].key_of({"desk": "a"}))) == [ONE]
    assert both.taken["customers"] == {0: Position(0, 1)}
    both.put(event)
    assert both.all[0].body(ONE) == b'{"id":1,"desk":"b"}'


def test_a_new_record_is_taken_back_by_a_deletion() -> None:
    """It was not there before."""
    both = tables("twice")
    before = both.before(JoinedEvent("customers", 0, Position(0, 0), change(ONE, {"id": 1})))
    assert before is not None
    assert (before.sow_key, before.body) == (ONE, None)


@pytest.mark.parametrize(
    "event",
    [
        JoinedEvent("customers", 0, Position(0, 0)),
        JoinedEvent("desks", 0, Position(0, 0), change(ONE, {"id": 1})),
    ],
    ids=["progress", "another topic"],
)
def test_what_changes_no_table_is_not_taken_back(event: JoinedEvent) -> None:
    """A progress event, and a change of a topic that no join has."""
    assert tables("twice").before(event) is None


def test_a_view_without_joins_has_no_tables() -> None:
    """Those of a view with joins share one space."""
    both = tables("twice")
    assert (bool(JoinedTables(())), bool(both)) == (False, True)
    assert all(one.space is both.space for one in both.all)
