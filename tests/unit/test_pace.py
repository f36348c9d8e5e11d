"""Turns: of those who have much to do, one goes on in each turn of the event loop."""

import asyncio

from query_service.pace import Turns


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
        await asyncio.sleep(0)
        most = max(most, len(steps) - before)
    assert most == 1
    assert "".join(steps) == "abc" * 3


async def test_one_that_ends_while_it_waits_takes_no_turn() -> None:
    """The one behind it goes on in its place, and who comes when nobody waits goes on as well."""
    turns = Turns()
    waiting = [asyncio.create_task(turns.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    await asyncio.gather(waiting[0], waiting[2])
    last = asyncio.create_task(turns.wait())
    await asyncio.sleep(0)
    last.cancel()
    await asyncio.wait([last])
    async with asyncio.timeout(5):
        await turns.wait()
