"""The start and end of a subscription in a command: bookmarks, lists of bookmarks, and ranges. Pure.

With a list (a JSON array), a subscription starts in each partition at the earliest of the bookmarks. A range `[a..b)`
starts at one bookmark and ends at another. A square bracket includes the change at the bookmark itself, a round one
excludes it.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from sowline.errors import SowlineError
from sowline.model.bookmark import (
    EPOCH,
    NOW,
    Positions,
    format_time,
    named_bookmark,
    parse_bookmark,
    read_time,
)
from sowline.model.json_parts import Part
from sowline.model.position import invalid_bookmark

POINTS_MAX = 1000
"""The maximum number of bookmarks in a list."""

BOOKMARK_CHARS_MAX = 64 * 1024
"""The maximum length of all bookmarks in one request."""

SPLITS_MAX = 8
"""The number of `..` that are tried as the separator of a range: names of logs may contain `..`, too."""

_EXPECTED = (
    "expected a bookmark like orders:0@1187,1@1203, a time like 20261121T120000Z, epoch, now, a list of these as"
    " a JSON array, or a range of two such as [20261121T120000Z..now)"
)


class Moment(NamedTuple):
    """A time, in microseconds since 1970."""

    microseconds: int


Point = str | Moment | dict[str, Positions]
"""`epoch` or `now`, a time, or a position for each partition by log."""

Given = str | datetime | Sequence[str | datetime]
"""The start of a subscription as a caller of the client gives it."""


class Range(NamedTuple):
    """The parts of the text of a range. `takes_start` and `takes_end` are whether a bracket is square."""

    start: str
    end: str
    takes_start: bool
    takes_end: bool


class BookmarkRange(NamedTuple):
    """A requested range: all changes after the earliest of `starts`, up to `end` if given.

    `takes_start` and `takes_end` are whether the changes at the start and at the end are included.
    """

    starts: tuple[Point, ...] = (NOW,)
    takes_start: bool = False
    end: Point | None = None
    takes_end: bool = True

    @property
    def begins_now(self) -> bool:
        """Whether no past changes are requested."""
        return self.starts == (NOW,)

    @property
    def moment(self) -> Moment | None:
        """The time at which the range starts; None if its start is not a time."""
        [start, *more] = self.starts
        return start if isinstance(start, Moment) and not more else None

    @property
    def is_return(self) -> bool:
        """Whether the range starts at a bookmark (or `epoch`), so that the client needs no snapshot."""
        return not self.begins_now and self.moment is None


def parse_bookmark_range(bookmark: str | Sequence[str], up_to: str = "") -> BookmarkRange:
    """Return the start and end in a command; raise `invalid bookmark`. Without a bookmark, the start is `now`."""
    # First, so that no other check has to read a text of any length.
    _check_length(bookmark, up_to)
    bookmark_range = _bookmark_range(bookmark)
    if not up_to:
        return bookmark_range
    if bookmark_range.end is not None:
        raise invalid_bookmark("expected one end, got a range and an up_to")
    return _ending(bookmark_range._replace(end=parse_point(up_to)))


def _check_length(bookmark: str | Sequence[object], up_to: str) -> None:
    texts = [bookmark] if isinstance(bookmark, str) else [text for text in bookmark if isinstance(text, str)]
    length = sum(map(len, texts)) + len(up_to)
    if length > BOOKMARK_CHARS_MAX:
        raise invalid_bookmark(
            f"expected a bookmark of at most {BOOKMARK_CHARS_MAX} characters, got {length}"
        )


def _bookmark_range(bookmark: str | Sequence[str]) -> BookmarkRange:
    if not isinstance(bookmark, str):
        return BookmarkRange(tuple(_points(bookmark)))
    text = bookmark.strip()
    if not text:
        return BookmarkRange()
    # A list and a range both begin with `[`, but only a list has quotes.
    if text.startswith("[") and '"' in text:
        return BookmarkRange(tuple(_points(_array(text))))
    found = split_range(text)
    if found is None:
        return BookmarkRange((parse_point(text),))
    start, end, takes_start, takes_end = found
    return _ending(BookmarkRange((parse_point(start),), takes_start, parse_point(end), takes_end))


def _ending(bookmark_range: BookmarkRange) -> BookmarkRange:
    start, end = bookmark_range.moment, bookmark_range.end
    if end == EPOCH:
        raise invalid_bookmark("expected an end after the start, got epoch")
    if start is not None and isinstance(end, Moment) and end < start:
        raise invalid_bookmark("expected an end after the start, got one before it")
    return bookmark_range


def _array(text: str) -> Sequence[object]:
    try:
        given: Part = json.loads(text)
    # Thousands of nested brackets exhaust the stack of the parser.
    except (json.JSONDecodeError, RecursionError):
        given = None
    if not isinstance(given, list):
        raise _invalid(text)
    return given


def _points(given: Sequence[object]) -> Iterator[Point]:
    if not 1 <= len(given) <= POINTS_MAX:
        raise invalid_bookmark(f"expected a list of 1 to {POINTS_MAX} bookmarks, got {len(given)}")
    for text in given:
        if not isinstance(text, str):
            raise invalid_bookmark(f"expected a list of strings, got {str(text)[:100]} in it")
        yield parse_point(text)


def parse_point(text: str) -> Point:
    """Return the position, time or name in one bookmark; raise `invalid bookmark`."""
    named = named_bookmark(text)
    if named is not None:
        return named
    time = read_time(text)
    if time is not None:
        return Moment(time)
    if "@" not in text:
        raise _invalid(text)
    return parse_bookmark(text)


def split_range(text: str) -> Range | None:
    """Return the parts of a range; None if the text is not a range. Raise `invalid bookmark` if it is malformed."""
    text = text.strip()
    if text[:1] not in ("[", "(") or '"' in text:
        return None
    inside = text[1:-1]
    if text[-1] in ("]", ")"):
        for start, end in islice(_splits(inside), SPLITS_MAX):
            if _is_point(start) and _is_point(end):
                return Range(start.strip(), end.strip(), text[0] == "[", text[-1] == "]")
    raise invalid_bookmark(
        f"expected a range like [20261121T120000Z..20261121T130000Z), (orders:0@17..now], got {text[:200]!r}"
    )


def _splits(text: str) -> Iterator[tuple[str, str]]:
    at = text.find("..")
    while at >= 0:
        yield text[:at], text[at + 2 :]
        at = text.find("..", at + 1)


def _is_point(text: str) -> bool:
    try:
        parse_point(text)
    except SowlineError:
        return False
    return True


def range_text(start: str, given: Range) -> str:
    """Return a range that continues after the bookmark `start` and ends where the range `given` ends."""
    return f"({start}..{given.end}{']' if given.takes_end else ')'}"


def bookmark_text(given: Given) -> str:
    """Return a start in its wire format: times as text, a list as a JSON array."""
    if isinstance(given, str):
        return given
    if isinstance(given, datetime):
        return format_time(given)
    return json.dumps([bookmark_text(one) for one in given])


def _invalid(text: str) -> SowlineError:
    return invalid_bookmark(f"{_EXPECTED}; got {text[:200]!r}")
