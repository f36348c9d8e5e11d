"""Reads the bookmark or the time by which a caller names a past state."""

from datetime import UTC, datetime, timedelta

from sowline.model.bookmark import NOW, Positions, named_bookmark, parse_bookmark
from sowline.model.position import before_the_log, invalid_bookmark

_EXPECTED = "expected a bookmark like orders:0@1187,1@1203, or a time with its zone like 2026-11-21T10:15:00Z"


def read_moment(at: str | datetime, log: str, partitions: int) -> Positions | int | None:
    """Return the positions of a bookmark, a time in ms since 1970 (0 for an earlier one), or None for now.

    Raises `invalid bookmark` for anything else, and for a bookmark without all partitions of this log.
    """
    if isinstance(at, datetime):
        return _milliseconds(at, at.isoformat())
    if "@" in at or named_bookmark(at) is not None:
        return read_positions(at, log, partitions)
    try:
        time = datetime.fromisoformat(at.strip())
    except ValueError:
        raise invalid_bookmark(f"{_EXPECTED}, got {at[:200]!r}") from None
    return _milliseconds(time, at)


def read_positions(text: str, log: str, partitions: int) -> Positions | None:
    """Return the positions of a bookmark of all partitions of this log, or None for now."""
    name = named_bookmark(text)
    if name is not None:
        return None if name == NOW else dict.fromkeys(range(partitions), before_the_log())
    positions = parse_bookmark(text)
    if set(positions) != {log}:
        raise invalid_bookmark(f"expected a bookmark of {log}, got one of {', '.join(positions)}")
    beyond = sorted(number for number in positions[log] if number >= partitions)
    if beyond:
        raise invalid_bookmark(f"expected a partition of {log} below {partitions}, got {beyond[0]}")
    missing = [number for number in range(partitions) if number not in positions[log]]
    if missing:
        raise invalid_bookmark(
            f"expected a position in each of the {partitions} partitions of {log}, got none in {missing[0]}: start"
            " from the bookmark of a group_end, and update it with those of live messages"
        )
    return positions[log]


def _milliseconds(time: datetime, given: str) -> int:
    if time.tzinfo is None:
        raise invalid_bookmark(f"{_EXPECTED}, got {given!r} without a zone")
    since_epoch = time - datetime(1970, 1, 1, tzinfo=UTC)
    return max(0, since_epoch // timedelta(milliseconds=1))
