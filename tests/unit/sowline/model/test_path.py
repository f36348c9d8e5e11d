"""Paths: their text, and what they find in a document."""

import pickle
from sys import getsizeof
from typing import Any

import pytest

from sowline.model.path import (
    PATH_STEPS_MAX,
    TEXT_BYTES,
    Path,
    PathError,
    leaves,
    parse_path,
    reader,
    value_bytes,
    value_of,
)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("/a", ("a",)),
        ("/a/b/c", ("a", "b", "c")),
        ("/data[0]", ("data", 0)),
        ("/m[1][20]/x", ("m", 1, 20, "x")),
        ("/a/@b", ("a", "@b")),
        ("/55", ("55",)),
        ("/0/name", ("0", "name")),
        ("/a-b.c:d_e", ("a-b.c:d_e",)),
        ("/größe", ("größe",)),
        ("[/unit price]", ("unit price",)),
        ("[/a b/c d]", ("a b", "c d")),
        ("/a[/b c][0]/d", ("a", "b c", 0, "d")),
        ("[/$id]", ("$id",)),
    ],
)
def test_text_to_steps(text: str, steps: tuple[str | int, ...]) -> None:
    """A path's text gives its steps, and the steps give a text that reads back as the same path."""
    path = parse_path(text)
    assert path == Path(steps)
    assert parse_path(str(path)) == path


@pytest.mark.parametrize("text", ["/a/b", "/data[0]", "/a/@b", "[/unit price]", "/a[/b c][0]/d"])
def test_plain_text_is_canonical(text: str) -> None:
    """A path prints as it is usually written."""
    assert str(parse_path(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "a",
        "//a",
        "/a/",
        "/a b",
        "[/]",
        "[//a]",
        "[/a",
        "/a[",
        "/a[x]",
        "/a[-1]",
        "[0]",
        "/a\n",
        "/*",
    ],
)
def test_what_is_no_path_is_refused(text: str) -> None:
    """A text that is no path is refused with the reason code `bad path`."""
    with pytest.raises(PathError, match="expected a") as error:
        parse_path(text)
    assert error.value.reason == "bad path"


def test_an_endless_subscript_is_refused() -> None:
    """A subscript has a limit, and a refusal quotes only the beginning of a long text."""
    with pytest.raises(PathError, match="at most 9 digits") as error:
        parse_path(f"/a[{'9' * 5000}]")
    assert len(error.value.message) < 200


DOCUMENT: dict[str, Any] = {
    "number": 5,
    "zero": 0,
    "no": False,
    "text": "x",
    "empty": "",
    "null": None,
    "list": [1, "", None, "z"],
    "empty_list": [],
    "empty_lists": [[], [[]]],
    "nested": [[1, 2], [3, [4]]],
    "object": {"inner": {"leaf": 7}, "": 1},
    "objects": [{"x": 1}, {"y": 0}, {"x": None}, 9, [{"x": [2, 3]}]],
    "a b": {"c": 8},
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("/number", 5),
        ("/zero", 0),
        ("/no", False),
        ("/text", "x"),
        ("/empty", None),
        ("/null", None),
        ("/missing", None),
        ("/list", [1, None, None, "z"]),
        ("/empty_list", None),
        ("/empty_lists", None),
        ("/nested", [1, 2, 3, 4]),
        ("/nested[1]", [3, 4]),
        ("/nested[1][1]", [4]),
        ("/nested[1][1][0]", 4),
        ("/object", None),
        ("/object/inner/leaf", 7),
        ("/object/inner/leaf/deeper", None),
        ("/object/missing/leaf", None),
        ("/objects", [9]),
        ("/objects/x", [1, None, 2, 3]),
        ("/objects/x[2]", 2),
        ("/objects[0]/x", 1),
        ("/objects[3]", 9),
        ("/objects[9]", None),
        ("/object[0]/inner/leaf", 7),
        ("/number[0]", 5),
        ("/number[1]", None),
        ("[/a b/c]", 8),
        ("/null/x", None),
    ],
)
def test_what_a_path_reads(text: str, value: object) -> None:
    """A path reads a scalar, an array merged from all that it reaches, or NULL; its reader reads the same."""
    path = parse_path(text)
    assert repr(path.read(DOCUMENT)) == repr(value)
    assert repr(reader(path)(DOCUMENT)) == repr(value)


def test_find_gives_containers() -> None:
    """`find` gives what stands at the path, containers too."""
    assert parse_path("/object/inner").find(DOCUMENT) == {"leaf": 7}
    assert parse_path("/list").find(DOCUMENT) == [1, "", None, "z"]
    assert parse_path("/missing").find(DOCUMENT) is None


def test_arrays_nest_without_limit() -> None:
    """Arrays in arrays, deeper than Python's own recursion goes, are one array."""
    nested: list[Any] = [1]
    for _ in range(10_000):
        nested = [nested, 2]
    assert sum(leaves(nested)) == 20_001
    assert parse_path("/a").read({"a": nested}) == [1] + [2] * 10_000


def test_a_value_of_an_unknown_type_is_no_value() -> None:
    """What is neither a string nor a number nor a boolean has no value."""
    unknown: Any = object()
    assert value_of(unknown) is None
    assert value_of([b"x", 1]) == [1]


def test_paths_are_values() -> None:
    """Equal paths are equal keys, and travel between processes."""
    path = parse_path("/a[0]")
    assert {path: 1}[parse_path("/a[0]")] == 1
    assert pickle.loads(pickle.dumps(path)) == path


def test_a_path_has_a_limited_number_of_steps() -> None:
    """It may be as deep as a record, and no deeper."""
    assert len(parse_path("/a" * PATH_STEPS_MAX).steps) == PATH_STEPS_MAX
    with pytest.raises(PathError, match="expected a path of at most 500 steps"):
        parse_path("/a" * (PATH_STEPS_MAX + 1))


@pytest.mark.parametrize(("text", "size"), [("", 0), ("abc", 3), ("größe", 20)])
def test_the_memory_of_a_text_is_by_its_length(text: str, size: int) -> None:
    """One byte a character, or four if any is not ASCII; it stays the same once the text was written as UTF-8."""
    assert value_bytes(text) == TEXT_BYTES + size
    text.encode()
    assert value_bytes(text) == TEXT_BYTES + size


def test_the_memory_of_an_array_has_its_elements() -> None:
    """Those of arrays within it, too; a number takes some memory, and not that of a text."""
    numbers, nested = [1, 2], [[1, 2], "abc"]
    assert value_bytes(numbers) == getsizeof(numbers) + 2 * value_bytes(1)
    assert value_bytes(nested) == getsizeof(nested) + value_bytes(numbers) + value_bytes("abc")
