"""Deltas and conditions as objects. (More of what they mean: test_emodb_docs, test_conformance.)"""

from typing import Any

import pytest

from sowline.language.emodb.compiled import compile_condition, parse_delta
from sowline.language.emodb.intrinsics import Intrinsics
from sowline.language.emodb.values import UNDEFINED, same


def test_deltas_of_one_meaning_are_equal() -> None:
    """The canonical text decides, however a delta was written."""
    one, other = parse_delta('{ .. , "b":2,"a":1}'), parse_delta('{..,"a":1,"b":2}')
    assert one == other
    assert hash(one) == hash(other)
    assert str(one) == one.text == '{..,"a":1,"b":2}'
    assert one != parse_delta('{..,"a":1.0,"b":2}')


def test_conditions_of_one_meaning_are_equal() -> None:
    """The canonical text decides, however a condition was written."""
    assert compile_condition("or(1,2)") == compile_condition("in( 2, 1)")
    assert compile_condition("1") != compile_condition("1.0")
    assert repr(compile_condition("is(null)")) == "Condition('null')"


def test_a_value_stays_as_it_is() -> None:
    """What a delta is applied to can still be used."""
    value = {"a": {"b": 1}, "s": [3, 1]}
    result = parse_delta('{..,"a":{..,"c":2},"s":(..,2)}').apply(value)
    assert result == {"a": {"b": 1, "c": 2}, "s": [1, 2, 3]}
    assert value == {"a": {"b": 1}, "s": [3, 1]}


def test_a_noop_gives_the_value_itself() -> None:
    """Nothing is copied that doesn't change."""
    value = {"a": 1}
    assert parse_delta('if {..,"a":2} then ~ end').apply(value) is value


def test_intrinsics_are_null_where_nothing_is_known() -> None:
    """A condition can be asked of a value without a document around it."""
    condition = compile_condition('intrinsic("~id":"k")')
    assert not condition.matches({})
    assert condition.matches_about({}, Intrinsics(id="k"))
    assert compile_condition('intrinsic("~lastUpdateAt":null)').matches(UNDEFINED)
    assert not compile_condition("partition(1:1)").matches({})


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ('{..,"a":1}', False),
        ('{..,"a":if intrinsic("~id":"k") then 1 end}', True),
        ("if not(partition(2:1)) then ~ end", True),
    ],
)
def test_a_delta_tells_whether_it_asks_for_intrinsics(text: str, needs: bool) -> None:
    """Who applies many deltas works out no intrinsics in vain."""
    assert parse_delta(text).needs_about is needs


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ('{..,"a":{..,"x":1}}', {"a": "text"}, {"a": {"x": 1}}),
        ("{..}?", "text", UNDEFINED),
        ("(..,1)", "text", [1]),
        ("(..)", [[10], [9], [2]], [[10], [2], [9]]),
        ("(..,~0.0)", [-0.0, 0, 0.0], [-0.0]),
        ("(..,~0,~5)", [-0.0, 5], [-0.0]),
    ],
)
def test_a_delta_of_a_value_of_another_type(text: str, before: Any, after: Any) -> None:
    """It takes the value as an empty object or set; of numbers, it removes those that are the same."""
    assert same(parse_delta(text).apply(before), after)


@pytest.mark.parametrize(
    ("text", "value", "holds"),
    [
        ("true", 1, False),
        ('not({..,"a":1})', "text", True),
        ("is(map)", {}, True),
        ("gt(5)", "6", False),
        ("ge(0)", -0.0, False),
        ("containsAny()", "text", True),
    ],
)
def test_a_condition_about_a_value_of_another_type(text: str, value: Any, holds: bool) -> None:
    """It is false, also for numbers that are equal but not the same."""
    assert compile_condition(text).matches(value) is holds


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("in()", "alwaysFalse()"),
        ("containsAny()", "alwaysTrue()"),
        ('intrinsic("~id":"b","a",like("x*"))', 'intrinsic("~id":in("a","b"),like("x*"))'),
        ("or(1,or(~,alwaysFalse()))", "or(1,~)"),
        ("or(1,alwaysTrue())", "alwaysTrue()"),
    ],
)
def test_constant_parts_of_a_condition_are_evaluated(text: str, canonical: str) -> None:
    """The canonical text shows the result."""
    assert compile_condition(text).text == canonical


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("if ~ then 1 else .. end", "if ~ then 1 end"),
        ('{..,"a":1}?', '{..,"a":1}'),
        ('{..,"a":..}?', '{..,"a":..}?'),
        ("(3,1)", "(1,3)"),
        ("if or() then 1 else 2 end", "2"),
    ],
)
def test_constant_parts_of_a_delta_are_evaluated(text: str, canonical: str) -> None:
    """The canonical text shows the result."""
    assert parse_delta(text).text == canonical
