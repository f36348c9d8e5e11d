"""Bookmarks: a position for each partition of each log, as text that a client keeps and resumes from.

An example is `orders:0@1187,1@1203.2;trades:0@5`: the log's Kafka topic, then `partition@position` for each
partition. `epoch` is the position before all changes, `now` the position after all changes so far. A time such as
`20261121T120000.25Z` is the position after the changes up to that time.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from sowline.model.position import Position, invalid_bookmark

Positions = dict[int, Position]

PositionsByLog = dict[str, Positions]
"""By log, a position for each partition."""

LOGS_MAX: Final = 1000
"""The maximum number of logs in one bookmark."""

EPOCH: Final = "epoch"
NOW: Final = "now"
_SYNONYMS = {EPOCH: EPOCH, "0": EPOCH, NOW: NOW, "0|1|": NOW}
_TOPIC = re.compile(r"[A-Za-z0-9._/-]{1,249}")
_TIME = re.compile(r"(\d{8}T\d{6})(?:\.(\d{1,6}))?Z?", re.ASCII)
_1970 = datetime(1970, 1, 1, tzinfo=UTC)


def format_bookmark(positions: Mapping[str, Positions]) -> str:
    """Return the bookmark for the positions of each log topic, partitions in order; `epoch` if there are none."""
    # A log without partitions is left out: its text could not be read back.
    parts = [
        f"{topic}:{','.join(f'{number}@{position}' for number, position in sorted(held.items()))}"
        for topic, held in positions.items()
        if held
    ]
    return ";".join(parts) or EPOCH


def format_position(topic: str, partition: int, position: Position) -> str:
    """Return the bookmark of a live message, which names only the message's partition."""
    return f"{topic}:{partition}@{position}"


def read_position(bookmark: str) -> tuple[str, int, Position]:
    """Return the log, the partition and the position in a bookmark that `format_position` has written."""
    log, _, rest = bookmark.rpartition(":")
    number, _, position = rest.partition("@")
    return log, int(number), Position.parse(position)


def named_bookmark(text: str) -> str | None:
    """Return `epoch` or `now` if the text names one of them (in AMPS's spelling too), else None."""
    return _SYNONYMS.get(text.strip().lower())


def read_time(text: str) -> int | None:
    """Return the time `YYYYmmddTHHMMSS[.ffffff]Z` in microseconds since 1970; None if the text is not a time.

    A time before 1970 is read as 1970: no Kafka record is older, and negative times have other meanings in Kafka.
    Raise `invalid bookmark` for a date or a time of day that does not exist.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    seconds, fraction = match.groups()
    try:
        time = datetime.strptime(seconds, "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        raise invalid_bookmark(f"expected a time like 20261121T120000Z, got {text.strip()!r}") from None
    # In integers: seconds as a float would round the microseconds.
    return max(0, (time - _1970) // timedelta(microseconds=1) + int((fraction or "").ljust(6, "0")))


def format_time(time: datetime) -> str:
    """Return a time as a bookmark.

    Raise `invalid bookmark` if the time has no time zone, or if its year in UTC is not from 1 to 9999.
    """
    if time.tzinfo is None:
        raise invalid_bookmark(f"expected a time with a zone, got {time.isoformat()}")
    try:
        utc = time.astimezone(UTC)
    except OverflowError:
        raise invalid_bookmark(
            f"expected a time in the years 1 to 9999 of UTC, got {time.isoformat()}"
        ) from None
    return f"{utc.year:04}{utc:%m%dT%H%M%S.%fZ}"  # %Y does not pad the year on every system


def parse_bookmark(text: str) -> dict[str, Positions]:
    """Return the positions in a bookmark that is not a name or a time; raise `invalid bookmark`."""
    positions: dict[str, Positions] = {}
    sections = text.strip().split(";")
    if len(sections) > LOGS_MAX:
        raise invalid_bookmark(f"expected a bookmark of at most {LOGS_MAX} logs, got {len(sections)}")
    for section in sections:
        topic, colon, parts = section.rpartition(":")
        if not colon or not _TOPIC.fullmatch(topic) or topic in positions:
            raise invalid_bookmark(f"expected a bookmark like orders:0@1187,1@1203, got {text[:200]!r}")
        positions[topic] = dict(_parts(parts.split(",")))
    return positions


def _parts(parts: Iterable[str]) -> Iterable[tuple[int, Position]]:
    seen: set[int] = set()
    for part in parts:
        number, at, position = part.partition("@")
        # `isdecimal` alone would take the digits of other scripts. For more than 4,300 digits, `int` raises a
        # ValueError that nothing turns into a refusal.
        if not at or not (number.isascii() and number.isdecimal()) or len(number) > 6 or int(number) in seen:
            raise invalid_bookmark(f"expected partition@position, got {part[:100]!r}")
        seen.add(int(number))
        yield int(number), Position.parse(position)


def lay_over(whole: Mapping[str, Positions], part: Mapping[str, Positions]) -> dict[str, Positions]:
    """Return the positions of `whole`, replaced by those of `part` for the partitions that `part` names."""
    topics = {**dict.fromkeys(whole), **dict.fromkeys(part)}
    return {topic: {**whole.get(topic, {}), **part.get(topic, {})} for topic in topics}
