"""Maps and indexes that spill: whatever is in memory and on the disk, they equal those of a plain dict."""

from collections import Counter, defaultdict
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline_views.core.spilling import BYTES, SpillIndex, SpillMap, SpillSpace
from tests.examples import examples
from tests.property.spill_disks import DISKS, opened_disk

KEYS = [b"", b"a", b"ab", b"b", b"\xff", b"\xff\xff"]
keys = st.sampled_from(KEYS)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.sampled_from([0, 1]), keys, st.binary(max_size=300)),
        st.tuples(st.just("remove"), st.sampled_from([0, 1]), keys, st.none()),
        st.tuples(st.just("count"), keys, keys, st.integers(-2, 2)),
        st.tuples(st.just("replace"), st.sampled_from([0, 1]), st.none(), st.none()),
    ),
    max_size=60,
)


@examples(100)
@given(st.sampled_from(DISKS), st.sampled_from([0, 500, 1500, 1 << 20]), steps)
def test_maps_and_indexes_equal_a_dict(disk: str, bytes_max: int, taken: list[tuple]) -> None:  # type: ignore[type-arg]
    """Two maps and an index in one space, of which each may be spilled at any time, and a map that is replaced."""
    with ExitStack() as stack:
        space = SpillSpace(lambda: opened_disk(disk, stack), bytes_max)
        maps, expected = [SpillMap(space, BYTES) for _ in range(2)], [dict[bytes, bytes](), {}]
        index, counts = SpillIndex(space), defaultdict[bytes, Counter[bytes]](Counter)
        for kind, which, key, value in taken:
            if kind == "set":
                maps[which][key] = value
                expected[which][key] = value
            elif kind == "remove":
                maps[which].remove(key)
                expected[which].pop(key, None)
            elif kind == "replace":
                maps[which].close()
                maps[which], expected[which] = SpillMap(space, BYTES), {}
            elif count := max(value, -counts[which][key]):
                index.add(which, key, count)
                counts[which][key] += count
            assert space.bytes <= bytes_max
            assert space.bytes == sum(part.bytes for part in (*maps, index))
        for one, plain in zip(maps, expected, strict=True):
            assert {key: one.get(key) for key in KEYS} == {key: plain.get(key) for key in KEYS}
            assert sorted(one.values()) == sorted(plain.values())
        for key in KEYS:
            assert set(index.members(key)) == set(+counts[key])
            assert index.has_any(key) == bool(+counts[key])
            assert [index.has(key, member) for member in KEYS] == [counts[key][member] > 0 for member in KEYS]
        for part in (*maps, index):
            part.close()
        assert space.bytes == 0


@pytest.mark.parametrize("disk", DISKS)
def test_a_map_is_read_while_others_spill(disk: str) -> None:
    """A load is read from its map into others, which take the memory of the space: the map spills meanwhile."""
    with ExitStack() as stack:
        space = SpillSpace(lambda: opened_disk(disk, stack), 2500)
        load, table = SpillMap(space, BYTES), SpillMap(space, BYTES)
        values = [b"%03d" % number for number in range(20)]
        for value in values:
            load[value] = value
        read = []
        for value in load.values():
            read.append(value)
            table[value] = value * 50
        assert sorted(read) == values
        assert sorted(table.values()) == [value * 50 for value in values]
        load.close()
        assert space.bytes == table.bytes
        assert [load.get(value) for value in values] == [None] * 20


@pytest.mark.parametrize("disk", DISKS)
def test_only_the_largest_one_spills(disk: str) -> None:
    """A small topic stays in memory next to a large one."""
    with ExitStack() as stack:
        space = SpillSpace(lambda: opened_disk(disk, stack), 10_000)
        small, large = SpillMap(space, BYTES), SpillMap(space, BYTES)
        for number in range(100):
            small[b"%d" % (number % 10)] = b""
            large[b"%d" % number] = bytes(100)
        assert (small.is_spilled, large.is_spilled) == (False, True)
