"""A query: the records of one consistent instant that match, as the messages of one group."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

import orjson

from query_service.replica import Entry
from query_service.state import TopicState
from sowline.bookmark import Positions, format_position
from sowline.errors import SowlineError
from sowline.filter import Filter
from sowline.options import Options
from sowline.wire import sow_record

Snapshot = list[tuple[int, list[tuple[bytes, Entry]]]]

CHUNK = 1000
"""Records looked at before others get a turn."""


@dataclass(slots=True)
class Result:
    """What a query has found so far; `hash` is the XOR of the 8-byte BLAKE2b of each SOW key."""

    topic_matches: int = 0
    matches: int = 0
    hash: int = 0


class Query:
    """One run of a filter over a topic. The records are those of the instant at which it was made."""

    def __init__(self, topic: TopicState, filter: Filter, options: Options, records_max: int) -> None:
        self.topic = topic
        self.positions: Positions = topic.positions
        self.result = Result()
        self._snapshot: Snapshot = topic.snapshot()
        self._matches = filter.matches
        self._options = options
        self._records_max = records_max

    @property
    def bookmark(self) -> str:
        """The instant of the query."""
        return self.topic.bookmark(self.positions)

    def chunks(self) -> Iterator[list[bytes]]:
        """Yield the matching records as they go on the wire; a chunk may be empty: let others have a turn."""
        for partition, records in self._snapshot:
            for start in range(0, len(records), CHUNK):
                yield self._chunk(partition, records[start : start + CHUNK])
            records.clear()

    def _chunk(self, partition: int, records: list[tuple[bytes, Entry]]) -> list[bytes]:
        matches, log = self._matches, self.topic.definition.log
        self.result.topic_matches += len(records)
        found = [(key, entry) for key, entry in records if matches(orjson.loads(entry.body))]
        for key, _ in found:
            self.result.hash ^= int.from_bytes(blake2b(key, digest_size=8).digest(), "big")
        self.result.matches += len(found)
        if self.result.matches > self._records_max:
            raise SowlineError(
                "result too large", f"expected at most {self._records_max} records; make the filter narrower"
            )
        return [self._encode(log, partition, key, entry) for key, entry in found]

    def _encode(self, log: str, partition: int, key: bytes, entry: Entry) -> bytes:
        updated_at = format_position(log, partition, entry.position)
        timestamp = entry.time if self._options.timestamp else None
        return sow_record(None if self._options.no_sowkey else key, updated_at, entry.body, timestamp)
