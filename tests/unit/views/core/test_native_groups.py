"""What Python asks the native core about the groups of a view, and what it does with the answers."""

from typing import Any

import orjson
import pytest

from sowline.changes.change import Change
from sowline.config.topics import parse_topics
from sowline.config.views import ComputedTopic
from sowline.errors import StartAgain
from sowline.language.groups.engine import group_domain
from sowline.language.groups.sums import Sums
from sowline.model.key import sow_key
from sowline.model.position import Position
from sowline_views.core.joined_tables import joined_table
from sowline_views.core.native_groups import NativeGroupedStates, native_states
from sowline_views.core.states import GroupedStates, RecordStates, StateChange
from tests.panics import panic
from tests.property.view_world import defined
from tests.unit.views.core.native_stand_ins import StandInCore, StandInGroups

TOTALS: dict[str, Any] = {"grouping": ["/region"], "projection": ["COUNT(1) AS /n", "SUM(/qty) AS /qty"]}
HERE = Position(0, 0)


def view_of(**view: Any) -> ComputedTopic:
    """Return a view of `orders`."""
    definition = defined({**TOTALS, **view}, 1, 1).view
    assert definition is not None
    return definition


def grouped(**view: Any) -> tuple[NativeGroupedStates, StandInGroups]:
    """Return the states of a view, and the native core's groups behind them."""
    core = StandInCore()
    states = native_states(view_of(**view), 0, core)
    assert isinstance(states, NativeGroupedStates)
    return states, core.groups


def change(body: bytes | None, previous: bytes | None = None) -> Change:
    """Return a change of record 1."""
    return Change(b"1", body, previous, HERE, HERE, "publish", 1)


# which core keeps the groups


def test_without_the_native_core_python_keeps_the_groups() -> None:
    """It is the specification."""
    assert type(native_states(view_of(), 0, None)) is GroupedStates


@pytest.mark.parametrize(
    ("view", "kept_by"),
    [
        (TOTALS, NativeGroupedStates),
        ({"filter": "/qty > 1"}, RecordStates),
        ({"grouping": ["/region"], "projection": ["/qty AS /last", "COUNT(1) AS /n"]}, GroupedStates),
    ],
    ids=["groups", "records", "the latest record"],
)
def test_the_native_core_keeps_groups_without_their_latest_records(
    view: dict[str, Any], kept_by: type
) -> None:
    """It has no order of records. A view without groups has no states to keep."""
    definition = defined(view, 1, 1).view
    assert definition is not None
    assert type(native_states(definition, 0, StandInCore())) is kept_by


# what is passed to the native core


def test_the_native_core_gets_paths_and_states() -> None:
    """Of equal arguments one is enough, and of equal states, too."""
    projection = [
        "COUNT(1) AS /n",
        "SUM(/at/qty) AS /sum",
        "AVG(/at/qty) AS /mean",
        "MAX(/region) AS /last",
    ]
    _, groups = grouped(grouping=["/region", "/at/desk"], projection=projection)
    rule = groups.rule
    assert rule.reader.grouping == [("region",), ("at", "desk")]
    assert rule.reader.arguments == [((), 1), (("at", "qty"), None), (("region",), None)]
    assert rule.states == [("Count", 0), ("Sums", 1), ("OrderedValues", 2)]
    assert (rule.reader.conditions, rule.reader.joined, rule.reader.join_keys) == ([], [], [])


@pytest.mark.parametrize(
    ("filter", "conditions"),
    [
        ("/side = 'buy'", [(("side",), ["buy"])]),
        ("'buy' = /at/side", [(("at", "side"), ["buy"])]),
        ("/side IN ('buy', 'sell')", [(("side",), ["buy", "sell"])]),
        ("/side = 'buy' AND /desk = 'a'", [(("side",), ["buy"]), (("desk",), ["a"])]),
    ],
)
def test_conditions_on_texts_are_the_native_cores(filter: str, conditions: list[Any]) -> None:
    """On either side of the comparison, and each of several."""
    _, groups = grouped(filter=filter)
    assert groups.rule.reader.conditions == conditions


@pytest.mark.parametrize(
    "view",
    [
        {"filter": "/side = '7'"},
        {"filter": "/side IN ('buy', '1e3')"},
        {"filter": "/side = ''"},
        {"filter": "/side = 1"},
        {"filter": "/side > 'buy'"},
        {"filter": "/side = 'buy' OR /side = 'sell'"},
        {"filter": "/sides[0] = 'buy'"},
        {"projection": ["SUM(/qty[0]) AS /qty"]},
        {"projection": ["SUM(/qty * 2) AS /qty"]},
        {"projection": ["SUM(1.5) AS /qty"]},
        {"projection": ["SUM(9223372036854775808) AS /qty"]},
        {"projection": ["SUM(TRUE) AS /qty"]},
    ],
    ids=str,
)
def test_one_path_that_is_not_plain_leaves_all_records_to_python(view: dict[str, Any]) -> None:
    """Texts of numbers and empty ones, other operators, elements of arrays, expressions, and larger numbers."""
    _, groups = grouped(**view)
    assert groups.rule.reader is None


def test_the_largest_integer_is_the_native_cores() -> None:
    """It has 64 bits."""
    _, groups = grouped(projection=["SUM(9223372036854775807) AS /qty"])
    assert groups.rule.reader.arguments == [((), 2**63 - 1)]


def test_python_takes_over_a_sum() -> None:
    """The native core knows counts and totals, not the values that were added."""
    _, groups = grouped()
    state = groups.rule.adopted(1, [(3, 12), (1, -2)])
    assert isinstance(state, Sums)
    assert (state.exported(), state.sum()) == ((4, 0, 10, 0, 0, 0, 0), 10)


def test_python_takes_over_other_values() -> None:
    """Each as often as it occurs."""
    _, groups = grouped(projection=["MAX(/qty) AS /most"])
    state = groups.rule.adopted(0, [("x", 2), (5, 1)])
    state.remove("x")
    assert state.exported() == groups.rule.adopted(0, [(5, 1), ("x", 1)]).exported()


def test_the_native_core_has_its_states_written() -> None:
    """As Python writes those of its own groups."""
    _, groups = grouped()
    assert groups.rule.exported(b'["north"]', 2, [2, [2, 0, 7, 0, 0, 0, 0]]) == (
        b'["[\\"north\\"]",2,[2,[2,0,7,0,0,0,0]],null]'
    )


# what is done with its answers


def test_a_plain_change_is_the_native_cores() -> None:
    """It gets both bodies. A long key text becomes the hash that names the group."""
    states, groups = grouped()
    groups.made = [(b'["north"]', None), (b'["%b"]' % (b"n" * 300), b"[2]")]
    left, entered = states.change(change(b'{"region":"n"}', b'{"region":"north"}'))
    assert groups.asked == [((b'{"region":"north"}', []), (b'{"region":"n"}', []))]
    assert left == StateChange('["north"]', None)
    assert (entered.key[0], entered.state) == ("#", b"[2]")


def test_python_reads_a_record_that_is_not_plain() -> None:
    """The native core then gets the group and the arguments that Python has read."""
    states, groups = grouped()
    groups.replaced = [(b'["north"]', b"[1]")]
    assert states.change(change(b'{"region":"north","qty":1e3}')) == [StateChange('["north"]', b"[1]")]
    assert groups.asked == [
        (None, (b'{"region":"north","qty":1e3}', [])),
        ("replace", None, (b'["north"]', [1, 1000.0])),
    ]


def test_python_applies_the_filter_to_what_it_reads() -> None:
    """A record that does not match is no input, before or after."""
    states, groups = grouped(filter="/qty > 1")
    assert states.replace(b"1", {"region": "a", "qty": 1}, {"region": "b", "qty": 2}, ()) == []
    assert groups.asked == [("replace", None, (b'["b"]', [1, 2]))]


def test_a_load_asks_the_native_core_first() -> None:
    """Python reads what that can't."""
    states, groups = grouped()
    groups.made = []
    states.load(iter([change(b'{"region":"north"}')]))
    groups.made = None
    states.load(iter([change(b'{"region":"south"}')]))
    assert groups.asked == [
        (None, (b'{"region":"north"}', [])),
        (None, (b'{"region":"south"}', [])),
        ("replace", None, (b'["south"]', [1, None])),
    ]


def test_loaded_groups_come_in_the_order_of_their_sow_keys() -> None:
    """As Python yields them, so that both cores write the same snapshot."""
    states, groups = grouped()
    texts = ['["west"]', '["south"]', '["north"]']
    groups.held = [(text.encode(), b"[1]") for text in texts]
    domain = group_domain("view", view_of().grouping_paths)
    expected = sorted(texts, key=lambda text: sow_key(domain, text))
    assert [one.key for one in states.take_loaded()] == expected
    assert expected != texts


def test_after_a_panic_the_view_starts_again() -> None:
    """Half of a change may be in the groups."""
    states, groups = grouped()
    groups.change = panic  # type: ignore[method-assign,assignment]
    with pytest.raises(StartAgain, match="the native core failed"):
        states.change(change(b"{}"))


def test_another_error_is_raised_as_it_is() -> None:
    """A record leaves a group in which none is: that is a fault of ours, which the log must show."""
    states, groups = grouped()

    def refuse(*given: object) -> None:
        raise KeyError("a record leaves a group in which none is")

    groups.change = refuse  # type: ignore[method-assign,assignment]
    with pytest.raises(KeyError):
        states.change(change(None, b"{}"))


# joins

JOINED = """
topics:
  - {name: orders, key: /id}
  - {name: users, key: /id}
  - {name: desks, key: [/a, /b/c]}
views:
  - {name: totals, from: orders, grouping: [/user], projection: [COUNT(1) AS /n]}
  - name: view
    from: orders
    join: [JOIN]
    grouping: [/g]
    projection: [COUNT(1) AS /n]
"""
USERS = "{topic: users, on: /user/id = /id, as: u}"
DESKS = "{topic: desks, on: /d = /b/c AND /e/f = /a, as: desk}"


def joined(*joins: str) -> tuple[NativeGroupedStates, Any]:
    """Return the states of a view with joins, and what was passed to the native core about it."""
    topics, core = parse_topics(JOINED.replace("JOIN", ", ".join(joins))), StandInCore()
    view = topics.named("view").view
    assert view is not None
    tables = [joined_table(join, topics.named(join.topic)) for join in view.joins]
    states = native_states(view, 0, core, tables)
    assert isinstance(states, NativeGroupedStates)
    return states, core.groups.rule.reader


def test_the_native_core_makes_join_keys_that_are_hashes_of_fields() -> None:
    """The paths are the order's, in the order of the joined topic's key fields."""
    states, reader = joined(USERS, DESKS)
    assert states.has_join_keys
    assert reader.joined == ["u", "desk"]
    users, desks = reader.join_keys
    assert (users[0], desks[0]) == ([("user", "id")], [("e", "f"), ("d",)])
    assert users[1] != desks[1]


@pytest.mark.parametrize(
    "joins",
    [
        ["{topic: users, on: /user = /id, as: u, multiply: true}"],
        ["{topic: totals, on: /user = /user, as: t}"],
        [USERS, "{topic: desks, on: /u/desk = /b/c AND /e = /a, as: desk}"],
        ["{topic: users, on: '/users[0] = /id', as: u}"],
    ],
    ids=["multiply", "a view", "of a joined record", "an element"],
)
def test_other_join_keys_are_pythons(joins: list[str]) -> None:
    """One of them leaves all of them to Python."""
    states, reader = joined(*joins)
    assert not states.has_join_keys
    assert reader is None or reader.join_keys == []


def test_the_native_core_makes_the_join_keys_of_a_record() -> None:
    """None if only Python can."""
    core = StandInCore()
    states = native_states(view_of(), 0, core)
    assert isinstance(states, NativeGroupedStates)
    assert states.join_keys(orjson.dumps({"user": 1})) is None
    core.groups.found = [b"key"]
    assert states.join_keys(orjson.dumps({"user": 1})) == [b"key"]
