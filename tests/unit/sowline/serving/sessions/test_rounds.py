"""Rounds: what each of many connections gets regularly, in one task for all of them."""

import asyncio

from sowline.serving.sessions.rounds import CHUNK, PARTS, Rounds


async def test_each_has_its_turn_in_every_round() -> None:
    """Also one whose turn fails, and however many there are; none once it has gone, and then there is no task."""
    turns = dict.fromkeys(range(CHUNK * PARTS + 10), 0)

    async def take_turn(member: int) -> None:
        turns[member] += 1
        if member == 3:
            raise ValueError("a mistake")

    rounds = Rounds(0.02, take_turn)
    for member in turns:
        rounds.add(member)
    async with asyncio.timeout(30):
        while min(turns.values()) < 2:
            await asyncio.sleep(0.001)
    assert max(turns.values()) <= 3
    rounds.discard(3)
    before = turns[3]
    async with asyncio.timeout(30):
        while turns[4] < 5:
            await asyncio.sleep(0.001)
    assert turns[3] == before
    for member in turns:
        rounds.discard(member)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    rounds.add(7)
    before = turns[7]
    async with asyncio.timeout(30):
        while turns[7] == before:
            await asyncio.sleep(0.001)
    rounds.discard(7)


async def test_one_that_goes_during_a_round() -> None:
    """Has no turn any more, even if it was due."""
    had: list[int] = []

    async def take_turn(member: int) -> None:
        had.append(member)
        rounds.discard(PARTS)

    rounds = Rounds(0.01, take_turn)
    for member in range(PARTS + 1):
        rounds.add(member)
    async with asyncio.timeout(30):
        while len(had) < 2 * PARTS:
            await asyncio.sleep(0.001)
    assert PARTS not in had
    for member in range(PARTS):
        rounds.discard(member)
