"""What the language of deltas and conditions returns."""

from collections.abc import Iterator
from typing import Any, assert_type

from sowline.emodb import (
    Condition,
    Delta,
    Intrinsics,
    Undefined,
    compile_condition,
    parse_delta,
    parse_deltas,
    same,
)


def conditions(condition: Condition, about: Intrinsics) -> None:
    """A condition holds for a value or not."""
    assert_type(compile_condition("alwaysTrue()"), Condition)
    assert_type(condition.text, str)
    assert_type(condition.needs_about, bool)
    assert_type(condition.may_hold_escapes, bool)
    assert_type(condition.matches({"status": "open"}), bool)
    assert_type(condition.matches_about({"status": "open"}, about), bool)
    assert_type(same(1, 1.0), bool)


def deltas(delta: Delta) -> None:
    """A text holds one delta or several."""
    assert_type(delta.text, str)
    assert_type(delta.needs_about, bool)
    assert_type(delta.may_hold_escapes, bool)
    assert_type(delta.apply({"qty": 1}), Any | Undefined)
    assert_type(parse_delta('{..,"qty":1}'), Delta)
    assert_type(parse_deltas('{..,"qty":1};'), Iterator[Delta])
