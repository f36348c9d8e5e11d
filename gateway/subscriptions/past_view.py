"""A page or groups as they were at a bookmark or a time, for a client that comes back. Pure."""

from collections.abc import Sequence

from fanout.engine.shown import ShownRecord
from gateway.query.keyed_records import read_record
from sowline.errors import SowlineError
from sowline.model.bookmark import PositionsByLog, format_bookmark, parse_bookmark
from sowline.model.bookmark_range import BookmarkRange
from sowline.protocol.server_message import ms_of


def past_record(record: bytes) -> tuple[bytes, ShownRecord]:
    """Return the SOW key, and what is known of a record or group in the answer to a query."""
    found = read_record(record)
    key, body = found.sow_key.encode(), bytes(found.data)
    when = ms_of(found.timestamp) if found.timestamp else 0
    if not found.updated_at:
        return key, ShownRecord(body, when)
    ((partition, position),) = next(iter(parse_bookmark(found.updated_at).values())).items()
    return key, ShownRecord(body, when, partition, position)


def earliest(given: str | Sequence[str], bookmark_range: BookmarkRange) -> str | Sequence[str]:
    """Return a bookmark of the earliest position of each partition, or the client's own if it is not a list."""
    starts = bookmark_range.starts
    positions: PositionsByLog = {}
    for start in starts:
        if not isinstance(start, dict):
            if len(starts) == 1 and bookmark_range.moment is not None:
                return given
            raise SowlineError(
                "not supported",
                f"expected a time or a bookmark of positions for a page or groups at a gateway, got {given!r}",
            )
        for log, held in start.items():
            mine = positions.setdefault(log, {})
            for number, position in held.items():
                mine[number] = min(position, mine.get(number, position))
    return format_bookmark(positions)
