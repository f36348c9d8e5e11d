"""A page or groups as they were at a bookmark or a time, for a client that comes back; and records of nodes. Pure."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime

import msgspec
import orjson

from fanout.engine.shown import ShownRecord
from sowline.errors import SowlineError
from sowline.model.bookmark import PositionsByLog, format_bookmark, parse_bookmark
from sowline.model.bookmark_range import BookmarkRange
from sowline.model.position import Position
from sowline.serving.outbox.group import RecordPortion
from sowline.serving.result import Result


class RelayedRecord(msgspec.Struct):
    """A record, or the state of a group, as a node sends it in a group."""

    sow_key: str
    data: msgspec.Raw
    relayed: msgspec.Raw = msgspec.Raw(b"")
    updated_at: str = ""


read_relayed = msgspec.json.Decoder(RelayedRecord).decode


class PastGroup:
    """The records of a time, as a group."""

    def __init__(self, topic: str, bookmark: str, result: Result, records: Sequence[bytes]) -> None:
        self.bookmark = bookmark
        self.result = result
        self._topic = topic
        self._records = records

    async def records(self) -> AsyncIterator[RecordPortion]:
        """Yield the records."""
        yield RecordPortion(self._topic, self._records)


def past_record(record: bytes) -> tuple[bytes, ShownRecord]:
    """Return the SOW key, and what is known of a record or group in the answer to a query."""
    found = orjson.loads(record)
    decoded = read_relayed(record)
    body = bytes(decoded.data)
    when = ms_of(found["timestamp"]) if "timestamp" in found else 0
    if not decoded.updated_at:
        return decoded.sow_key.encode(), ShownRecord(body, when)
    [(partition, position)] = next(iter(parse_bookmark(decoded.updated_at).values())).items()
    return decoded.sow_key.encode(), ShownRecord(body, when, partition, Position(*position))


def ms_of(text: str) -> int:
    """Return the ms since 1970 in a time of a message."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


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
