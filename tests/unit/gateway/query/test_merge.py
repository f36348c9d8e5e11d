"""Sorted parts in one order, and what of them can be skipped when only samples of their keys are known."""

from collections.abc import AsyncIterator
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from sowline_gateway.query.merge import Key, merged, surely_before
from sowline_gateway.query.part import Batch


@given(st.lists(st.integers(0, 4), max_size=80), st.integers(1, 9), st.integers(0, 90))
async def test_what_is_surely_before(holders: list[int], step: int, first: int) -> None:
    """It is never a record of the page, and no more than a step of each part is left to be skipped."""
    parts: list[list[Key]] = [[] for _ in range(5)]
    for rank, holder in enumerate(holders):
        parts[holder].append((rank,))
    passed = await surely_before([part[step - 1 :: step] for part in parts], step, first)
    assert all(count <= len(part) for count, part in zip(passed, parts, strict=True))
    assert all(rank < first for count, part in zip(passed, parts, strict=True) for (rank,) in part[:count])
    left = min(first, len(holders)) - sum(passed)
    assert left < len(parts) * step


async def test_one_part() -> None:
    """Of it, whole steps are skipped."""
    samples: list[list[Key]] = [[(9,), (19,), (29,)]]
    assert await surely_before(samples, 10, 29) == [20]
    assert await surely_before(samples, 10, 30) == [30]
    assert await surely_before(samples, 10, 1000) == [30]


async def _batches(records: list[int], sizes: list[int], taken: list[int]) -> AsyncIterator[Batch]:
    rest = iter(records)
    for size in sizes:
        some = list(islice(rest, size))
        taken.append(size)
        yield Batch("orders", [b"%d" % one for one in some], [[one] for one in some])


@given(st.sets(st.integers(0, 99)), st.lists(st.integers(0, 4), max_size=30), st.integers(0, 9))
async def test_records_of_all_parts_in_order(records: set[int], sizes: list[int], first: int) -> None:
    """Whatever the sizes of their batches, some of which are empty; each batch is read once."""
    taken: list[int] = []
    even, odd = (sorted(one for one in records if one % 2 == rest) for rest in (0, 1))
    enough = [*sizes, 0, len(records)]
    parts = [_batches(even, enough, taken), _batches(odd, enough, taken)]
    found = [
        int(one)
        async for batch in merged(parts, lambda batch: list(map(tuple, batch.ordering)), first, None)
        for one in batch.records
    ]
    assert found == sorted(records)[first:]
    assert len(taken) == 2 * len(enough)
