"""Sorting many records, in turns with others."""

import asyncio
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from sowline.serving.sorting import in_sorting_thread, sorted_in_turns
from tests.waiting import loop_turns


@given(st.lists(st.integers(), max_size=30), st.integers(1, 7))
async def test_keys_come_in_ascending_order(keys: list[int], run: int) -> None:
    """Few are sorted at once, many in runs that are merged."""
    assert await sorted_in_turns(keys) == sorted(keys)
    with patch("sowline.serving.sorting.LARGE", 3), patch("sowline.serving.sorting.RUN", run):
        assert await sorted_in_turns(keys) == sorted(keys)


async def test_a_short_sort_does_not_wait_for_the_whole_of_a_long_one() -> None:
    """They take turns in the thread."""
    with patch("sowline.serving.sorting.LARGE", 3), patch("sowline.serving.sorting.RUN", 4):
        long = asyncio.create_task(sorted_in_turns(list(range(10_000))))
        await loop_turns()
        assert await sorted_in_turns([5, 4, 3, 2, 1]) == [1, 2, 3, 4, 5]
        assert not long.done()
        assert await long == list(range(10_000))


async def test_the_event_loop_goes_on_meanwhile() -> None:
    """Work on many records is done in a thread, work on few at once."""
    loop = asyncio.get_running_loop()
    began, over = asyncio.Event(), asyncio.Event()

    def work() -> bool:
        loop.call_soon_threadsafe(began.set)
        return asyncio.run_coroutine_threadsafe(over.wait(), loop).result()

    task = asyncio.create_task(in_sorting_thread(1_000_000, work))
    await began.wait()
    over.set()
    assert await task
    assert await in_sorting_thread(1, abs, -3) == 3
