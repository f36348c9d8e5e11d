"""Whatever a record becomes, its deltas bring those who follow them to the same record."""

import json
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.model.difference import ChangeDelta, difference, union
from sowline.model.merge import merge
from sowline.model.path import parse_path
from sowline.model.select import parse_select

KEYS = (("id",), ("o", "id"))
NAMES = [
    '"id"', '"a"', '"\\u0061"', '"o"', '"o"', '"\\u006f"', '"b c"', '"\\u00fc"', '"ü"', '"@x"', '"0"',
    '"y.z"', '"[1]"', '"a/b"', '""',
]  # fmt: skip
SCALARS = [
    "0", "-0", "1", "1.0", "1.00", "1e0", "-0.0", "12345678901234567890123", "12345678901234567890124",
    "true", "null", '""', '"1"', '"a"', '"\\u0061"', '"é"', '"\\u00e9"', '"/"', '"\\/"', '"😀"',
    '"\\ud83d\\ude00"', '"\\\\"', "{}", "[]", "{ }",
]  # fmt: skip

commas = st.sampled_from([",", " ,\n"])


def arrays(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Arrays of the values, as text."""
    return st.builds(lambda held, comma: f"[{comma.join(held)}]", st.lists(values, max_size=3), commas)


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Objects of the values, as text; a name may occur twice."""
    fields = st.builds("{}:{}".format, st.sampled_from(NAMES), values)
    return st.builds(
        lambda held, comma: f"{{{comma.join(held)}}}", st.lists(fields, max_size=4, unique=True), commas
    )


values = st.recursive(
    st.sampled_from(SCALARS), lambda inner: objects(inner) | objects(inner) | arrays(inner), max_leaves=6
)
bodies = objects(values).map(str.encode)
selects = st.sampled_from(["[-/o/a]", "[-/,+/id,+/a]", "[-/,+/o/id,+/o/o]", "[-/id]", "[-/]"]).map(
    parse_select
)


def exact(body: bytes) -> str:
    """A text that two bodies share if they are the same JSON: integers by value, fractions by their text."""
    return json.dumps(json.loads(body, parse_float=lambda text: ["\0fraction", text]), sort_keys=True)


def taken_out(body: bytes, paths: Iterable[str]) -> bytes:
    """The body without the fields at the paths."""
    for path in paths:
        body = _without(body, *(step for step in parse_path(path).steps if isinstance(step, str)))
    return body


def _without(body: bytes, name: str, *below: str) -> bytes:
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    if not below:
        fields.pop(name, None)
    elif name in fields and bytes(fields[name]).startswith(b"{"):
        fields[name] = msgspec.Raw(_without(bytes(fields[name]), *below))
    return msgspec.json.encode(fields)


def followed(body: bytes, delta: ChangeDelta) -> set[str]:
    """What those hold who had the body and follow the delta, in either order."""
    if delta.whole:
        return {exact(delta.body)}
    return {
        exact(taken_out(merge(body, delta.body), delta.removed)),
        exact(merge(taken_out(body, delta.removed), delta.body)),
    }


def fields_of(value: Any, names: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """The fields of a parsed body that are no objects, and the empty objects, by the names that lead to them."""
    if not isinstance(value, dict) or not value:
        return {names: value}
    return {at: field for name in value for at, field in fields_of(value[name], (*names, name)).items()}


def expected_fields(before: Any, now: Any, names: tuple[str, ...] = ()) -> Any:
    """What a delta holds, from the rule: the key fields, and the fields that differ; None if nothing."""
    if isinstance(before, dict) and isinstance(now, dict):
        held = {name: expected_fields(before.get(name, ...), now[name], (*names, name)) for name in now}
        return {name: field for name, field in held.items() if field is not None} or None
    differs = before is ... or json.dumps(before, sort_keys=True) != json.dumps(now, sort_keys=True)
    return [now] if differs or names in KEYS else None


def unwrapped(expected: Any) -> Any:
    """The fields that `expected_fields` put in lists, so that a null is a field and no field is None."""
    if isinstance(expected, dict):
        return {name: unwrapped(field) for name, field in expected.items()}
    return expected[0] if expected else {}


def parsed(body: bytes) -> Any:
    """The body, fractions told apart by their text."""
    return json.loads(body, parse_float=lambda text: ["\0fraction", text])


@given(bodies, bodies)
@example(b'{"o":{"a":1}}', b'{"o":{}}')
@example(b'{"o":1}', b'{"o":{}}')
@example(b'{"o":{"a/b":1}}', b'{"o":{}}')
@example(b'{"a/b":{"a":1}}', b'{"a/b":{}}')
@example(b'{"a":[1]}', b'{"a":[true]}')
def test_a_delta_leads_from_a_record_to_the_next(previous: bytes, body: bytes) -> None:
    """Merged into the record before, without what was removed, it is the new record, kinds of numbers included."""
    assert followed(previous, difference(previous, body, KEYS)) == {exact(body)}


@given(bodies, bodies)
@example(b"{}", b'{"id":{"id":0}}')
@example(b"{}", b'{"o":{"id":1}}')
@example(b'{"o":{"id":1}}', b'{"o":{}}')
@example(b'{"id":1}', b'{"id":"1"}')
@example(b'{"a":1}', b'{"a":1,"id":1}')
def test_a_delta_holds_key_fields_and_what_changed_and_no_more(previous: bytes, body: bytes) -> None:
    """Its fields are those that the rule gives; it is changed if any field differs, of the key or not."""
    delta = difference(previous, body, KEYS)
    if not delta.whole:
        fields = expected_fields(parsed(previous), parsed(body))
        assert exact(delta.body) == json.dumps(unwrapped(fields), sort_keys=True)
        assert delta.changed == (exact(previous) != exact(body))


@given(bodies)
def test_a_record_that_is_written_otherwise_is_unchanged(body: bytes) -> None:
    """Order of fields, whitespace, escapes and repeated names alone are no change."""
    marked = json.dumps(json.loads(body, parse_float="\0{}".format), sort_keys=True, indent=1)
    other = re.sub(r'"\\u0000([^"]*)"', r"\1", marked).encode()
    assert exact(other) == exact(body)
    assert not difference(body, other, KEYS).changed


@given(bodies, bodies, selects)
def test_with_a_select_list_a_delta_leads_to_what_is_selected(
    previous: bytes, body: bytes, select: Any
) -> None:
    """Those who hold what was selected of the record before come to hold what is selected of the new one."""
    delta = difference(previous, body, KEYS, select)
    assert followed(select.apply(previous), delta) == {exact(select.apply(body))}


@given(st.lists(bodies, min_size=3, max_size=5), st.none() | selects)
@example([b'{"o":{"a":1,"id":2}}', b'{"o":5}', b'{"o":{"id":2}}'], None)
@example([b'{"o":{"a":{"b":1}}}', b'{"o":{"a":5}}', b'{"o":{"a":{}}}'], None)
@example(
    [b'{"o":{"a":{"b":1},"id":2}}', b'{"o":{"a":5}}', b'{"o":{"a":{"id":1}}}', b'{"o":{"a":{"id":1}}}'], None
)
@example([b'{"o":{"a":1,"id":2}}', b"{}", b'{"o":{"id":2}}'], None)
@example([b'{"o":{"a":{"b":1}}}', b'{"o":{}}', b'{"o":[{"a":1}]}'], None)
@example([b'{"o":5}', b'{"o":{"a":1}}', b'{"o":{}}'], None)
@example([b'{"o":{"a":1}}', b'{"o":{}}', b"{}", b'{"o":7}', b'{"o":{}}'], None)
def test_a_union_leads_from_the_first_record_to_the_last(states: list[bytes], select: Any) -> None:
    """However often a record changes in an interval, one delta makes up for all; it names what any of them named."""
    last, (first, *deltas) = states[-1], _differences(states, select)
    conflated = first
    for delta, body in zip(deltas, states[2:], strict=True):
        conflated = union(conflated, delta, body, select)
    start, end = (state if select is None else select.apply(state) for state in (states[0], last))
    assert followed(start, conflated) == {exact(end)}
    if not conflated.whole:
        names = {at for delta in (first, *deltas) for at in fields_of(json.loads(delta.body))}
        sent, there = fields_of(json.loads(conflated.body)), fields_of(json.loads(end))
        assert names & there.keys() <= sent.keys()
        assert conflated.changed == any(delta.changed for delta in (first, *deltas))


def _differences(states: list[bytes], select: Any) -> list[ChangeDelta]:
    return [difference(previous, body, KEYS, select) for previous, body in pairwise(states)]
