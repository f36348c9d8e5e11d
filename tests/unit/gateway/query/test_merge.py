"""What can be skipped of sorted parts, when only samples of their keys are known."""

from hypothesis import given
from hypothesis import strategies as st

from sowline_gateway.query.merge import Key, surely_before


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
