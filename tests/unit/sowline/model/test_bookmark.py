"""Bookmarks: the grammar of their text."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.errors import SowlineError
from sowline.model.bookmark import (
    LOGS_MAX,
    Positions,
    format_bookmark,
    format_position,
    format_time,
    lay_over,
    named_bookmark,
    parse_bookmark,
    read_position,
    read_time,
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


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("19700101T000001Z", 1_000_000),
        (" 19700101T000001.5Z ", 1_500_000),
        ("19700101T000000.000001Z", 1),
        ("19691231T235959Z", 0),
        ("1970-01-01", None),
        ("now", None),
    ],
)
def test_a_time_is_microseconds_since_1970(text: str, time: int | None) -> None:
    """No record is older; any other text is no time."""
    assert read_time(text) == time


@pytest.mark.parametrize("text", ["20261321T120000Z", "20260230T120000Z", "20261121T250000Z"])
def test_a_time_that_does_not_exist_is_refused(text: str) -> None:
    """It has the form of a time, so it is no other bookmark."""
    with pytest.raises(SowlineError, match="expected a time like 20261121T120000Z"):
        read_time(text)


def test_a_time_of_python_is_a_bookmark_in_utc() -> None:
    """Whatever its zone."""
    zone = timezone(timedelta(hours=2))
    assert format_time(datetime(2026, 11, 21, 14, tzinfo=zone)) == "20261121T120000.000000Z"
    assert format_time(datetime(7, 1, 2, tzinfo=UTC)) == "00070102T000000.000000Z"
    with pytest.raises(SowlineError, match="expected a time with a zone, got 2026-11-21T00:00:00"):
        format_time(datetime(2026, 11, 21))
    with pytest.raises(SowlineError, match="expected a time in the years 1 to 9999 of UTC"):
        format_time(datetime(1, 1, 1, tzinfo=zone))


def test_the_bookmark_of_a_message_names_its_partition() -> None:
    """A log's name may contain a colon nowhere, but a topic's slash is a dot in it."""
    text = format_position("eu.orders", 3, Position(1, 7, 2))
    assert read_position(text) == ("eu.orders", 3, Position(1, 7, 2))


def test_a_bookmark_has_so_many_logs() -> None:
    """More would take long to read."""
    text = ";".join(f"a{number}:0@1" for number in range(LOGS_MAX))
    assert len(parse_bookmark(text)) == LOGS_MAX
    with pytest.raises(SowlineError, match=f"at most {LOGS_MAX} logs, got {LOGS_MAX + 1}"):
        parse_bookmark(f"{text};b:0@1")
