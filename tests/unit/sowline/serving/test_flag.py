"""A flag: who waits for it, who is woken, and who has gone meanwhile."""

import asyncio
import sys

from sowline.serving.flag import Flag
from tests.waiting import loop_turns


async def turns() -> None:
    """Let all tasks run that can."""
    await loop_turns(3)


async def test_who_waits_is_woken_in_order() -> None:
    """All of them, also if the flag is cleared at once; who comes later waits again."""
    flag, woken = Flag(), list[int]()

    async def wait(number: int) -> None:
        await flag.wait()
        woken.append(number)

    tasks = [asyncio.create_task(wait(number)) for number in range(3)]
    await turns()
    assert not woken
    flag.set()
    flag.clear()
    late = asyncio.create_task(wait(3))
    await turns()
    assert (woken, late.done(), flag.is_set()) == ([0, 1, 2], False, False)
    flag.set()
    await asyncio.gather(*tasks, late)
    assert woken == [0, 1, 2, 3]
    await flag.wait()


async def test_who_has_gone_is_not_woken() -> None:
    """Whether it went before the flag was set, or at the same time."""
    flag = Flag()
    gone, other, last = [asyncio.create_task(flag.wait()) for _ in range(3)]
    await turns()
    gone.cancel()
    await turns()
    flag.set()
    last.cancel()
    await turns()
    assert [task.cancelled() for task in (gone, other, last)] == [True, False, True]


async def test_a_flag_is_small() -> None:
    """Also after it was waited for."""
    flag = Flag(is_set=True)
    assert flag.is_set()
    flag.clear()
    waiting = asyncio.create_task(flag.wait())
    await turns()
    flag.set()
    await waiting
    assert flag._waiting is None
    assert sys.getsizeof(flag) < 64
