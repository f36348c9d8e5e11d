"""Reading members: the quick ways and the sure one give the same."""

from typing import Any

import orjson
import pytest

from sowline.model.path import parse_path
from sowline_query_service.index.cells import ABSENT
from sowline_query_service.index.read import reader_of


def read(paths: list[str], *bodies: bytes | None) -> list[list[Any]]:
    """The values by path."""
    return reader_of([parse_path(path) for path in paths])(bodies)


def test_values_by_path_in_the_order_of_the_bodies() -> None:
    """What is missing is null, and no body gives no value."""
    bodies = (b'{"a": 1, "b": "x", "other": [1, 2]}', None, b'{"b": null}')
    assert read(["/a", "/b"], *bodies) == [[1, ABSENT, None], ["x", ABSENT, None]]


def test_deeper_paths_look_through_arrays() -> None:
    """As their readers do; paths may share a member."""
    bodies = (b'{"a": {"b": 5}}', b'{"a": [{"b": 1}, {"b": 2}]}', b"{}")
    assert read(["/a/b", "/a[0]/b", "/a"], *bodies) == [
        [5, [1, 2], None],
        [5, 1, None],
        [{"b": 5}, [{"b": 1}, {"b": 2}], None],
    ]


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": 1, "a": 2}',
        b'{"a": 18446744073709551616}',
        b'{"a": 18446744073709551615}',
        b'{"a": -9223372036854775809}',
        b'{"a": -0, "b": 0}',
        b'{"a": -0.0}',
        b'{"a": 1e-400}',
        b'{"a": 123456789012345678901234567890.123456789e-12}',
        rb'{"\u0061": "\ud83d\ude00\n\u00e9"}',
        b'{"a": [1, {"b": 18446744073709551616}]}',
        b'{"a": {"x": 1, "x": 2}}',
        b'{"other": ' + b"[" * 1000 + b"]" * 1000 + b"}",
        b' {"a" : true , "b":false}\n',
    ],
)
def test_the_value_is_that_of_the_whole_body(body: bytes) -> None:
    """Whichever way takes it, and whatever is read with it."""
    expected = orjson.loads(body).get("a")
    for bodies in ([body], [b'{"a": 5}', body]):
        values = read(["/a"], *bodies)[0]
        assert repr(values[-1]) == repr(expected)


def test_no_nesting_is_too_deep() -> None:
    """That the parser of whole bodies takes."""
    (value,) = read(["/a"], b'{"a": ' + b"[" * 1000 + b"]" * 1000 + b"}")[0]
    depth = 0
    while value:
        (value,), depth = value, depth + 1
    assert depth == 999


@pytest.mark.parametrize("name", ['q"', "back\\slash", "tab\t", "é", "@id", "unit price"])
def test_any_name_is_found(name: str) -> None:
    """Also one that JSON escapes."""
    assert read([f"[/{name}]"], orjson.dumps({name: 7})) == [[7]]


def test_nothing_to_read() -> None:
    """Neither bodies nor paths."""
    assert read(["/a"]) == [[]]
    assert read([], b'{"a": 1}') == []
