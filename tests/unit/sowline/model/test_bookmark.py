"""Bookmarks: the grammar of their text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.errors import SowlineError
from sowline.model.bookmark import (
    Positions,
    format_bookmark,
    format_position,
    lay_over,
    named_bookmark,
    parse_bookmark,
)
from sowline.model.position import Position

positions = st.builds(Position, st.integers(0, 10**9), st.integers(-1, 10**18), st.integers(0, 10**9))
topics = st.from_regex(r"[A-Za-z0-9._/-]{1,20}", fullmatch=True)


@given(st.dictionaries(topics, st.dictionaries(st.integers(0, 1023), positions, min_size=1), min_size=1))
def test_every_bookmark_reads_back(held: dict[str, Positions]) -> None:
    """The text of a bookmark reads back as the same positions."""
    assert parse_bookmark(format_bookmark(held)) == held


def test_the_text_names_topics_and_partitions_in_order() -> None:
    """Partitions are written in order, eras and indexes only where they are not zero."""
    held = {"orders": {1: Position(0, 1203, 2), 0: Position(4, 1187)}, "trades": {0: Position(0, 5)}}
    assert format_bookmark(held) == "orders:0@4/1187,1@1203.2;trades:0@5"


def test_no_position_is_the_epoch() -> None:
    """A bookmark of nothing is the place before everything."""
    assert format_bookmark({}) == "epoch"
    assert format_bookmark({"orders": {}}) == "epoch"


def test_a_live_message_names_its_one_partition() -> None:
    """The bookmark of one change is that of its partition."""
    assert format_position("orders", 3, Position(0, 7, 1)) == "orders:3@7.1"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("epoch", "epoch"),
        ("0", "epoch"),
        ("NOW", "now"),
        ("0|1|", "now"),
        (" now ", "now"),
        ("orders:0@1", None),
    ],
)
def test_bookmarks_have_names(text: str, name: str | None) -> None:
    """`epoch` and `now` name places, also in AMPS's spelling."""
    assert named_bookmark(text) == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "orders",
        "orders:",
        ":0@1",
        "orders:0",
        "orders:0@",
        "orders:@1",
        "orders:x@1",
        "orders:-1@1",
        "orders:0@1,",
        "orders:0@1,0@2",
        "orders:0@1;orders:1@1",
        "orders:0@1;",
        "or ders:0@1",
        "orders:0@1, 1@2",
        "orders:1234567@1",
        "orders:٣@1",
        "epoch",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    """What is no bookmark is refused with a sentence."""
    with pytest.raises(SowlineError, match="expected") as error:
        parse_bookmark(text)
    assert error.value.reason == "invalid bookmark"


def test_a_part_is_laid_over_the_whole() -> None:
    """Partitions that the part names move to where it says; all others stay."""
    whole = {"a": {0: Position(0, 1), 1: Position(0, 1)}, "b": {0: Position(0, 9)}}
    part = {"a": {1: Position(0, 5)}, "c": {0: Position(0, 2)}}
    assert lay_over(whole, part) == {
        "a": {0: Position(0, 1), 1: Position(0, 5)},
        "b": {0: Position(0, 9)},
        "c": {0: Position(0, 2)},
    }
    assert whole["a"][1] == Position(0, 1)
