"""Turns of those who have much to do; tasks that run together and end together."""

import asyncio
from collections.abc import Iterator
from typing import Never

import pytest
from structlog.testing import capture_logs

from sowline.serving.cooperative import Turns, first_of, in_steps, running, together
from tests.waiting import loop_turns


async def test_one_goes_on_in_each_turn_of_the_loop() -> None:
    """However many have work, a turn of the loop is no longer than a step of one of them; each comes to its turn."""
    turns = Turns()
    steps: list[str] = []

    async def work(name: str) -> None:
        for _ in range(3):
            await turns.wait()
            steps.append(name)

    working = [asyncio.create_task(work(name)) for name in "abc"]
    most = 0
    while not all(task.done() for task in working):
        before = len(steps)
        await loop_turns()
        most = max(most, len(steps) - before)
    assert most == 1
    assert "".join(steps) == "abc" * 3


async def test_one_that_ends_while_it_waits_takes_no_turn() -> None:
    """The one behind it goes on in its place, and who comes when nobody waits goes on as well."""
    turns = Turns()
    waiting = [asyncio.create_task(turns.wait()) for _ in range(3)]
    await loop_turns()
    waiting[1].cancel()
    await asyncio.gather(waiting[0], waiting[2])
    last = asyncio.create_task(turns.wait())
    await loop_turns()
    last.cancel()
    await asyncio.wait([last])
    async with asyncio.timeout(5):
        await turns.wait()


async def test_together_waits_for_what_it_cancels() -> None:
    """The error of the first is raised once all others have ended, however long they take to clean up."""
    ended: list[str] = []

    before = asyncio.all_tasks()
    with pytest.raises(KeyError, match="first"):
        await together([slow(ended), failing(KeyError("first")), slow(ended)])
    assert ended == ["slow", "slow"]
    assert asyncio.all_tasks() == before


async def test_together_ends_with_its_caller() -> None:
    """A caller that is cancelled waits as well until all have ended, and is cancelled then."""
    ended: list[str] = []

    caller = asyncio.create_task(together([slow(ended), slow(ended)]))
    await loop_turns(2)
    caller.cancel()
    await asyncio.wait([caller])
    assert caller.cancelled()
    assert ended == ["slow", "slow"]


async def test_together_loses_no_error() -> None:
    """The first error is raised; one that comes while the others end is logged."""

    async def failing_at_the_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("second")

    with capture_logs() as logs, pytest.raises(KeyError, match="first"):
        await together([failing_at_the_end(), failing(KeyError("first"))])
    (line,) = logs
    assert (line["event"], line["first"]) == ("another task failed too", "KeyError('first')")
    assert repr(line["exc_info"]) == "ValueError('second')"


async def test_together_returns_when_all_have_ended() -> None:
    """Each is done, in whatever order."""
    done: list[int] = []

    async def work(turns: int) -> None:
        await loop_turns(turns)
        done.append(turns)

    await together(work(turns) for turns in (3, 1, 2))
    assert done == [1, 2, 3]


async def test_the_first_that_ends_counts() -> None:
    """Its result is returned, or its error raised, once the others have ended; their errors are logged."""
    ended: list[str] = []

    async def returning(result: int) -> int:
        return result

    async def waiting() -> int:
        await slow(ended)
        return 0

    async def failing_at_the_end() -> int:
        try:
            return await waiting()
        finally:
            raise ValueError("second")

    assert await first_of([waiting(), returning(1), returning(2)]) == 1
    assert ended == ["slow"]
    with capture_logs() as logs, pytest.raises(KeyError, match="first"):
        await first_of([failing_at_the_end(), failing(KeyError("first"))])
    assert ended == ["slow", "slow"]
    assert [repr(line["exc_info"]) for line in logs] == ["ValueError('second')"]


async def test_the_first_ends_with_its_caller() -> None:
    """A caller that is cancelled waits until all have ended."""
    ended: list[str] = []

    caller = asyncio.create_task(first_of([slow(ended), slow(ended)]))
    await loop_turns(2)
    caller.cancel()
    await asyncio.wait([caller])
    assert caller.cancelled()
    assert ended == ["slow", "slow"]


async def test_what_runs_during_a_block_ends_with_it() -> None:
    """At the end of the block, and when the block fails, nothing is left running; its error is raised as it is."""
    ended: list[str] = []

    async with running([slow(ended)]):
        await loop_turns()
    assert ended == ["slow"]
    with pytest.raises(KeyError, match="block"):
        async with running([slow(ended)]):
            await failing(KeyError("block"))
    assert ended == ["slow", "slow"]


async def test_what_fails_during_a_block_ends_it() -> None:
    """The block is cancelled, and the error raised."""
    with pytest.raises(KeyError, match="step"):
        async with running([failing(KeyError("step"))]):
            await asyncio.Event().wait()


async def failing(error: Exception) -> Never:
    """Fail in a later turn of the loop."""
    await loop_turns()
    raise error


async def slow(ended: list[str]) -> None:
    """Wait until cancelled, and take two turns of the loop to clean up."""
    try:
        await asyncio.Event().wait()
    finally:
        await loop_turns(2)
        ended.append("slow")


async def test_in_a_turn_of_the_loop_one_step_is_made() -> None:
    """However many have steps to make: what else runs does not wait for a step of each."""
    made = 0

    def steps() -> Iterator[None]:
        nonlocal made
        for _ in range(5):
            made += 1
            yield

    tasks = [asyncio.create_task(in_steps(steps())) for _ in range(10)]
    await loop_turns()
    assert made == 10  # the first step of each is made at once
    for turn in range(1, 20):
        await loop_turns()
        assert made <= 10 + turn
    await asyncio.gather(*tasks)
    assert made == 50
