"""Which queries run at once, which wait, which are refused, and which end because nobody reads them."""

import asyncio
from collections.abc import Hashable
from types import SimpleNamespace

import pytest

from sowline.errors import SowlineError
from sowline.serving.query_slots import LOOKS, READ_BYTES_MIN, Asker, QuerySlot, QuerySlots, SlotLimits, lent
from tests.property.clock import clock, on_clock
from tests.waiting import loop_turns


class Played:
    """A client that a test lets read, or not."""

    def __init__(self, *, is_blocked: bool = True) -> None:
        self.is_blocked = is_blocked
        self.sent_bytes = 0


@pytest.fixture(autouse=True)
def _played_time(monkeypatch: pytest.MonkeyPatch) -> None:
    time = SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time())
    monkeypatch.setattr("sowline.serving.query_slots.time", time)


def slots_of(
    service: int = 3, user: int = 2, connection: int = 1, waiting: int = 100, seconds: float = 3600.0
) -> QuerySlots:
    """Return slots with small limits."""
    return QuerySlots(SlotLimits(service, user, connection, waiting, seconds))


def taken(slots: QuerySlots, user: str, connection: Hashable) -> QuerySlot:
    """Return a slot that runs."""
    slot = slots.new(Asker(user, connection))
    assert slot.take_now()
    return slot


async def waiting(slots: QuerySlots, user: str, connection: Hashable, order: list[Hashable]) -> QuerySlot:
    """Take a slot once it is free, note the connection, and keep the slot."""
    slot = slots.new(Asker(user, connection))
    await slot.take()
    order.append(connection)
    return slot


async def settled() -> None:
    """Let all tasks run that can."""
    await loop_turns(5)


@pytest.mark.parametrize(
    ("limit", "asked"),
    [
        ("connection", [("ann", 1), ("ann", 1)]),
        ("user", [("ann", 1), ("ann", 2), ("ann", 3)]),
        ("service", [("ann", 1), ("ann", 2), ("bob", 3), ("cat", 4)]),
    ],
)
async def test_one_more_than_may_run_waits(limit: str, asked: list[tuple[str, int]]) -> None:
    """Each limit holds by itself; the one too many runs when one of the others has ended."""
    slots, order = slots_of(), list[Hashable]()
    *first, last = asked
    held = [taken(slots, *one) for one in first]
    task = asyncio.create_task(waiting(slots, *last, order))
    await settled()
    assert (order, slots.running, slots.waiting) == ([], len(first), 1), limit
    held[0].free()
    await task
    assert (order, slots.running, slots.waiting) == ([last[1]], len(first), 0)


async def test_users_take_turns() -> None:
    """A user with many queries that wait is served as often as one with few."""
    slots, order = slots_of(service=1), list[Hashable]()
    held = taken(slots, "x", 0)
    tasks = [asyncio.create_task(waiting(slots, "greedy", f"g{number}", order)) for number in range(4)]
    await settled()
    tasks += [asyncio.create_task(waiting(slots, "plain", f"p{number}", order)) for number in range(2)]
    await settled()
    held.free()
    await settled()
    while len(order) < len(tasks):
        (running,) = (task.result() for task in tasks if task.done() and task.result().is_taken)
        running.free()
        await settled()
    assert order == ["g0", "p0", "g1", "p1", "g2", "g3"]


async def test_the_connections_of_a_user_take_turns() -> None:
    """One with many queries that wait is served as often as one with few."""
    slots, order = slots_of(service=1), list[Hashable]()
    held = taken(slots, "x", 0)
    tasks = [asyncio.create_task(waiting(slots, "ann", one, order)) for one in ("a", "a", "a", "b")]
    await settled()
    held.free()
    await settled()
    while len(order) < len(tasks):
        (running,) = (task.result() for task in tasks if task.done() and task.result().is_taken)
        running.free()
        await settled()
    assert order == ["a", "b", "a", "a"]


def test_a_query_that_can_not_begin_leaves_its_slot() -> None:
    """Nothing runs within it that would free it."""
    slots = slots_of(service=1)

    def begin() -> None:
        raise SowlineError("no history", "a topic without one")

    with pytest.raises(SowlineError, match="a topic without one"):
        slots.new(Asker("ann", 1)).begin_now(begin)
    assert slots.running == 0


async def test_work_without_a_turn_gets_none_by_waiting() -> None:
    """Nobody would free it."""
    slots = slots_of(service=1)
    slot = slots.new(Asker("ann", 1))
    async with lent(slot):
        assert slots.running == 0
    assert slots.running == 0


async def test_a_query_that_waits_no_longer_is_passed_over() -> None:
    """Its client has left: the next one runs, also if its turn has just come."""
    slots, order = slots_of(service=1), list[Hashable]()
    held = taken(slots, "x", 0)
    tasks = [asyncio.create_task(waiting(slots, "ann", number, order)) for number in range(3)]
    await settled()
    tasks[0].cancel()
    await settled()
    held.free()
    tasks[1].cancel()  # its turn has come, and it has not run yet
    await settled()
    assert (order, slots.running, slots.waiting) == ([2], 1, 0)


async def test_if_too_many_wait_the_one_with_most_gives_way() -> None:
    """A user who fills the queue does not keep others out; one who has most of it is refused."""
    slots, order = slots_of(service=1, waiting=3), list[Hashable]()
    taken(slots, "x", 0)
    greedy = [asyncio.create_task(waiting(slots, "greedy", number, order)) for number in range(4)]
    await settled()
    with pytest.raises(SowlineError, match="at most 3 connections with queries that wait") as refused:
        await greedy[3]
    assert refused.value.reason == "busy"
    plain = asyncio.create_task(waiting(slots, "plain", "p", order))
    await settled()
    assert (greedy[2].done(), plain.done(), slots.refused) == (True, False, 2)
    with pytest.raises(SowlineError, match="at most 3"):
        await greedy[2]
    for task in (*greedy[:2], plain):
        task.cancel()


async def test_a_connection_waits_once_however_many_queries_it_has() -> None:
    """Ten thousand subscriptions of one connection take one place among those that wait."""
    slots, order = slots_of(service=1, waiting=2), list[Hashable]()
    taken(slots, "x", 0)
    tasks = [asyncio.create_task(waiting(slots, "ann", 1, order)) for _ in range(50)]
    tasks.append(asyncio.create_task(waiting(slots, "bob", 2, order)))
    await settled()
    assert (slots.waiting, slots.refused) == (51, 0)
    for task in tasks:
        task.cancel()


async def test_a_gateway_does_not_wait() -> None:
    """Its query at this service would keep slots at others: two such gateways would wait for each other for ever."""
    slots = slots_of(service=1)
    taken(slots, "x", 0)
    slot = slots.new(Asker("gateway", 1, None, is_limited=False))
    assert slot.take_now()
    slot.free()
    assert slots.running == 1


async def _kept(slot: QuerySlot, begun: asyncio.Event) -> None:
    async with slot:
        await slot.take()
        begun.set()
        await asyncio.get_running_loop().create_future()


async def test_who_reads_nothing_makes_way_for_others() -> None:
    """It ends with a reason, and the one that waits runs."""
    slots, order, begun = slots_of(service=1, seconds=0.01), list[Hashable](), asyncio.Event()
    unread = asyncio.create_task(_kept(slots.new(Asker("ann", 1, Played())), begun))
    await begun.wait()
    await waiting(slots, "bob", 2, order)
    with pytest.raises(SowlineError, match="read faster, or ask for less at once") as ended:
        await unread
    assert (ended.value.reason, order, slots.ended) == ("not read", [2], 1)


@on_clock
async def test_who_takes_long_to_end_is_ended_once() -> None:
    """The look-out goes on meanwhile: others that read nothing make way, too."""
    slots, begun, may_end = slots_of(service=1, seconds=0.001), asyncio.Event(), asyncio.Event()

    async def long_to_end(slot: QuerySlot) -> None:
        async with slot:
            await slot.take()
            begun.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                await may_end.wait()

    unread = asyncio.create_task(long_to_end(slots.new(Asker("ann", 1, Played()))))
    await begun.wait()
    behind = asyncio.create_task(waiting(slots, "bob", 2, []))
    errors: list[object] = []
    clock().set_exception_handler(lambda loop, context: errors.append(context))
    await clock().tick(20)
    assert (slots.ended, errors) == (1, [])
    may_end.set()
    with pytest.raises(SowlineError, match="read faster"):
        await unread
    await behind
    assert slots.ended == 1


@pytest.mark.parametrize("other", [("ann", 1), ("ann", 2)], ids=["itself", "of its user"])
@on_clock
async def test_who_keeps_no_other_from_running_may_take_its_time(other: tuple[str, int]) -> None:
    """Only its own queries wait for it, or those that wait for another one of its user's."""
    slots, begun = slots_of(service=9, user=9, seconds=0.001), asyncio.Event()
    unread = asyncio.create_task(_kept(slots.new(Asker("ann", 1, Played())), begun))
    await begun.wait()
    held = taken(slots, "ann", 2)
    behind = asyncio.create_task(_kept(slots.new(Asker(*other)), asyncio.Event()))
    await settled()
    assert slots.waiting == 1
    await clock().tick(20)
    assert (unread.done(), behind.done(), slots.ended) == (False, False, 0)
    for task in (unread, behind):
        task.cancel()
    held.free()


@pytest.mark.parametrize("reader", [Played(is_blocked=False), None], ids=["computes", "fills a view"])
@on_clock
async def test_who_waits_for_no_client_is_not_ended(reader: Played | None) -> None:
    """A query that computes for long has a limit of its own."""
    slots, begun = slots_of(service=1, seconds=0.001), asyncio.Event()
    long = asyncio.create_task(_kept(slots.new(Asker("ann", 1, reader)), begun))
    await begun.wait()
    behind = asyncio.create_task(waiting(slots, "bob", 2, []))
    await clock().tick(20)
    assert (long.done(), behind.done()) == (False, False)
    for task in (long, behind):
        task.cancel()


class ReadsSlowly:
    """A client that has read something whenever the service looks: how late it looks decides nothing."""

    is_blocked = True

    def __init__(self, bytes_each: int) -> None:
        self._sent = 0
        self._each = bytes_each

    @property
    def sent_bytes(self) -> int:
        """A number that grows with each look."""
        self._sent += self._each
        return self._sent


@on_clock
async def test_who_reads_slowly_is_not_ended() -> None:
    """As long as it reads a quarter of a mebibyte in the time, a query goes on."""
    slots, begun = slots_of(service=1, seconds=0.001), asyncio.Event()
    task = asyncio.create_task(_kept(slots.new(Asker("ann", 1, ReadsSlowly(READ_BYTES_MIN))), begun))
    await begun.wait()
    behind = asyncio.create_task(waiting(slots, "bob", 2, []))
    await clock().tick(20)
    assert not task.done()
    for one in (task, behind):
        one.cancel()


async def test_who_reads_a_byte_now_and_then_makes_way() -> None:
    """It would keep its turn for ever."""
    slots, order, begun = slots_of(service=1, seconds=0.01), list[Hashable](), asyncio.Event()
    dripping = asyncio.create_task(_kept(slots.new(Asker("ann", 1, ReadsSlowly(1))), begun))
    await begun.wait()
    await waiting(slots, "bob", 2, order)
    with pytest.raises(SowlineError, match="at least 256 KiB of its answers"):
        await dripping
    assert (order, slots.ended) == ([2], 1)


@on_clock
async def test_the_time_begins_when_others_begin_to_wait() -> None:
    """A look of long ago, at a query that others no longer wait for, counts for nothing."""
    slots, begun = slots_of(service=1), asyncio.Event()
    unread = slots.new(Asker("ann", 1, Played()))
    running = asyncio.create_task(_kept(unread, begun))
    await begun.wait()
    behind = asyncio.create_task(waiting(slots, "bob", 2, []))
    await clock().tick(3600 * 1000 / LOOKS)
    assert unread.unread_since is not None
    behind.cancel()
    await clock().tick(3600 * 1000 / LOOKS)
    assert unread.unread_since is None
    running.cancel()
