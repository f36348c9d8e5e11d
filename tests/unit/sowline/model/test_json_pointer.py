"""Tests of the parts of documents that JSON pointers name."""

from typing import Any

import pytest

from sowline.model.json_pointer import part_at

DOCUMENT = {"a": {"b/c": 1, "~": 2, "~1": 3}, "list": [{"d": 4}, None], "": 5}


@pytest.mark.parametrize(
    ("pointer", "part"),
    [
        ("", DOCUMENT),
        ("/a/b~1c", 1),
        ("/a/~0", 2),
        ("/a/~01", 3),
        ("/list/0/d", 4),
        ("/", 5),
        ("/list/1", None),
        ("/list/2", None),
        ("/list/-1", None),
        ("/list/00", None),
        ("/list/\u0660", None),
        ("/list/" + "1" * 5000, None),
        ("/list/d", None),
        ("/a/b", None),
        ("/a/~0/x", None),
    ],
)
def test_a_pointer_names_a_part_or_nothing(pointer: str, part: Any) -> None:
    """`~1` stands for a slash, `~0` for a tilde, a number for an element of an array."""
    assert part_at(DOCUMENT, pointer) == part
