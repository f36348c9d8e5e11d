"""Spans: where a subscription begins and ends, as text."""

import contextlib
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.errors import SowlineError
from sowline.model.bookmark import Positions, format_bookmark, format_time, read_time
from sowline.model.bookmark_range import (
    BookmarkRange,
    Moment,
    Point,
    Range,
    bookmark_text,
    parse_bookmark_range,
    parse_point,
    range_text,
    split_range,
)
from sowline.model.position import Position
from sowline.spark.moment import read_moment

times = st.datetimes(datetime(1970, 1, 1), datetime(9000, 1, 1), timezones=st.just(UTC))
positions = st.builds(Position, st.integers(0, 99), st.integers(-1, 10**12), st.integers(0, 10**6))
logs = st.from_regex(r"[a-z.]{1,8}", fullmatch=True)
literals = st.dictionaries(
    logs, st.dictionaries(st.integers(0, 99), positions, min_size=1), min_size=1, max_size=3
)
points = st.one_of(st.sampled_from(["epoch", "now"]), times.map(format_time), literals.map(format_bookmark))


zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
digits = st.text("0123456789", min_size=8, max_size=8)


def microseconds(time: datetime) -> int:
    """Return the microseconds since 1970."""
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@given(st.datetimes(timezones=zones))
@example(datetime(1, 1, 1, tzinfo=UTC))
@example(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))))
@example(datetime(9999, 12, 31, 23, 59, 59, 999999, timezone(timedelta(hours=-14))))
@example(datetime(1969, 12, 31, 23, 59, 59, 999999, UTC))
def test_every_datetime_is_read_as_a_time_of_kafka_or_refused(time: datetime) -> None:
    """A time before 1970 is read as 1970. A time whose year in UTC is not from 1 to 9999 is refused."""
    try:
        time.astimezone(UTC)
    except OverflowError:
        with pytest.raises(SowlineError, match="years 1 to 9999"):
            format_time(time)
        return
    text = format_time(time)
    assert read_time(text) == max(0, microseconds(time))
    assert read_moment(time, "log", 1) == max(0, microseconds(time)) // 1000


@given(digits, digits, st.text("0123456789", max_size=6))
@example("00010101", "00000000", "")
@example("00000101", "00000000", "")
@example("99991231", "23595900", "999999")
@example("20161231", "23596000", "")
def test_whatever_looks_like_a_time_is_read_or_refused(day: str, clock: str, fraction: str) -> None:
    """What is read fits Kafka's times, which are numbers of 64 bits, and none below 0."""
    text = f"{day}T{clock[:6]}" + (f".{fraction}Z" if fraction else "Z")
    read = None
    with contextlib.suppress(ValueError):
        read = datetime.strptime(text[:15], "%Y%m%dT%H%M%S")
    if read is None:
        with pytest.raises(SowlineError, match="expected a time") as refused:
            read_time(text)
        assert repr(text) in refused.value.message
    else:
        assert 0 <= (read_time(text) or 0) < 2**63


@given(times)
def test_every_time_reads_back(time: datetime) -> None:
    """To the microsecond."""
    assert read_time(format_time(time)) == microseconds(time)
    assert parse_bookmark_range(format_time(time)) == BookmarkRange((Moment(microseconds(time)),))


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("19700101T000000Z", 0),
        ("19700101T000001", 1_000_000),
        (" 19700101T000000.5Z ", 500_000),
        ("19700101T000000.000001", 1),
        ("20261121T120000", microseconds(datetime(2026, 11, 21, 12, tzinfo=UTC))),
        ("epoch", None),
        ("20261121", None),
        ("2026-11-21T12:00:00Z", None),
        ("19700101T000000.0000001Z", None),
        ("٢٠٢٦١١٢١T120000Z", None),  # noqa: RUF001 - digits that are not ASCII
    ],
)
def test_times_are_written_without_separators(text: str, time: int | None) -> None:
    """The zone may be left out, for it is always UTC."""
    assert read_time(text) == time


@pytest.mark.parametrize("text", ["20261321T120000Z", "20260230T000000Z", "20261121T250000"])
def test_times_that_there_are_not_are_refused(text: str) -> None:
    """What looks like a time must be one."""
    with pytest.raises(SowlineError, match="expected a time"):
        read_time(text)


def test_times_of_other_zones_are_written_in_utc() -> None:
    """A time without a zone could be any."""
    assert (
        format_time(datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=3)))) == "20251231T230000.000000Z"
    )
    with pytest.raises(SowlineError, match="zone"):
        format_time(datetime(2026, 1, 1))


@given(points, points, st.sampled_from("[("), st.sampled_from(")]"))
def test_every_range_reads_back(start: str, end: str, opening: str, closing: str) -> None:
    """Whatever its ends are, dots in the names of logs included."""
    text = f"{opening}{start}..{end}{closing}"
    found = split_range(text)
    assert found is not None
    assert (parse_point(found.start), parse_point(found.end)) == (parse_point(start), parse_point(end))
    assert (found.takes_start, found.takes_end) == (opening == "[", closing == "]")
    assert split_range(range_text(start, found)) == Range(found.start, found.end, False, closing == "]")


@given(st.lists(points, min_size=1, max_size=5))
def test_every_list_reads_back(listed: list[str]) -> None:
    """As a JSON array, or as the array itself."""
    wanted = BookmarkRange(tuple(map(parse_point, listed)))
    assert parse_bookmark_range(json.dumps(listed)) == wanted
    assert parse_bookmark_range(listed) == wanted
    assert parse_bookmark_range(bookmark_text(listed)) == wanted


@pytest.mark.parametrize(
    ("bookmark", "up_to", "span"),
    [
        ("", "", BookmarkRange()),
        ("0|1|", "", BookmarkRange(("now",))),
        ("0", "", BookmarkRange(("epoch",))),
        ("orders:0@1", "now", BookmarkRange(({"orders": {0: Position(0, 1)}},), end="now")),
        ("", "19700101T000000Z", BookmarkRange(end=Moment(0))),
        ("[epoch..now)", "", BookmarkRange(("epoch",), True, "now", False)),
        ("(0 .. 0|1| ]", "", BookmarkRange(("epoch",), False, "now", True)),
        (
            "[19700101T000000.5..19700101T000001]",
            "",
            BookmarkRange((Moment(500_000),), True, Moment(1_000_000), True),
        ),
    ],
)
def test_spans(bookmark: str, up_to: str, span: BookmarkRange) -> None:
    """A begin, an end, or both."""
    assert parse_bookmark_range(bookmark, up_to) == span


@pytest.mark.parametrize(
    ("start", "is_return", "moment"),
    [
        ("", False, None),
        ("now", False, None),
        ("epoch", True, None),
        ("orders:0@1", True, None),
        ("19700101T000001", False, Moment(1_000_000)),
        ('["19700101T000001", "epoch"]', True, None),
        ("[19700101T000001..now]", False, Moment(1_000_000)),
    ],
)
def test_what_a_begin_is(start: str, is_return: bool, moment: Point | None) -> None:
    """Anyone who begins at a time is new, anyone who begins at a literal place has been there."""
    span = parse_bookmark_range(start)
    assert (span.is_return, span.moment) == (is_return, moment)


@pytest.mark.parametrize(
    ("bookmark", "up_to"),
    [
        ("yesterday", ""),
        ("[epoch..now", ""),
        ("[epoch, now]", ""),
        ("[epoch..]", ""),
        ("[..now]", ""),
        ("(epoch..later)", ""),
        ("[]", ""),
        ("()", ""),
        ("[", ""),
        ('["epoch"', ""),
        ('["epoch", 1]', ""),
        ('{"a": 1}', ""),
        ("[epoch..epoch]", ""),
        ("[19700101T000001..19700101T000000]", ""),
        ("[epoch..now]", "now"),
        ("", "epoch"),
        ("", "[epoch..now]"),
        ("19700101T000001", "19700101T000000"),
        ("orders:0@", ""),
        ("[orders:0@x..now]", ""),
    ],
)
def test_anything_else_is_refused(bookmark: str, up_to: str) -> None:
    """With what was expected."""
    with pytest.raises(SowlineError, match="expected") as error:
        parse_bookmark_range(bookmark, up_to)
    assert error.value.reason == "invalid bookmark"


def test_another_way_to_write_a_time_is_answered_with_how_it_is_written() -> None:
    """Its colons don't make it a bookmark."""
    with pytest.raises(SowlineError, match="a time like 20261121T120000Z"):
        parse_bookmark_range("2026-11-21T12:00:00Z")


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing else comes of it."""
    with contextlib.suppress(SowlineError):
        assert parse_bookmark_range(text).starts


def test_a_list_has_a_limit() -> None:
    """And is never empty."""
    for listed in ([], ["now"] * 1001):
        with pytest.raises(SowlineError, match="1 to 1000"):
            parse_bookmark_range(listed)


def test_a_caller_may_say_times() -> None:
    """Alone or in a list."""
    time = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert bookmark_text(time) == "20261121T120000.000000Z"
    assert bookmark_text(["epoch", time]) == '["epoch", "20261121T120000.000000Z"]'
    assert bookmark_text("now") == "now"


held: dict[str, Positions] = {"orders": {0: Position(0, 1)}}


def test_a_range_goes_on_from_a_position() -> None:
    """Its end stays what it was, however that is written."""
    given = split_range("[20261121T120000..now)")
    assert given is not None
    assert range_text(format_bookmark(held), given) == "(orders:0@1..now)"
