"""Writes a tree as its canonical text: one text for each tree, which parses to the same tree."""

from collections.abc import Iterable, Sequence

from sowline.language.emodb.conditions import by_weight
from sowline.language.emodb.json_text import json_text, quoted
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
from sowline.language.emodb.values import Json

Part = str | Delta | Condition
"""Text, or a node that is not written yet."""


def text_of(node: Delta | Condition) -> str:
    """Return the canonical text of a delta or a condition, at any nesting depth."""
    pieces: list[str] = []
    rest: list[Part] = [node]
    while rest:
        part = rest.pop()
        if isinstance(part, str):
            pieces.append(part)
        else:
            rest.extend(reversed(_parts(part)))
    return "".join(pieces)


def _parts(node: Delta | Condition) -> Sequence[Part]:
    match node:
        case LiteralDelta(value) | Equal(value):
            return (json_text(value),)
        case Delete() | Is("undefined"):
            return ("~",)
        case Noop():
            return ("..",)
        case MapDelta(keeps_rest, entries, deletes_empty):
            return ["{", *_listed(keeps_rest, _entries(entries)), "}?" if deletes_empty else "}"]
        case SetDelta():
            return _set(node)
        case Conditional():
            return _conditional(node)
        case MapTest(tests):
            return ["{", *_listed(True, _entries(tests)), "}"]
        case AndTest() | OrTest() | NotTest() | Intrinsic() | PartitionTest():
            return _compound(node)
        case _:
            return (_leaf(node),)


def _compound(node: AndTest | OrTest | NotTest | Intrinsic | PartitionTest) -> Sequence[Part]:
    match node:
        case AndTest(tests):
            return ["and(", *_separated([test] for test in tests), ")"]
        case OrTest(tests):
            return ["or(", *_separated([test] for test in tests), ")"]
        case NotTest(test):
            return ("not(", test, ")")
        case Intrinsic(name, test):
            return [f"intrinsic({quoted(name)}:", *_alternatives(test), ")"]
        case PartitionTest(count, test):
            return [f"partition({count}:", *_alternatives(test), ")"]


def _leaf(node: Constant | InTest | Is | ComparisonTest | LikeTest | Contains) -> str:
    match node:
        case Constant(holds):
            return "alwaysTrue()" if holds else "alwaysFalse()"
        case InTest(values):
            return f"in({_values(values)})"
        case Is(state):
            return "+" if state == "defined" else f"is({state})"
        case ComparisonTest(operator, operand):
            return f"{operator}({json_text(operand)})"
        case LikeTest(pattern):
            return f"like({quoted(pattern)})"
        case Contains("All", (value,)):
            return f"contains({json_text(value)})"
        case Contains(which, values):
            return f"contains{which}({_values(values)})"


def _values(values: Iterable[Json]) -> str:
    return ",".join(sorted(map(json_text, values), key=utf16))


def _alternatives(test: Condition) -> list[Part]:
    """Return the tests for a position that takes several, without the `or` around them or a single `in`."""
    if isinstance(test, InTest):
        return [_values(test.values)]
    return _separated([one] for one in by_weight(test.tests)) if isinstance(test, OrTest) else [test]


def _set(delta: SetDelta) -> list[Part]:
    items = [json_text(value) for value in delta.added] + ["~" + json_text(value) for value in delta.removed]
    listed = _listed(delta.keeps_rest, ([item] for item in items))
    return ["(", *listed, ")?" if delta.deletes_empty else ")"]


def _conditional(delta: Conditional) -> list[Part]:
    parts: list[Part] = []
    for test, inner in delta.cases:
        parts += ("elif " if parts else "if ", test, " then ", inner, " ")
    if not isinstance(delta.otherwise, Noop):
        parts += ("else ", delta.otherwise, " ")
    return [*parts, "end"]


def _entries(entries: Iterable[tuple[str, Delta]] | Iterable[tuple[str, Condition]]) -> Iterable[list[Part]]:
    return ([quoted(key) + ":", node] for key, node in entries)


def _listed(keeps_rest: bool, items: Iterable[list[Part]]) -> list[Part]:
    return _separated([[".."], *items] if keeps_rest else items)


def _separated(items: Iterable[list[Part]]) -> list[Part]:
    parts: list[Part] = []
    for item in items:
        if parts:
            parts.append(",")
        parts += item
    return parts
