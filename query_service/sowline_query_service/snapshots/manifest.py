"""The manifest of a snapshot: what it was taken of, where to follow from, and where its blocks are. Pure.

A snapshot is the records of a partition, and the offset at which the follower continues. The follower compares each
event with its position (`sowline.changes.changes_reader.verdict`), and so notices any missing one. A snapshot is
never a base for a load, which would not notice. `discard_reason` returns why a snapshot can't be followed from.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, NamedTuple
from zlib import crc32

from sowline.model.position import position_of
from sowline_query_service.replica.partition_replica import Head

FORMAT: Final = 2
"""Version of the files. Another one is discarded."""

DiscardReason = Literal["damaged", "definition", "gap", "offsets", "old", "topic"]


class Discard(NamedTuple):
    """Why a snapshot can't be used: the reason for metrics, and a sentence for the log."""

    reason: DiscardReason
    why: str


class Unreadable(Exception):
    """A file of a snapshot is damaged, or of another format."""


class BlockAt(NamedTuple):
    """Where a block is in the data file, in bytes, and its CRC-32."""

    start: int
    size: int
    checksum: int

    def require_whole(self, data: bytes) -> bytes:
        """Return the block's bytes; raise `Unreadable` if they are not what was written."""
        if len(data) != self.size or crc32(data) != self.checksum:
            raise Unreadable(f"the block at byte {self.start} of its data is damaged")
        return data


@dataclass(frozen=True)
class Manifest:
    """Describes the snapshot of one partition."""

    topic_id: str
    """Kafka's id of the changes topic."""
    definition: str
    """The digest of what is fixed in the topic's definition."""
    lag_seconds: float
    """The topic's `min.compaction.lag.ms` when it was taken."""
    taken_at: float
    """The newest time at which the records are known to have had every change, in seconds since 1970."""
    head: Head
    data: str
    """Name of the data file."""
    blocks: list[BlockAt]
    index: BlockAt


class Expected(NamedTuple):
    """The present changes topic, which a snapshot must fit."""

    topic_id: str
    definition: str
    offsets: range
    """The offsets of the partition, from its start up to its end."""
    lag_seconds: float
    """The topic's `min.compaction.lag.ms`."""
    now: float
    """Seconds since 1970."""


def written(manifest: Manifest) -> bytes:
    """Return a manifest as the bytes of its file: the format, a checksum, and JSON."""
    assert manifest.head.next_offset >= 0, "a snapshot is followed from an offset"
    text = json.dumps(asdict(manifest)).encode()
    return b"%d %d\n" % (FORMAT, crc32(text)) + text


def read(data: bytes) -> Manifest:
    """Return the manifest in these bytes; raise `Unreadable`."""
    line, _, text = data.partition(b"\n")
    version, _, checksum = line.partition(b" ")
    if version != b"%d" % FORMAT:
        raise Unreadable(f"its format is {version[:20]!r}, and this service reads {FORMAT}")
    if checksum != b"%d" % crc32(text):
        raise Unreadable("its manifest is damaged")
    try:
        fields: dict[str, Any] = json.loads(text)
        position, *rest = fields.pop("head")
        blocks = [BlockAt(*block) for block in fields.pop("blocks")]
        index = BlockAt(*fields.pop("index"))
        return Manifest(**fields, head=Head(position_of(position), *rest), blocks=blocks, index=index)
    except (TypeError, ValueError, KeyError) as error:
        raise Unreadable(f"its manifest lacks fields, or has others: {error}") from error


def discard_reason(manifest: Manifest, expected: Expected) -> Discard | None:
    """Return why a snapshot can't be followed from; None if it can."""
    # A topic that is created again uses the same offsets for other events
    # (test_a_snapshot_of_another_topic_is_discarded).
    if manifest.topic_id != expected.topic_id:
        return Discard("topic", "the changes topic was deleted and created again since")
    if manifest.definition != expected.definition:
        return Discard("definition", "the topic's definition has changed since")
    offsets, offset = expected.offsets, manifest.head.next_offset
    if not offsets.start <= offset <= offsets.stop:
        return Discard(
            "offsets",
            f"it continues at offset {offset}, and the changes topic has {offsets.start} to {offsets.stop}",
        )
    # A record is deleted after the snapshot. Once the lag has passed, compaction may remove its last event. If no
    # event follows, nothing shows that one is missing (test_a_snapshot_that_is_too_old_is_discarded).
    # Half of the lag, because the clocks of brokers and readers differ.
    age = expected.now - manifest.taken_at
    lag_seconds = min(manifest.lag_seconds, expected.lag_seconds)
    if not 0 <= age <= lag_seconds / 2:
        return Discard(
            "old",
            f"it is {age:.0f} s old, and compaction leaves changes alone for {lag_seconds:.0f} s: half of"
            " that is safe",
        )
    return None
