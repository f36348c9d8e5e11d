"""The nodes of deltas in canonical form: constant parts are evaluated when a text is parsed."""

import pytest

from sowline.language.emodb.conditions import ALWAYS, NEVER
from sowline.language.emodb.deltas import (
    DELETE,
    NOOP,
    always_defined,
    conditional,
    is_constant,
    literal_of,
    map_delta,
    members_delta,
    plain_map,
    set_delta,
)
from sowline.language.emodb.printer import text_of
from sowline.language.emodb.tree import Delta, Equal, LiteralDelta

ONE, TWO = LiteralDelta(1), LiteralDelta(2)
IS_ONE, IS_TWO = Equal(1), Equal(2)
EMPTY_SET = set_delta(False, [], [], True)


@pytest.mark.parametrize(
    ("delta", "text"),
    [
        (
            map_delta(False, [("b", ONE), ("a", set_delta(False, [2, 1], [], False))], False),
            '{"a":[1,2],"b":1}',
        ),
        (map_delta(False, [("a", DELETE)], False), "{}"),
        (map_delta(False, [("a", EMPTY_SET)], True), "~"),
        (map_delta(False, [("a", NOOP)], True), '{"a":..}?'),
        (map_delta(True, [("a", ONE)], True), '{..,"a":1}'),
        (map_delta(True, [("a", DELETE)], True), '{..,"a":~}?'),
        (members_delta({"b": 1, "a": 2}), '{..,"a":2,"b":1}'),
        (plain_map([("a", 1), ("b", 2)]), '{..,"a":1,"b":2}'),
        (set_delta(True, [2, 1, 1.0], [3], False), "(..,1,2,~3)"),
        (conditional([(IS_ONE, TWO)], NOOP), "if 1 then 2 end"),
        (conditional([(NEVER, ONE)], TWO), "2"),
        (conditional([(IS_ONE, TWO), (ALWAYS, ONE), (IS_TWO, DELETE)], NOOP), "if 1 then 2 else 1 end"),
        (
            conditional([(IS_ONE, TWO)], conditional([(IS_TWO, ONE)], DELETE)),
            "if 1 then 2 elif 2 then 1 else ~ end",
        ),
    ],
)
def test_a_delta_is_canonical(delta: Delta, text: str) -> None:
    """What has one result is that result, and cases that never apply are left out."""
    assert text_of(delta) == text


@pytest.mark.parametrize(
    ("delta", "constant", "defined"),
    [
        (ONE, True, True),
        (DELETE, True, False),
        (NOOP, False, False),
        (EMPTY_SET, True, False),
        (set_delta(True, [], [], False), False, True),
        (map_delta(True, [], True), False, False),
        (conditional([(IS_ONE, TWO)], ONE), False, True),
        (conditional([(IS_ONE, TWO)], NOOP), False, False),
        (conditional([(IS_ONE, DELETE)], ONE), False, False),
    ],
)
def test_what_is_known_of_a_result(delta: Delta, constant: bool, defined: bool) -> None:
    """Whether it is always the same, and whether there always is one."""
    assert (is_constant(delta), always_defined(delta)) == (constant, defined)


def test_a_set_has_only_values() -> None:
    """A delta that computes its value is none."""
    assert literal_of(ONE) == 1
    with pytest.raises(ValueError, match="expected only values in a set, got ~"):
        literal_of(DELETE)


@pytest.mark.parametrize(("added", "removed"), [([1], [1]), ([0, 0.0], []), ([], ["a", "a"])])
def test_a_value_of_a_set_is_given_once(added: list[object], removed: list[object]) -> None:
    """0 and 0.0 are one value here, though 1 and 1.0 are two."""
    with pytest.raises(ValueError, match=r"expected each value of a set once, got .+ twice"):
        set_delta(True, added, removed, False)
    assert text_of(set_delta(True, [1], [1.0], False)) == "(..,1,~1.0)"
