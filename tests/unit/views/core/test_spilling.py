"""Maps and indexes that move to a disk when their memory is full."""

import sys

import pytest

from sowline_views.core.spilling import BYTES, ENTRY_BYTES, SpillIndex, SpillMap, SpillSpace
from tests.property.spill_disks import DictDisk


@pytest.fixture
def disk() -> DictDisk:
    """An empty disk."""
    return DictDisk()


@pytest.fixture(params=[sys.maxsize, 3 * ENTRY_BYTES, 0], ids=["memory", "some", "disk"])
def space(request: pytest.FixtureRequest, disk: DictDisk) -> SpillSpace:
    """Room for everything, for some entries, or for none."""
    return SpillSpace(lambda: disk, request.param)


def test_a_map_holds_the_last_value_of_each_key(space: SpillSpace) -> None:
    """Wherever its entries are."""
    made = SpillMap(space, BYTES)
    for number in range(10):
        made[b"%d" % number] = b"old"
    for number in range(5):
        made[b"%d" % number] = b"new"
    made.remove(b"7")
    made.remove(b"gone")
    assert [made.get(b"%d" % number) for number in (0, 7, 9, 77)] == [b"new", None, b"old", None]
    assert [made.get(b"9"), made.get(b"9")] == [b"old", b"old"]
    assert sorted(made.values()) == [b"new"] * 5 + [b"old"] * 4


def test_a_removed_key_may_come_again(space: SpillSpace) -> None:
    """With another value."""
    made = SpillMap(space, BYTES)
    made[b"a"] = b"1"
    made.remove(b"a")
    made.remove(b"a")
    assert (made.get(b"a"), list(made.values())) == (None, [])
    made[b"a"] = b"2"
    assert made.get(b"a") == b"2"


def test_an_index_counts_members(space: SpillSpace) -> None:
    """One whose count becomes 0 is gone; members of a longer key are others."""
    made = SpillIndex(space)
    made.add(b"a", b"x", 2)
    made.add(b"a", b"y", 1)
    made.add(b"ab", b"z", 1)
    made.add(b"a", b"x", -1)
    assert sorted(made.members(b"a")) == [b"x", b"y"]
    made.add(b"a", b"x", -1)
    made.add(b"ab", b"z", -1)
    assert (made.has(b"a", b"x"), made.has(b"a", b"y"), made.has(b"b", b"x")) == (False, True, False)
    assert (list(made.members(b"a")), made.has_any(b"a"), made.has_any(b"ab")) == ([b"y"], True, False)


def test_the_largest_one_moves_to_the_disk(disk: DictDisk) -> None:
    """A small one stays in memory."""
    space = SpillSpace(lambda: disk, 5 * ENTRY_BYTES)
    small, large = SpillMap(space, BYTES), SpillMap(space, BYTES)
    small[b"a"] = b"1"
    for number in range(5):
        large[b"%d" % number] = b"x" * 50
    assert (small.is_spilled, large.is_spilled) == (False, True)
    assert space.bytes == small.bytes + large.bytes <= space.bytes_max


def test_nothing_is_left_of_what_is_closed(space: SpillSpace, disk: DictDisk) -> None:
    """Neither in memory nor on the disk; others keep their entries."""
    made, index = SpillMap(space, BYTES), SpillIndex(space)
    for number in range(10):
        made[b"%d" % number] = b"value"
        index.add(b"a", b"%d" % number, 1)
    made.close()
    assert len(index.members(b"a")) == 10
    index.close()
    assert (space.bytes, disk.entries) == (0, {})


def test_a_new_map_has_its_own_keys_on_the_disk(space: SpillSpace) -> None:
    """Also after another map was closed."""
    first, second = SpillMap(space, BYTES), SpillMap(space, BYTES)
    second[b"a"] = b"old"
    first.close()
    third = SpillMap(space, BYTES)
    third[b"b"] = b"new"
    third[b"c"] = b"new"
    assert (third.get(b"a"), second.get(b"a")) == (None, b"old")


def test_a_removal_counts_its_entry_once(disk: DictDisk) -> None:
    """A value that comes after it takes only its own bytes."""
    space = SpillSpace(lambda: disk, 3 * ENTRY_BYTES)
    made = SpillMap(space, BYTES)
    made[b"a"] = b"1"
    made.spill()
    made.remove(b"a")
    removed = made.bytes
    made[b"a"] = b"2"
    assert made.bytes - removed < ENTRY_BYTES


def test_without_a_disk_there_is_no_limit() -> None:
    """All is in memory."""
    space = SpillSpace(bytes_max=0)
    made = SpillMap(space, BYTES)
    made[b"a"] = b"1"
    assert (made.get(b"a"), made.is_spilled) == (b"1", False)
