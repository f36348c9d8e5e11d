"""Deltas and conditions as objects. (What they mean: test_emodb_docs, test_conformance.)"""

import pytest

from sowline.language.emodb.compiled import compile_condition, parse_delta
from sowline.language.emodb.intrinsics import Intrinsics
from sowline.language.emodb.values import UNDEFINED


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
