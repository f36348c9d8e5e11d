"""Bookmarks: positions by partition, and what is at or after what."""

import pytest

from sowline.check.judge.bookmarks import covers, named_position, position_text, read_bookmark


def test_a_bookmark_of_two_topics() -> None:
    """With eras and indexes, and a topic whose name has a colon's neighbors."""
    assert read_bookmark("a.b:0@7,1@2/8.3;c:0@1") == {
        ("a.b", 0): (0, 7, 0),
        ("a.b", 1): (2, 8, 3),
        ("c", 0): (0, 1, 0),
    }


@pytest.mark.parametrize("text", ["", "epoch", "now", "20261121T120000Z", "0@1", "a:0", ":0@1"])
def test_no_positions(text: str) -> None:
    """Names and times have none."""
    assert read_bookmark(text) == {}


@pytest.mark.parametrize(
    ("text", "position"), [("a:1@5", (("a", 1), (0, 5, 0))), ("a:0@1,1@5", None), ("epoch", None)]
)
def test_the_position_of_a_live_message(text: str, position: object) -> None:
    """It has exactly one."""
    assert named_position(text) == position


@pytest.mark.parametrize(
    ("bookmark", "other", "is_covered"),
    [
        ("a:0@5,1@5", "a:0@5", True),
        ("a:0@5,1@5", "a:1@6", False),
        ("a:0@5.1", "a:0@5", True),
        ("a:0@1/2", "a:0@9", True),
        ("a:0@5", "b:0@1", False),
        ("a:0@5", "", True),
        ("a:0@5", "a:0@5", True),
        ("", "a:0@0", False),
        ("a:0@5", "a:0@5.1", False),
    ],
)
def test_what_a_bookmark_covers(bookmark: str, other: str, is_covered: bool) -> None:
    """Each partition that the other names, eras first."""
    assert covers(bookmark, other) is is_covered


@pytest.mark.parametrize("text", ["a:0@7", "a:0@7.3", "b.c:12@2/7.3"])
def test_a_position_as_text(text: str) -> None:
    """As services write it."""
    found = named_position(text)
    assert found is not None
    assert position_text(*found) == text
