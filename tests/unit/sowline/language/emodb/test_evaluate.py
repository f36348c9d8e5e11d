"""What deltas make of values, and which conditions hold."""

from typing import Any

import pytest

from sowline.language.emodb.evaluate import apply, holds
from sowline.language.emodb.intrinsics import UNKNOWN, Intrinsics
from sowline.language.emodb.parse import read_condition, read_delta
from sowline.language.emodb.values import UNDEFINED, same


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("5", {"a": 1}, 5),
        ("~", {"a": 1}, UNDEFINED),
        ("..", {"a": 1}, {"a": 1}),
        ('{..,"b":2}', {"a": 1}, {"a": 1, "b": 2}),
        ('{..,"b":2}', [1], {"b": 2}),
        ('{"a":..}', {"a": 1, "b": 2}, {"a": 1}),
        ('{..,"a":~}', {"a": 1}, {}),
        ('{..,"a":~}?', {"a": 1}, UNDEFINED),
        ('{..,"a":{..,"b":1}}', {}, {"a": {"b": 1}}),
        ("(2,1)", [7], [1, 2]),
        ("(..,2,1)", [7, 1], [1, 2, 7]),
        ("(..,2,1)", {"a": 1}, [1, 2]),
        ("(..,~1)", [1, 1.0, 2], [2]),
        ("(..,~0)", [0, -0.0, 1], [1]),
        ("(..,~0.0)", [-0.0, True], [True, -0.0]),
        ("(..,~1,~[2])", [1, [2], [3]], [[3]]),
        ("(..,~1)?", [1], UNDEFINED),
        ('if {..,"a":1} then 1 elif ~ then 2 else 3 end', {"a": 1}, 1),
        ('if {..,"a":1} then 1 elif ~ then 2 else 3 end', UNDEFINED, 2),
        ('if {..,"a":1} then 1 elif ~ then 2 else 3 end', {}, 3),
    ],
)
def test_a_delta_makes_a_value_of_one(text: str, before: Any, after: Any) -> None:
    """A map makes an object of every value, and a set an array."""
    assert same(apply(read_delta(text), before, UNKNOWN), after)


@pytest.mark.parametrize(
    ("text", "matching", "others"),
    [
        ("1", [1], [1.0, True, UNDEFINED]),
        ("~", [UNDEFINED], [None]),
        ("+", [None, 0], [UNDEFINED]),
        ("null", [None], [UNDEFINED, 0]),
        ("in(1,2)", [1, 2], [3, 2.0]),
        ("is(bool)", [True], [1]),
        ("is(num)", [1, 1.5], [True, "1"]),
        ("is(string)", ["x"], [1]),
        ("is(array)", [[]], [{}]),
        ("is(object)", [{}], [[]]),
        ("gt(1)", [2, 1.5], [1, "2", True, UNDEFINED]),
        ("ge(1)", [1, 1.0], [0]),
        ('lt("b")', ["a", ""], ["b", 1]),
        ('le("\uffff")', ["\U0001f600"], []),
        ('like("a*")', ["ab"], ["ba", 1]),
        ("contains(1)", [[2, 1]], [[1.0], 1, {}]),
        ("containsAny(1,2)", [[2, 3]], [[3]]),
        ("containsAll(1,2)", [[1, 2, 3]], [[1, 3]]),
        ("containsOnly(1,2)", [[2, 1, 1]], [[1], [1, 2, 3]]),
        ('{..,"a":1,"b":~}', [{"a": 1}], [{"a": 1, "b": 1}, [1], {}]),
        ("not(1)", [2, UNDEFINED], [1]),
        ("and(+,not(1))", [2], [1, UNDEFINED]),
        ("or(~,gt(5))", [UNDEFINED, 6], [5]),
        ("alwaysTrue()", [UNDEFINED, 1], []),
        ("alwaysFalse()", [], [UNDEFINED, 1]),
    ],
)
def test_a_condition_holds_for_values(text: str, matching: list[Any], others: list[Any]) -> None:
    """The kind of a value counts."""
    condition = read_condition(text)
    assert [holds(condition, value, UNKNOWN) for value in matching] == [True] * len(matching)
    assert [holds(condition, value, UNKNOWN) for value in others] == [False] * len(others)


def test_a_condition_on_intrinsics() -> None:
    """It is asked of the document, not of the value."""
    about = Intrinsics(id="k", table="t")
    assert holds(read_condition('intrinsic("~id":"j","k")'), UNDEFINED, about)
    assert not holds(read_condition('intrinsic("~id":"j")'), "j", about)
    parts = [part for part in range(1, 5) if holds(read_condition(f"partition(4:{part})"), UNDEFINED, about)]
    assert len(parts) == 1
