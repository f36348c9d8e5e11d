"""Applies deltas to values, and evaluates conditions. Neither ever raises.

Each level of a delta takes one call, so that the deepest delta that can be parsed fits on the stack.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from sowline.language.emodb.intrinsics import FIELDS, Intrinsics
from sowline.language.emodb.like import matches
from sowline.language.emodb.partition import partition_of
from sowline.language.emodb.text_order import utf16
from sowline.language.emodb.tree import (
    AndTest,
    ComparisonTest,
    Condition,
    Conditional,
    Constant,
    Contains,
    Delete,
    Delta,
    Equal,
    InTest,
    Intrinsic,
    Is,
    LikeTest,
    LiteralDelta,
    MapDelta,
    MapTest,
    Noop,
    NotTest,
    OrTest,
    PartitionTest,
    SetDelta,
)
from sowline.language.emodb.values import (
    UNDEFINED,
    Json,
    Undefined,
    as_set,
    compare_numbers,
    identity,
    same,
    set_key,
)
from sowline.model.json_parts import Part

Given = Part | Undefined


def apply(delta: Delta, value: Given, about: Intrinsics) -> Given:
    """Return the value after the delta. The given value is not changed, but the result contains parts of it."""
    return _APPLY[type(delta)](delta, value, about)


def holds(test: Condition, value: Given, about: Intrinsics) -> bool:
    """Whether the condition holds for the value."""
    return _HOLDS[type(test)](test, value, about)


def _map(delta: MapDelta, value: Given, about: Intrinsics) -> Given:
    members = value if type(value) is dict else {}
    made = dict(members) if delta.keeps_rest else {}
    for key, inner in delta.entries:
        member = _APPLY[type(inner)](inner, members.get(key, UNDEFINED), about)
        if member is UNDEFINED:
            made.pop(key, None)
        else:
            made[key] = member
    return UNDEFINED if delta.deletes_empty and not made else made


def _set(delta: SetDelta, value: Given, about: Intrinsics) -> Given:
    elements = list(delta.added)
    if delta.keeps_rest and type(value) is list:
        elements = as_set([*elements, *_remaining(value, delta.removed)])
    return UNDEFINED if delta.deletes_empty and not elements else elements


def _remaining(elements: list[Json], removed: tuple[Json, ...]) -> list[Json]:
    """Return the elements that are not removed."""
    if not removed:
        return elements
    if len(removed) == 1 and type(removed[0]) in (int, float):
        # If only one number is removed, all equal numbers are removed: 0 removes -0.0, but 0.0 does not.
        number = removed[0]
        return [element for element in elements if not _is_number_equal(element, number)]
    keys = sorted(map(set_key, removed))
    return [element for element in elements if not _is_among(set_key(element), keys)]


def _is_among(key: tuple[int, Any], ordered: list[tuple[int, Any]]) -> bool:
    index = bisect_left(ordered, key)
    return index < len(ordered) and ordered[index] == key


def _is_number_equal(element: Json, number: int | float) -> bool:
    """Whether an element equals a number as EmoDB's literals do: of one kind, or by value if the kinds differ."""
    if type(element) is type(number):
        return same(element, number)
    return type(element) in (int, float) and float(element) == float(number)


def _conditional(delta: Conditional, value: Given, about: Intrinsics) -> Given:
    for test, inner in delta.cases:
        if _HOLDS[type(test)](test, value, about):
            return _APPLY[type(inner)](inner, value, about)
    otherwise = delta.otherwise
    return _APPLY[type(otherwise)](otherwise, value, about)


def _map_test(test: MapTest, value: Given, about: Intrinsics) -> bool:
    if type(value) is not dict:
        return False
    for key, inner in test.tests:  # noqa: SIM110 - a generator would take a second call for each level
        if not _HOLDS[type(inner)](inner, value.get(key, UNDEFINED), about):
            return False
    return True


def _and(test: AndTest, value: Given, about: Intrinsics) -> bool:
    for inner in test.tests:  # noqa: SIM110 - as in `_map_test`
        if not _HOLDS[type(inner)](inner, value, about):
            return False
    return True


def _or(test: OrTest, value: Given, about: Intrinsics) -> bool:
    for inner in test.tests:  # noqa: SIM110 - as in `_map_test`
        if _HOLDS[type(inner)](inner, value, about):
            return True
    return False


def _not(test: NotTest, value: Given, about: Intrinsics) -> bool:
    inner = test.test
    return not _HOLDS[type(inner)](inner, value, about)


def _intrinsic(test: Intrinsic, value: Given, about: Intrinsics) -> bool:
    inner = test.test
    return _HOLDS[type(inner)](inner, getattr(about, FIELDS[test.name]), about)


def _partition(test: PartitionTest, value: Given, about: Intrinsics) -> bool:
    inner = test.test
    return _HOLDS[type(inner)](inner, partition_of(about, test.count), about)


def _in(test: InTest, value: Given, about: Intrinsics) -> bool:
    for one in test.values:  # noqa: SIM110 - as in `_map_test`
        if same(one, value):
            return True
    return False


def _contains(test: Contains, value: Given, about: Intrinsics) -> bool:
    if type(value) is not list:
        return False
    # By identities: in a set of Python, 1, 1.0 and True are one element.
    elements = set(map(identity, value))
    wanted = set(map(identity, test.values))
    if test.which == "Any":
        return not wanted.isdisjoint(elements)
    return wanted == elements if test.which == "Only" else wanted <= elements


def _compare(test: ComparisonTest, value: Any, about: Intrinsics) -> bool:
    operand: Any = test.operand
    if type(operand) is str:
        if type(value) is not str:
            return False
        one, other = utf16(value), utf16(operand)
        return _VERDICTS[test.operator]((one > other) - (one < other))
    # By `type`: a boolean is an int to `isinstance`, but no number here (test_a_condition_holds_for_values).
    return type(value) in (int, float) and _VERDICTS[test.operator](compare_numbers(value, operand))


_VERDICTS: dict[str, Callable[[int], bool]] = {
    "gt": lambda order: order > 0,
    "ge": lambda order: order >= 0,
    "lt": lambda order: order < 0,
    "le": lambda order: order <= 0,
}

_TYPES: dict[str, tuple[type, ...]] = {
    "undefined": (Undefined,),
    "bool": (bool,),
    "num": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}


def _is(test: Is, value: Given, about: Intrinsics) -> bool:
    return value is not UNDEFINED if test.state == "defined" else type(value) in _TYPES[test.state]


_APPLY: dict[type, Callable[[Any, Given, Intrinsics], Given]] = {
    LiteralDelta: lambda delta, value, about: delta.value,
    Delete: lambda delta, value, about: UNDEFINED,
    Noop: lambda delta, value, about: value,
    MapDelta: _map,
    SetDelta: _set,
    Conditional: _conditional,
}

_HOLDS: dict[type, Callable[[Any, Given, Intrinsics], bool]] = {
    Constant: lambda test, value, about: test.holds,
    Equal: lambda test, value, about: same(test.value, value),
    InTest: _in,
    Is: _is,
    ComparisonTest: _compare,
    LikeTest: lambda test, value, about: type(value) is str and matches(test.pieces, value),
    Contains: _contains,
    Intrinsic: _intrinsic,
    PartitionTest: _partition,
    MapTest: _map_test,
    NotTest: _not,
    AndTest: _and,
    OrTest: _or,
}
