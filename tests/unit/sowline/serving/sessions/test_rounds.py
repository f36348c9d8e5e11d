"""Rounds: what each of many connections gets regularly, in one task for all of them."""

import asyncio

from sowline.serving.sessions.rounds import PORTIONS_MAX, PORTIONS_MIN, Rounds
from tests.waiting import loop_turns, until


async def test_each_has_its_turn_in_every_round() -> None:
    """Also one whose turn fails, and however many there are; none once it has gone, and then there is no task."""
    turns = dict.fromkeys(range(2 * PORTIONS_MAX + 10), 0)

    def take_turn(member: int) -> None:
        turns[member] += 1
        if member == 3:
            raise ValueError("a mistake")

    rounds = Rounds(0.02, take_turn)
    for member in turns:
        rounds.add(member)
    await until(lambda: min(turns.values()) >= 2)
    assert max(turns.values()) <= 3
    rounds.discard(3)
    before = turns[3]
    await until(lambda: turns[4] >= 5)
    assert turns[3] == before
    for member in turns:
        rounds.discard(member)
    await loop_turns()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    rounds.add(7)
    before = turns[7]
    await until(lambda: turns[7] != before)
    rounds.discard(7)


async def test_turns_are_spread_over_the_interval() -> None:
    """Many members do not have their turns at once: between them, other tasks run."""
    at_once, members = 0, 10 * PORTIONS_MIN
    found: list[int] = []

    def take_turn(member: int) -> None:
        nonlocal at_once
        at_once += 1

    rounds = Rounds(0.2, take_turn)
    for member in range(members):
        rounds.add(member)
    async with asyncio.timeout(30):
        while sum(found) < members:
            await loop_turns()
            found.append(at_once)
            at_once = 0
    assert max(found) <= 2
    for member in range(members):
        rounds.discard(member)


async def test_all_go_during_a_turn() -> None:
    """Those whose turns would have followed have none, and the task ends."""
    had: list[int] = []

    def take_turn(member: int) -> None:
        had.append(member)
        for other in range(4 * PORTIONS_MAX):
            rounds.discard(other)

    rounds = Rounds(0.5, take_turn)
    for member in range(4 * PORTIONS_MAX):
        rounds.add(member)
    await until(lambda: had)
    await loop_turns(10)
    assert had == [0]
    assert asyncio.all_tasks() == {asyncio.current_task()}
