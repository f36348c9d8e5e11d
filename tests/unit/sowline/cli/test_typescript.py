"""The TypeScript interface that is inferred from records: each of them has it, and its text is always the same."""

import json
from collections.abc import Iterator
from decimal import Decimal
from types import NoneType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.cli.typescript import (
    INTEGER_MAX,
    LEVELS_MAX,
    NAMES_MAX,
    InferredType,
    inferred,
    parsed,
    typescript_of,
)

LONG = '/** Integers beyond 2^53 are rounded. With integers: "bigint" they are bigint, with "text" string. */'


def body_of(record: dict[str, Any]) -> bytes:
    """Return a record as JSON."""
    return json.dumps(record).encode()


def shown(*records: dict[str, Any]) -> list[str]:
    """Return the lines of the interface between its braces, without the indent that all have."""
    lines = typescript_of("orders", "Order", [body_of(record) for record in records]).splitlines()
    assert (lines[3], lines[-1]) == ("export interface Order {", "}")
    return [line.removeprefix("  ") for line in lines[4:-1]]


def test_the_whole_text() -> None:
    """Its head has the size of the sample and the topic; fields are in the order of their names."""
    assert typescript_of("orders", "Order", [b'{"qty": 1.5, "id": "a"}', b'{"id": "b"}']) == (
        "// Inferred by `sowline types` from a sample: 2 records of the topic orders.\n"
        "// Records that are not in the sample may have other fields, and values of other types.\n"
        "\n"
        "export interface Order {\n"
        "  id: string;\n"
        "  qty?: number;\n"
        "}\n"
    )
    assert " 1 record of the topic orders." in typescript_of("orders", "Order", [b"{}"])
    assert " 1,200 records of " in typescript_of("orders", "Order", [b"{}"] * 1200)


@pytest.mark.parametrize(
    ("values", "type"),
    [
        (["a"], "string"),
        ([1, 1.5, -3e300], "number"),
        ([True], "boolean"),
        ([None], "null"),
        ([None, "a"], "string | null"),
        (
            [None, [], {"x": 1}, False, 1, "a"],
            "string | number | boolean | {\n  x: number;\n} | unknown[] | null",
        ),
        ([[]], "unknown[]"),
        ([[], [1]], "number[]"),
        ([[1, "a"], [None]], "(string | number | null)[]"),
        ([[[1], []]], "number[][]"),
        ([[{"x": 1}, {"y": 2}]], "{\n  x?: number;\n  y?: number;\n}[]"),
        ([{}], "{\n  [name: string]: unknown;\n}"),
        ([{}, {"x": {"y": None}}], "{\n  x?: {\n    y: null;\n  };\n}"),
    ],
)
def test_types_of_values(values: list[Any], type: str) -> None:
    """A union has what the samples have, in an order of its own."""
    assert "\n".join(shown(*({"v": value} for value in values))) == f"v: {type};"
    assert shown(*({"v": value} for value in reversed(values))) == f"v: {type};".split("\n")


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("qty", "qty"),
        ("_a$1", "_a$1"),
        ("new", "new"),
        ("", '""'),
        ("1a", '"1a"'),
        ("a-b", '"a-b"'),
        ("größe", '"größe"'),
        ('"\\', r'"\"\\"'),
        ("\n\u2028", r'"\n\u2028"'),
        ("\ud800", r'"\ud800"'),
    ],
)
def test_names_that_are_no_identifiers_are_quoted(name: str, field: str) -> None:
    """What can't be printed is escaped."""
    assert shown({name: 1}) == [f"{field}: number;"]
    assert f"{field}?: number;" in shown({name: 1}, {"x": 1})


def test_long_integers_are_marked() -> None:
    """They are integers that no number of JavaScript holds. A client does not keep 1e300 exact."""
    assert shown({"v": INTEGER_MAX}, {"v": -INTEGER_MAX}, {"v": 1e300}) == ["v: number;"]
    for value in (INTEGER_MAX + 1, -INTEGER_MAX - 1, 10**4000):
        assert shown({"v": 1}, {"v": value}) == [LONG, "v: number;"]
    assert shown({"v": [[2**60], "a"]}) == [LONG, "v: (string | number[])[];"]
    assert shown({"v": [{"w": 2**60}]}) == ["v: {", f"  {LONG}", "  w: number;", "}[];"]
    assert inferred([parsed(b"1" * 5000)]).has_long_integers


def test_objects_with_arbitrary_names() -> None:
    """Many names, none of them in every object, and values of one kind, null aside."""
    prices = [{f"s{number}": number} for number in range(NAMES_MAX + 1)]
    entries = ["v: {", "  [name: string]: number;", "};"]
    assert shown(*({"v": one} for one in prices)) == entries
    assert (
        shown(*({"v": one} for one in prices), {"v": {"s1": None}})[1] == "  [name: string]: number | null;"
    )
    assert shown(*({"v": one} for one in prices[1:])) != entries
    assert shown(*({"v": one} for one in prices), {"v": {"s1": "text"}})[2] == "  s1?: string | number;"
    assert shown(*({"v": {**one, "s": 1}} for one in prices))[1] == "  s: number;"
    long = [*prices, {"s0": 2**60}]
    assert shown(*({"v": one} for one in long)) == ["v: {", f"  {LONG}", *entries[1:]]


def test_a_limit_of_levels() -> None:
    """What is nested deeper than a reader can follow is not described."""
    value: Any = 1
    for _ in range(LEVELS_MAX - 2):
        value = [value]
    assert shown({"v": value}) == [f"v: number{'[]' * (LEVELS_MAX - 2)};"]
    assert shown({"v": [value]}) == [f"v: unknown{'[]' * (LEVELS_MAX - 1)};"]
    for _ in range(400):
        value = {"a": value}
    assert "unknown" in "".join(shown({"v": value}))


def is_unknown(type: InferredType) -> bool:
    """Return whether a type has nothing, which stands for everything."""
    return not type.scalars and type.members is None and type.items is None


def admits(type: InferredType, value: Any) -> bool:
    """Return whether a value is assignable to a type, as TypeScript has it."""
    if is_unknown(type):
        return True
    if isinstance(value, list):
        items = type.items
        return items is not None and all(admits(items, item) for item in value)
    if isinstance(value, dict):
        return type.members is not None and admits_fields(type, value)
    kind = {str: "string", bool: "boolean", NoneType: "null"}.get(value.__class__, "number")
    return kind in type.scalars


def admits_fields(type: InferredType, value: dict[str, Any]) -> bool:
    """Return whether an object has every field that has to be there, and each with a value of its type."""
    members = {member.name: member for member in type.members or ()}
    if set(members) == {None}:
        return all(admits(members[None].type, held) for held in value.values())
    required = {name for name, member in members.items() if not member.is_optional}
    known = set(value) <= set(members)
    return known and required <= set(value) and all(admits(members[name].type, value[name]) for name in value)


scalars = (
    st.none()
    | st.booleans()
    | st.integers().map(Decimal)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=2)
)
names = st.sampled_from(["id", "a", "b", "a-b", ""])
maps = st.dictionaries(st.integers(0, 60).map(str), st.integers().map(Decimal), min_size=12, max_size=30)
values = st.recursive(
    scalars | maps,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
records = st.lists(st.dictionaries(names, values, max_size=4), min_size=1, max_size=8)


@given(records)
@example([{"a": {str(number): number}} for number in map(Decimal, range(NAMES_MAX + 1))])
@example([{"a": {}}, {"a": {"b": "x"}}])
def test_each_sample_has_the_type(sample: list[dict[str, Any]]) -> None:
    """Whatever the records are."""
    type = inferred(sample)
    assert [record for record in sample if not admits(type, record)] == []


@given(records, st.randoms(use_true_random=False))
def test_the_order_of_records_and_fields_makes_no_difference(
    sample: list[dict[str, Any]], random: Any
) -> None:
    """The same records give the same text."""
    texts = [json.dumps(record, default=int).encode() for record in sample]
    moved = [json.dumps(dict(reversed(record.items())), default=int).encode() for record in sample]
    random.shuffle(moved)
    assert typescript_of("t", "T", moved) == typescript_of("t", "T", texts)


def narrower(type: InferredType) -> Iterator[InferredType]:
    """Yield each type that allows one thing less: a part of a union, or that a field is absent."""
    parts = [type._replace(scalars=type.scalars - {kind}) for kind in type.scalars]
    parts += [type._replace(items=None)] if type.items is not None else []
    parts += [type._replace(members=None)] if type.members is not None else []
    yield from (part for part in parts if not is_unknown(part))
    if type.items is not None:
        yield from (type._replace(items=items) for items in narrower(type.items))
    if type.members is not None:
        for at, member in enumerate(type.members):
            less = [member._replace(type=one) for one in narrower(member.type)]
            less += [member._replace(is_optional=False)] if member.is_optional else []
            for one in less:
                yield type._replace(members=(*type.members[:at], one, *type.members[at + 1 :]))


@given(records)
@example([{"a": {str(number): number}} for number in map(Decimal, range(NAMES_MAX + 1))])
def test_the_type_is_the_narrowest(sample: list[dict[str, Any]]) -> None:
    """With anything less, it would refuse a sample."""
    for type in narrower(inferred(sample)):
        assert not all(admits(type, record) for record in sample)
