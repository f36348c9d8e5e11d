"""Merging: a delta laid over a body, whose other text stays as it is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.errors import SowlineError
from sowline.model.merge import DEPTH_MAX, merge, take_out
from tests.property.model import merged

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abc"), values, max_size=3)


@given(objects, objects)
def test_a_merge_is_the_merge_of_the_parsed_bodies(old: dict[str, Any], delta: dict[str, Any]) -> None:
    """Whatever the bodies, the result parses to what merging dicts gives."""
    assert json.loads(merge(json.dumps(old).encode(), json.dumps(delta).encode())) == merged(old, delta)


@pytest.mark.parametrize(
    ("old", "delta", "result"),
    [
        ("{}", "{}", "{}"),
        ('{"a":1}', '{"b":2}', '{"a":1,"b":2}'),
        ('{"a":1}', '{"a":2}', '{"a":2}'),
        ('{"a":[1,2,3]}', '{"a":[4]}', '{"a":[4]}'),
        ('{"a":[{"b":1}]}', '{"a":[{"c":2}]}', '{"a":[{"c":2}]}'),
        ('{"a":{"b":1,"c":2}}', '{"a":{"c":3}}', '{"a":{"b":1,"c":3}}'),
        ('{"a":{"b":1}}', '{"a":{}}', '{"a":{"b":1}}'),
        ('{"a":{"b":1}}', '{"a":5}', '{"a":5}'),
        ('{"a":5}', '{"a":{"b":1}}', '{"a":{"b":1}}'),
        ('{"a":1,"b":2}', '{"a":null}', '{"a":null,"b":2}'),
        ('{"a":{"b":1}}', '{"a":null}', '{"a":null}'),
        ('{"a":null}', '{"a":{"b":1}}', '{"a":{"b":1}}'),
        ('{"a":{"b":1}}', '{"a": \n {"c":2}}', '{"a":{"b":1,"c":2}}'),
    ],
)
def test_fields_merge(old: str, delta: str, result: str) -> None:
    """Objects merge field by field, arrays and scalars are replaced whole, an explicit null sets null."""
    assert merge(old.encode(), delta.encode()) == result.encode()


@pytest.mark.parametrize(
    "text",
    [
        "1.50",
        "1e400",
        "-0.0",
        "1E5",
        "123456789012345678901234567890",
        '"\\u00e9"',
        "[1.0, 2.00]",
        '{ "x" : 1.10 }',
    ],
)
def test_what_is_not_named_keeps_its_exact_text(text: str) -> None:
    """Numbers of any size and precision survive a merge that does not name them, beside it and inside it."""
    old = f'{{"keep":{text},"in":{{"keep":{text},"x":1}}}}'
    assert merge(old.encode(), b'{"in":{"x":2}}').decode() == old.replace('"x":1}}', '"x":2}}')


@pytest.mark.parametrize("text", ["1.50", "1e400", "123456789012345678901234567890"])
def test_what_is_named_takes_the_deltas_exact_text(text: str) -> None:
    """Numbers arrive as they were written."""
    assert merge(b'{"a":1}', b'{"a":%s}' % text.encode()).decode() == f'{{"a":{text}}}'


def test_of_a_field_named_twice_the_last_counts() -> None:
    """A delta with one name twice sets it to the last of its values."""
    assert merge(b'{"a":0}', b'{"a":1,"a":2}') == b'{"a":2}'


def test_merging_has_a_depth() -> None:
    """Objects that merge deeper than the limit are refused, on whatever stack."""
    fits = b'{"a":' * (DEPTH_MAX - 1) + b'{"a":1}' + b"}" * (DEPTH_MAX - 1)
    assert merge(fits, fits) == fits
    deeper = b'{"a":%s}' % fits
    with pytest.raises(SowlineError) as error:
        merge(deeper, deeper)
    assert error.value.reason == "too deep"


def test_an_order_is_checked_by_two_workers() -> None:
    """The order of AMPS's chapter on delta publish: two workers add their part, in either order."""
    order = b'{"id":735,"customer":"Patrick","item":90123,"qty":1000,"state":"new"}'
    inventory, credit = b'{"id":735,"inventory":"available"}', b'{"id":735,"credit":"approved"}'
    expected = {
        "id": 735,
        "credit": "approved",
        "inventory": "available",
        "customer": "Patrick",
        "item": 90123,
        "qty": 1000,
        "state": "new",
    }
    assert json.loads(merge(merge(order, inventory), credit)) == expected
    assert json.loads(merge(merge(order, credit), inventory)) == expected


@pytest.mark.parametrize(
    ("old", "delta", "result"),
    [
        (
            '{"id":42,"contents":{"packages":[{"box":"chocolates"},{"bowl":"noodles"}]}}',
            '{"id":42,"contents":{"packages":[{"basket":"eggs"}]}}',
            '{"id":42,"contents":{"packages":[{"basket":"eggs"}]}}',
        ),
        ('{"id":42,"flowers":"roses"}', '{"id":42}', '{"id":42,"flowers":"roses"}'),
        (
            '{"systemId":"A34-Astro","status":"available","commandAccepted":["print","scan","fax"]}',
            '{"systemId":"A34-Astro","status":"available"}',
            '{"systemId":"A34-Astro","status":"available","commandAccepted":["print","scan","fax"]}',
        ),
    ],
)
def test_the_chapters_examples(old: str, delta: str, result: str) -> None:
    """Packages are replaced, flowers stay, and a value that is the same is set again."""
    assert merge(old.encode(), delta.encode()).decode() == result


# taking fields out


@pytest.mark.parametrize(
    ("body", "paths", "result"),
    [
        ('{"a":1}', [], '{"a":1}'),
        ('{ "a" : 1.50 }', [], '{ "a" : 1.50 }'),
        ('{"a":1,"b":2}', ["/a"], '{"b":2}'),
        ('{"a":1,"b":2}', ["/a", "/b"], "{}"),
        ('{"a":1,"b":2}', ["/c"], '{"a":1,"b":2}'),
        ('{"a":{"b":1,"c":2},"d":3}', ["/a/b"], '{"a":{"c":2},"d":3}'),
        ('{"a":{"b":1,"c":2},"d":3}', ["/a/b", "/a/c"], '{"a":{},"d":3}'),
        ('{"a":{"b":{"c":1,"d":2}}}', ["/a/b/c"], '{"a":{"b":{"d":2}}}'),
        ('{"a":{"b":1,"c":2}}', ["/a", "/a/b"], "{}"),
        ('{"a":{"b":1,"c":2}}', ["/a/b", "/a"], "{}"),
        ('{"a":{"b":{"c":1}}}', ["/a", "/a/b/c"], "{}"),
        ('{"a":{"b":1}}', ["/b"], '{"a":{"b":1}}'),
        ('{"a":1}', ["/a/b"], '{"a":1}'),
        ('{"a":null}', ["/a/b"], '{"a":null}'),
        ('{"a":[{"b":1}]}', ["/a/b"], '{"a":[{"b":1}]}'),
        ('{"a":{"b":1}}', ["/c/b"], '{"a":{"b":1}}'),
        ('{"a":{"b":5}}', ["/a/b/c"], '{"a":{"b":5}}'),
        ('{"keep":1.50,"in":{"x":1,"keep":1e400}}', ["/in/x"], '{"keep":1.50,"in":{"keep":1e400}}'),
    ],
)
def test_fields_are_taken_out(body: str, paths: list[str], result: str) -> None:
    """At any depth; a field that is not there, or that is no object, has nothing to lose."""
    assert take_out(body.encode(), paths).decode() == result


def without(value: Any, steps: list[str]) -> Any:
    """The parsed body without the field at a path."""
    if not isinstance(value, dict) or steps[0] not in value:
        return value
    rest = {name: inner for name, inner in value.items() if name != steps[0]}
    return rest if len(steps) == 1 else value | {steps[0]: without(value[steps[0]], steps[1:])}


@given(objects, st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3), max_size=3))
def test_taking_out_is_that_of_the_parsed_body(body: dict[str, Any], paths: list[list[str]]) -> None:
    """Whatever the body, and in whatever order the paths come."""
    expected: Any = body
    for steps in paths:
        expected = without(expected, steps)
    found = take_out(json.dumps(body).encode(), ["/" + "/".join(steps) for steps in paths])
    assert json.loads(found) == expected
