"""What a manifest holds, and which snapshots can be followed from."""

from dataclasses import replace

import pytest

from sowline.model.position import Position
from sowline_query_service.replica.partition_replica import Head
from sowline_query_service.snapshots.manifest import (
    BlockAt,
    Expected,
    Manifest,
    Unreadable,
    discard_reason,
    read,
    written,
)

MANIFEST = Manifest(
    "id-1",
    "digest-1",
    600.0,
    1000.5,
    Head(Position(1, 70, 2), 50, 2000, 1999),
    "0.17.data",
    [BlockAt(0, 10, 111)],
    BlockAt(10, 5, 222),
)
EXPECTED = Expected("id-1", "digest-1", range(10, 60), 600, 1100)


def test_a_manifest_is_read_as_it_was_written() -> None:
    """Positions and blocks too."""
    assert read(written(MANIFEST)) == MANIFEST
    assert read(written(MANIFEST)).head.position < Position(1, 71)


def test_every_damaged_byte_is_found() -> None:
    """The checksum covers the text, the first line the format."""
    data = written(MANIFEST)
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x20
        with pytest.raises(Unreadable):
            read(bytes(damaged))
    for end in (0, 5, len(data) - 1):
        with pytest.raises(Unreadable):
            read(data[:end])


def test_a_snapshot_to_follow_from() -> None:
    """It fits; the offset to continue at may be the first and the one behind the last."""
    assert discard_reason(MANIFEST, EXPECTED) is None
    assert discard_reason(MANIFEST, EXPECTED._replace(offsets=range(50, 50))) is None


def test_a_snapshot_of_another_topic_is_discarded() -> None:
    """Offsets of a topic that was deleted and created again name other events."""
    found = discard_reason(MANIFEST, EXPECTED._replace(topic_id="id-2"))
    assert found is not None
    assert found == ("topic", "the changes topic was deleted and created again since")


def test_a_snapshot_of_another_definition_is_discarded() -> None:
    """Its keys or its partitions may be others."""
    found = discard_reason(MANIFEST, EXPECTED._replace(definition="digest-2"))
    assert found is not None
    assert found.reason == "definition"


@pytest.mark.parametrize("offsets", [range(51, 60), range(10, 50)])
def test_a_snapshot_outside_the_topic_is_discarded(offsets: range) -> None:
    """What it would continue at is gone, or was never there."""
    offsets = range(offsets.start, offsets.stop - 1) if offsets.stop == 50 else offsets
    found = discard_reason(MANIFEST, EXPECTED._replace(offsets=offsets))
    assert found is not None
    assert found.reason == "offsets"
    assert f"has {offsets.start} to {offsets.stop}" in found.why


def test_a_snapshot_that_is_too_old_is_discarded() -> None:
    """Half of the compaction lag is safe; a snapshot of the future shows a wrong clock."""
    assert discard_reason(MANIFEST, EXPECTED._replace(now=1300.5)) is None
    # The lag may have been shorter before the service was started again.
    assert discard_reason(replace(MANIFEST, lag_seconds=100.0), EXPECTED) is not None
    for now in (1301.0, 1000.0):
        found = discard_reason(MANIFEST, EXPECTED._replace(now=now))
        assert found is not None
        assert found.reason == "old"


def test_a_damaged_block_is_found() -> None:
    """A byte more, less or another."""
    block = BlockAt.require_whole
    at = BlockAt(0, 3, 0x352441C2)
    assert block(at, b"abc") == b"abc"
    for data in (b"abx", b"ab", b"abcd"):
        with pytest.raises(Unreadable, match="the block at byte 0 of its data is damaged"):
            block(at, data)


def test_the_age_counts_from_when_it_was_taken() -> None:
    """Not from when it was written."""
    later = replace(MANIFEST, taken_at=1300.0)
    assert discard_reason(later, EXPECTED._replace(now=1599.0)) is None
