"""How many changes and bytes the ring of a replica keeps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sowline.changes.change import Change
from sowline.model.position import Position
from sowline_query_service.replica.partition_replica import (
    CHANGE_BYTES,
)
from tests.unit.query_service.replica.loaded_replica import change, placed, progress, replica_of


def sized(offset: int, size: int) -> Change:
    """Return a change whose bodies, before and after, have so many bytes together."""
    return replace(change(offset, body=b"n" * (size - size // 3)), previous=b"p" * (size // 3))


def test_the_ring_has_so_many_bytes_at_most() -> None:
    """Bodies, those before too, and what else a change takes; the oldest go first."""
    room = 3 * CHANGE_BYTES + 300
    replica = replica_of(change(5), ring_bytes=room)
    replica.apply(placed([sized(n, 100) for n in (6, 7, 8)]))
    assert replica.ring.bytes == room
    assert replica.recent(Position(0, 5), 10) == [sized(n, 100) for n in (6, 7, 8)]
    replica.apply(placed([sized(9, 101)]))
    assert replica.recent(Position(0, 6), 10) is None
    assert replica.recent(Position(0, 7), 10) == [sized(8, 100), sized(9, 101)]
    assert replica.ring.bytes == 2 * CHANGE_BYTES + 201


@pytest.mark.parametrize("batches", [[[6, 7, 8, 9]], [[6], [7], [8], [9]], [[6], [7, 8], [9]]])
def test_a_change_larger_than_the_ring_is_not_kept(batches: list[list[int]]) -> None:
    """Nor is what was before it, for the ring has no hole; what comes after it is kept again."""
    replica = replica_of(change(5), ring_bytes=4 * CHANGE_BYTES)
    sizes = {6: 10, 7: 3 * CHANGE_BYTES + 1, 8: 10, 9: 10}
    for batch in batches:
        replica.apply(placed([sized(n, sizes[n]) for n in batch]))
    assert replica.recent(Position(0, 5), 10) is None
    assert replica.recent(Position(0, 6), 10) is None
    assert replica.recent(Position(0, 7), 10) == [sized(8, 10), sized(9, 10)]
    assert replica.recent(Position(0, 9), 10) == []


def test_a_ring_that_a_change_has_emptied_reaches_nowhere() -> None:
    """Even from where only a progress event stood since, one has to go elsewhere."""
    replica = replica_of(change(5), ring_bytes=CHANGE_BYTES)
    replica.apply(placed([change(6), sized(7, 1), progress(9, 7)]))
    assert replica.ring.bytes == 0
    assert replica.recent(Position(0, 6), 10) is None
    assert replica.recent(Position(0, 7), 10) is None
    assert replica.recent(Position(0, 9), 10) == []


@given(
    st.lists(st.lists(st.integers(0, 3000), max_size=6), max_size=12), st.integers(1, 6), st.integers(0, 9000)
)
def test_the_ring_is_the_most_that_both_limits_allow(
    batches: list[list[int]], changes_max: int, bytes_max: int
) -> None:
    """However the changes come in batches, and of whatever size: the newest of them, counted right."""
    replica = replica_of(ring=changes_max, ring_bytes=bytes_max)
    changes: list[Change] = []
    for sizes in batches:
        new = [sized(len(changes) + at, size) for at, size in enumerate(sizes)]
        replica.apply(placed(new))
        changes += new
    kept = most_of(changes, changes_max, bytes_max)
    assert replica.ring.bytes == sum(map(taken_by, kept))
    first = len(changes) - len(kept)
    for at in range(len(changes)):
        wanted = changes[at:] if at >= first else None
        assert replica.recent(Position(0, at - 1), len(changes)) == wanted


def taken_by(change: Change) -> int:
    """Return what a change counts for."""
    return CHANGE_BYTES + len(change.body or b"") + len(change.previous or b"")


def most_of(changes: list[Change], changes_max: int, bytes_max: int) -> list[Change]:
    """Return the newest changes that fit into both limits."""
    kept = changes[-changes_max:]
    while sum(map(taken_by, kept)) > bytes_max:
        kept = kept[1:]
    return kept
