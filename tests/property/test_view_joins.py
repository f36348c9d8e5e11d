"""Joins of views: whatever happens, a view equals a plain recomputation at the positions that it names."""

from contextlib import ExitStack
from functools import partial
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.model.bookmark import parse_bookmark
from sowline.model.key import partition_of
from sowline.runtime.native import native_core
from sowline_views.core import outgoing
from sowline_views.core.source_partition import take_joined
from sowline_views.core.spilling import SpillSpace
from tests.examples import examples
from tests.property.join_world import PROCESSES, SOURCE, Joins
from tests.property.spill_disks import DISKS, opened_disk

TOPICS = parse_topics("""
topics:
  - {name: orders, key: /id, partitions: 2}
  - {name: customers, key: [/id, /desk], partitions: 2}
views:
  - {name: tiers, from: customers, partitions: 1, grouping: [/tier], projection: [COUNT(1) AS /members]}
  - name: joined
    from: orders
    join:
      - {topic: customers, on: /customer = /id AND /desk = /desk, as: c}
      - {topic: tiers, on: /c/tier = /tier, as: t, kind: inner}
    grouping: [/c/tier, /t/members]
    projection: [COUNT(1) AS /orders, MAX(/qty) AS /largest]
  - name: labeled
    from: orders
    join: [{topic: customers, on: /customer = /id AND /desk = /desk, as: c}]
    projection: [/id, /c/tier AS /tier]
  - name: desks
    from: orders
    join: [{topic: customers, on: /desk = /desk, as: c, multiply: true}]
    grouping: [/c/tier]
    projection: [COUNT(1) AS /orders, MAX(/qty) AS /largest]
  - name: triples
    from: orders
    join:
      - {topic: customers, on: /desk = /desk, as: c, multiply: true}
      - {topic: tiers, on: /c/tier = /members, as: t, multiply: true}
    projection: [/id, /c/id AS /customer, /t/tier AS /tier]
  - name: pairs
    from: orders
    join:
      - {topic: customers, on: /desk = /desk AND /customer = /id, as: c}
      - {topic: tiers, on: /c/tier = /members, as: t, multiply: true}
      - {topic: tiers, on: /t/members = /tier, as: u, kind: inner, multiply: true}
    projection: [/id, /c/id AS /customer, /t/tier AS /tier, /u/members AS /members]
  - name: mixed
    from: orders
    join:
      - {topic: tiers, on: /qty = /members, as: t, multiply: true}
      - {topic: customers, on: /customer = /id AND /desk = /desk, as: c}
    projection: [/id, /t/tier AS /tier, /c/tier AS /own]
  - {name: names, from: customers, projection: [/id, /desk, /tier AS /label]}
  - {name: largest, from: tiers.slow, filter: /members > 1}
  - name: named
    from: orders
    join:
      - {topic: names, on: /customer = /id AND /desk = /desk, as: n}
      - {topic: largest, on: /n/label = /tier, as: t}
    projection: [/id, /n/label AS /label, /t/members AS /members]
  - name: parents
    from: orders
    partitions: 1
    join: [{topic: orders, on: /qty = /id, as: parent}]
    projection: [/id, /parent/customer AS /customer]
conflated: [{name: tiers.slow, from: tiers, interval: 1s}]
""")
VIEWS = ("joined", "labeled", "parents", "desks", "triples", "pairs", "mixed", "named")
KEYS = ("1", 1, "2", None, True)
orders = st.fixed_dictionaries(
    {
        "id": st.integers(0, 5),
        "customer": st.sampled_from(KEYS),
        "desk": st.sampled_from(["a", "b"]),
        "qty": st.integers(0, 9),
    }
)
customers = st.fixed_dictionaries(
    {"id": st.sampled_from(["1", "2", True]), "desk": st.sampled_from(["a", "b"]), "tier": st.integers(0, 1)}
)
names = st.fixed_dictionaries(
    {"id": st.sampled_from(["1", "2"]), "desk": st.sampled_from(["a", "b"]), "label": st.integers(0, 1)}
)
tiers = st.fixed_dictionaries({"tier": st.integers(0, 1), "members": st.integers(0, 2)})
steps = st.one_of(
    st.tuples(st.just("orders"), orders, st.booleans()),
    st.tuples(st.just("customers"), customers, st.booleans()),
    st.tuples(st.sampled_from(["tiers", "largest"]), tiers, st.booleans()),
    st.tuples(st.just("names"), names, st.booleans()),
    st.tuples(
        st.just("report"), st.sampled_from(["orders", "customers", "tiers", "names"]), st.integers(0, 1)
    ),
    st.tuples(st.just("take over"), st.integers(0, 1), st.integers(0, PROCESSES - 1)),
    st.tuples(st.just("take"), st.integers(0, PROCESSES - 1), st.integers(1, 5)),
    st.tuples(st.just("flush"), st.none(), st.booleans()),
    st.tuples(st.just("flush late"), st.none(), st.none()),
)


def step(joins: Joins, kind: str, given: Any, more: Any) -> None:
    """Take one step, if the view has the topic."""
    if kind == "take over":
        joins.take_over(given, more)
    elif kind == "take":
        joins.take_joined(given, more)
    elif kind == "flush":
        joins.flush(also_idle=more)
    elif kind == "flush late":
        joins.flush_late()
    elif kind == "report":
        if given in joins.sides:
            joins.report(given, more)
    elif kind in joins.sides:
        joins.change(kind, given, is_deleted=more)


def order(id: int, **fields: Any) -> dict[str, Any]:
    """Return an order of a customer."""
    return {"id": id, "customer": "1", "desk": "a", "qty": 0, **fields}


def customer(id: str, tier: int) -> tuple[str, Any, Any]:
    """Return the step that writes a customer."""
    return "customers", {"id": id, "desk": "a", "tier": tier}, False


def tier(tier: int, members: int) -> tuple[str, Any, Any]:
    """Return the step that writes a tier."""
    return "tiers", {"tier": tier, "members": members}, False


TAKE = ("take", 0, 5)
SHARED_JOIN_KEY = [
    customer("1", 1),
    customer("2", 1),
    tier(0, 1),
    TAKE,
    customer("1", 0),
    TAKE,
    tier(0, 2),
    TAKE,
]
"""Two rows of an order look for the same tier. One stops, and the other one must still see its changes."""

ONE_OF_TWO_LEAVES = [customer("1", 1), customer("2", 1), TAKE, (*customer("1", 1)[:2], True), TAKE]
"""A row without a match is only made if no other record matches."""

JOINED_BY_ANOTHER_JOIN = [customer("1", 1), tier(0, 1), tier(1, 2), TAKE, tier(1, 0), TAKE]
"""A record of a topic that is joined twice changes, and only the second join has it."""


@examples(120)
@given(
    st.sampled_from(VIEWS),
    st.sampled_from(DISKS),
    st.sampled_from([0, 1000, 10_000]),
    st.lists(steps, min_size=1, max_size=8) | st.lists(steps, min_size=40, max_size=80),
    st.sampled_from([None, native_core(None)]),
)
@example("triples", "dict", 0, [("orders", order(1), False), *SHARED_JOIN_KEY], None)
@example("desks", "dict", 0, [("orders", order(1), False), *ONE_OF_TWO_LEAVES], None)
@example("pairs", "dict", 0, [("orders", order(1), False), *JOINED_BY_ANOTHER_JOIN], None)
def test_joins_equal_a_recomputation(
    view: str, disk: str, bytes_max: int, taken: list[tuple[str, Any, Any]], native: ModuleType | None
) -> None:
    """Rows that change groups or join keys, joined records that come and go, joins of joins, and late owners.

    It makes no difference whether all records are in memory, or most of them on a disk.
    """
    with pytest.MonkeyPatch.context() as patched, ExitStack() as stack:
        patched.setattr(outgoing, "STATES_MAX", 3)
        joins = Joins(TOPICS, view, lambda: SpillSpace(partial(opened_disk, disk, stack), bytes_max), native)
        for kind, given_, more in taken:
            step(joins, kind, given_, more)
        joins.settle()


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


def test_a_record_makes_a_bounded_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matches that leave count no more. One too many stops the view, when it comes or when the view starts."""
    monkeypatch.setattr("sowline_views.core.joins.ROWS_MAX", 3)
    joins = Joins(TOPICS, "desks")
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
