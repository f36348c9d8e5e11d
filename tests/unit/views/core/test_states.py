"""What each change of a source partition does to the states of a view."""

from typing import Any

import msgspec
import orjson
import pytest

from sowline.changes.change import Change
from sowline.changes.partials import NO_STATE, Partials, PartialState, read_partials
from sowline.model.nesting import NESTING_MAX
from sowline.model.position import Position
from sowline_views.core.states import StateChange, States, group_key, states_of
from tests.property.view_sources import SourceModel
from tests.property.view_world import defined

TOTALS: dict[str, Any] = {
    "grouping": ["/region"],
    "projection": ["COUNT(1) AS /orders", "SUM(/qty) AS /qty"],
}


def states(**view: Any) -> States:
    """Return the states of a view of `orders` in partition 0."""
    definition = defined(view, 1, 1).view
    assert definition is not None
    return states_of(definition, 0)


def made(of: States, source: SourceModel, key: bytes, body: dict[str, Any] | None) -> dict[str, Any]:
    """Write a record to the source; return the states that this changes, parsed, by key text."""
    change = source.write(key, body)
    assert change is not None
    return {key: state and orjson.loads(state) for key, state in of.change(change)}


def records_in(state: Any) -> int:
    """Return how many records a group has."""
    assert isinstance(state[1], int)
    return state[1]


def test_a_change_of_a_record_changes_the_state_of_its_group() -> None:
    """The state has the group's values, the number of its records, and what the aggregates need."""
    of, source = states(**TOTALS), SourceModel(0)
    first = made(of, source, b"1", {"region": "north", "qty": 5})
    second = made(of, source, b"2", {"region": "north", "qty": 2})
    assert (records_in(first['["north"]']), records_in(second['["north"]'])) == (1, 2)
    assert second['["north"]'][0] == '["north"]'


def test_the_state_of_a_joined_record_may_be_deep() -> None:
    """A joined record is one level further down, and has no bytes of its own that could be copied."""
    deep: Any = 5
    for _ in range(NESTING_MAX):
        deep = {"a": deep}
    [made] = states().replace(b"1", None, {"id": 1, "joined": deep}, (0, 0, Position(0, 0)))
    assert made.state is not None
    assert orjson.loads(made.state) == {"id": 1, "joined": deep}


def test_a_record_that_moves_changes_both_groups() -> None:
    """The group that it leaves comes first; it has no state if that was its last record."""
    of, source = states(**TOTALS), SourceModel(0)
    made(of, source, b"1", {"region": "north"})
    moved = made(of, source, b"1", {"region": "south"})
    assert list(moved) == ['["north"]', '["south"]']
    assert moved['["north"]'] is None
    assert records_in(moved['["south"]']) == 1


def test_a_record_without_the_field_is_in_the_group_of_null() -> None:
    """So are null and an empty string."""
    of, source = states(**TOTALS), SourceModel(0)
    bodies: list[dict[str, Any]] = [{}, {"region": None}, {"region": ""}]
    for number, body in enumerate(bodies):
        found = made(of, source, b"%d" % number, body)
    assert records_in(found["[null]"]) == 3


def test_a_deleted_record_leaves_its_group() -> None:
    """Without records, the group has no state."""
    of, source = states(**TOTALS), SourceModel(0)
    made(of, source, b"1", {"region": "north"})
    assert made(of, source, b"1", None) == {'["north"]': None}


def test_the_filter_decides_which_records_count() -> None:
    """A record that does not match before or after changes nothing; one that begins to match is new."""
    of, source = states(filter="/open = TRUE", **TOTALS), SourceModel(0)
    assert made(of, source, b"1", {"region": "north", "open": False}) == {}
    assert records_in(made(of, source, b"1", {"region": "north", "open": True})['["north"]']) == 1
    assert made(of, source, b"1", {"region": "north", "open": False}) == {'["north"]': None}


def test_a_change_without_effect_on_the_state_makes_none() -> None:
    """A field that is neither grouped by nor projected changes."""
    of, source = states(**TOTALS), SourceModel(0)
    made(of, source, b"1", {"region": "north", "qty": 1})
    assert made(of, source, b"1", {"region": "north", "qty": 1, "note": "late"}) == {}


def test_a_hidden_change_of_a_source_view_makes_none() -> None:
    """The source is a view, and the states of a group that its `having` hides have changed."""
    of = states(**TOTALS)
    assert of.change(Change(b"[1]", None, None, Position(0, 1), Position(0, 0), "partials", 1)) == []


def test_a_group_with_a_long_key_is_named_by_a_hash() -> None:
    """No key text is longer than keys may be."""
    assert group_key(b'["north"]') == '["north"]'
    long = group_key(b'["%b"]' % (b"n" * 300))
    assert (long[0], len(long)) == ("#", 33)
    assert long != group_key(b'["%b"]' % (b"n" * 301))


@pytest.mark.parametrize(
    "projection", [["COUNT(1) AS /n", "SUM(/qty) AS /s", "MAX(/qty) AS /m"], ["/qty AS /last"]]
)
def test_loaded_states_are_those_that_changes_have_made(projection: list[str]) -> None:
    """The newest changes of the live records, in any order, are enough."""
    followed, source = states(grouping=["/region"], projection=projection), SourceModel(0)
    for number, region in enumerate(["north", "south", "north", "north", "south"]):
        made(followed, source, b"%d" % (number % 4), {"region": region, "qty": number})
    made(followed, source, b"2", None)
    loaded = states(grouping=["/region"], projection=projection)
    loaded.load(reversed(source.newest))
    assert sorted(loaded.take_loaded()) == sorted(followed.take_loaded())
    change = source.write(b"1", {"region": "north", "qty": 7})
    assert change is not None
    assert loaded.change(change) == followed.change(change)


def test_a_view_without_groups_has_the_records_as_they_are() -> None:
    """The state of a record is its body, byte for byte, under the same key."""
    of = states(filter="/open = TRUE")
    body = b'{ "open":true, "price":1.50 }'
    change = Change(b"735", body, None, Position(0, 0), Position(0, -1), "publish", 1)
    assert of.change(change) == [StateChange("735", body)]
    gone = Change(b"735", b'{"open":false}', body, Position(0, 1), Position(0, 0), "publish", 1)
    assert of.change(gone) == [StateChange("735", None)]


def test_a_projection_without_groups_is_computed_of_each_record() -> None:
    """A value that is absent is null. A change that leaves the projection as it was makes no state."""
    of, source = states(projection=["/qty * 2 AS /twice", "/region AS /at/region"]), SourceModel(0)
    assert made(of, source, b"1", {"qty": 2}) == {"1": {"twice": 4, "at": {"region": None}}}
    assert made(of, source, b"1", {"qty": 2, "note": "late"}) == {}


def test_an_infinite_extreme_can_be_read() -> None:
    """The state of a group is JSON, which has no infinity."""
    of, source = (
        states(grouping=["/k"], projection=["MAX(/v * 1e308) AS /most", "/v AS /last"]),
        SourceModel(0),
    )
    change = source.write(b"1", {"v": 100, "k": "-Infinity"})
    assert change is not None
    (state,) = of.change(change)
    message = Partials("x", 0, "-1", "0", [PartialState("0", state.key, msgspec.Raw(state.state or b""))])
    read = read_partials(message.encode()).states[0].state
    assert read != NO_STATE
    assert bytes(read) == b'["[\\"-Infinity\\"]", 1, [[1e999, 1e999]], [[0, 0, [0, 0, 0]], "1", [100]]]'


def test_loaded_records_are_kept_until_the_snapshot_has_them() -> None:
    """Those that count, as their bodies are or as the projection is. Kept longer, they would fill the memory."""
    source = SourceModel(0)
    source.write(b"1", {"open": True, "qty": 2})
    source.write(b"2", {"open": False, "qty": 3})
    whole, projected = states(filter="/open = TRUE"), states(projection=["/qty * 2 AS /twice"])
    for of in (whole, projected):
        of.load(iter(source.newest))
    assert list(whole.take_loaded()) == [StateChange("1", b'{"open":true,"qty":2}')]
    assert list(whole.take_loaded()) == []
    assert dict(projected.take_loaded()) == {"1": b'{"twice":4}', "2": b'{"twice":6}'}


def test_joined_records_are_loaded_one_by_one() -> None:
    """Each with its matches; one that does not count is none."""
    of = states(filter="/open = TRUE")
    of.add(b"1", {"open": True}, (0, 0, Position(0, 0)))
    of.add(b"2", {"open": False}, (0, 0, Position(0, 1)))
    of.add(b"3", None, (0, 0, Position(0, 2)))
    assert list(of.take_loaded()) == [StateChange("1", b'{"open":true}')]
