"""Subscriptions that catch up together get what each would get alone."""

import asyncio
import json
from random import Random
from typing import Any

import pytest

from sowline.language.filter import compile_filter
from sowline.model.position import Position
from sowline.serving.cooperative import TURN_SECONDS
from sowline.serving.outbox.outbox import Outbox
from sowline.subscriptions.engine.subscription import ChangeView, Subscription
from sowline.wire.options import parse_options
from sowline_query_service.live import catching_up
from sowline_query_service.live.subscription import LiveSubscription
from sowline_query_service.query.selection import Selection
from tests.unit.query_service.sessions import Server, settled
from tests.waiting import as_soon_as, loop_turns

FILTERS = ("1=1", "/n > 20", "/id = 1", "/id = 2 AND /n > 10", "/n < 30")


@pytest.fixture(params=[TURN_SECONDS, -1], ids=["a turn", "a change a turn"])
def turns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes take turns of the usual length, or one for each change, with others in between."""
    monkeypatch.setattr(catching_up, "TURN_SECONDS", request.param)


def _server(partitions: int = 1) -> Server:
    server = Server(partitions).loaded()
    for number in range(40):
        body = None if number % 9 == 8 else {"id": number % 4, "n": number}
        server.put(body, key=number % 4, partition=number % partitions)
    return server


def _behind(server: Server, offset: int = -1, filter: str = "1=1", **more: Any) -> LiveSubscription:
    """Return a subscription with a client of its own that stands at an offset of each partition."""
    outbox = Outbox(more.pop("bytes_max", 10**6))
    engine = Subscription(compile_filter(filter), **more)
    live = LiveSubscription(outbox, "s", server.topic, engine, Selection())
    live.positions = dict.fromkeys(server.topic.partitions, Position(0, offset))
    return live


def _sent(live: LiveSubscription) -> list[tuple[str, int]]:
    messages = [json.loads(message) for message in live.outbox.take_now()]
    return [(message["command"], message["data"]["n"]) for message in messages]


def _expected(server: Server, offset: int, engine: Subscription) -> list[tuple[str, int]]:
    """Return what the engine makes of each change behind an offset, one after the other."""
    changes = server.topic.partitions[0].ring.after(Position(0, -1), 100) or []
    made = [engine.on_change(ChangeView(one)) for one in changes if one.position > Position(0, offset)]
    return [(one.command, json.loads(one.body)["n"]) for one in made if one is not None]


async def test_each_gets_what_it_lacks(turns: None) -> None:
    """From wherever it stands, by its own filter; then all are live."""
    server, chance = _server(), Random(5)
    begun = {}
    for _ in range(60):
        offset, oof = chance.randrange(-1, 40), chance.random() < 0.5
        begun[_behind(server, offset, chance.choice(FILTERS), oof=oof)] = offset
    brought = await asyncio.gather(*map(server.dispatcher.bring, begun))
    assert all(brought)
    for live, offset in begun.items():
        assert _sent(live) == _expected(server, offset, live.engine)
        assert live.positions == server.topic.positions
    assert server.dispatcher.live == len(begun)


async def test_each_change_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many come back at once."""
    server, read = _server(), 0

    def seen(*given: Any) -> ChangeView:
        nonlocal read
        read += 1
        return ChangeView(*given)

    monkeypatch.setattr(catching_up, "ChangeView", seen)
    await asyncio.gather(*(server.dispatcher.bring(_behind(server)) for _ in range(50)))
    assert read == 40


async def test_changes_that_come_meanwhile_come_once(turns: None) -> None:
    """In a pass of many turns, and for those that join in between."""
    server = _server(partitions=3)
    tasks, all_live = [], []
    for number in range(40, 120):
        all_live.append(_behind(server))
        tasks.append(asyncio.create_task(server.dispatcher.bring(all_live[-1])))
        server.put({"id": number % 4, "n": number}, partition=number % 3)
        await loop_turns()
    assert all(await asyncio.gather(*tasks))
    server.put({"id": 1, "n": 120}, partition=0)
    wanted = [number for number in range(121) if number >= 40 or number % 9 != 8]
    for live in all_live:
        assert sorted(n for command, n in _sent(live) if command == "publish") == wanted


async def test_who_leaves_gets_nothing_more(turns: None) -> None:
    """It stands where it was sent everything; the others go on."""
    server, gone, others = _server(), [], []
    gone = [_behind(server) for _ in range(5)]
    others = [_behind(server) for _ in range(5)]
    tasks = [asyncio.create_task(server.dispatcher.bring(live)) for live in gone + others]
    await loop_turns()
    for live in gone:
        server.dispatcher.remove(live)
    assert await asyncio.gather(*tasks) == [False] * 5 + [True] * 5
    assert [_sent(live) for live in gone] == [[]] * 5
    assert all(live.positions == {0: Position(0, -1)} for live in gone)
    assert all(len(_sent(live)) == 36 for live in others)


async def test_a_slow_client_goes_on_by_itself() -> None:
    """Its messages end where its outbox is full, and it stands there. The others are not kept."""
    server = _server()
    slow, quick = _behind(server, bytes_max=150), _behind(server)
    assert await asyncio.gather(server.dispatcher.bring(slow), server.dispatcher.bring(quick)) == [
        False,
        True,
    ]
    assert (_sent(slow), slow.positions) == ([("publish", 0), ("publish", 1)], {0: Position(0, 1)})
    assert len(_sent(quick)) == 36


async def test_who_needs_older_changes_goes_on_by_itself() -> None:
    """The replica has only the last ten in memory."""
    server = Server(ring=10).loaded()
    for number in range(40):
        server.put({"id": 1, "n": number})
    begun = [_behind(server, offset) for offset in (-1, 5, 28, 29, 35)]
    brought = await asyncio.gather(*map(server.dispatcher.bring, begun))
    assert brought == [False, False, False, True, True]
    assert [len(_sent(live)) for live in begun] == [0, 0, 0, 10, 4]


async def test_who_falls_behind_at_once_catches_up_again() -> None:
    """Before its task has noticed that it was live."""
    server = _server()
    live = _behind(server)
    coming = asyncio.create_task(server.dispatcher.bring(live))
    await as_soon_as(live.live.is_set)
    server.dispatcher.remove(live)
    live.fall_behind()
    await coming
    await asyncio.wait_for(live.wait_behind(), 1)


async def test_who_falls_behind_while_live_waits_again() -> None:
    """A proof says so of a subscription that may have become live meanwhile; its task must not run in circles."""
    server = _server()
    live = _behind(server)
    await server.dispatcher.bring(live)
    live.fall_behind()
    await asyncio.wait_for(live.wait_behind(), 1)
    waiting = asyncio.create_task(live.wait_behind())
    await settled()
    assert not waiting.done()
    waiting.cancel()


async def test_all_leave_at_the_first_partition() -> None:
    """Nobody is left for the second one; those who wait have their turn."""
    server = Server(partitions=2, ring=5).loaded()
    for number in range(40):
        server.put({"id": number, "n": number}, partition=number % 2)
    gone = [_behind(server) for _ in range(catching_up.MEMBERS_MAX + 20)]
    level = _behind(server, 19)
    brought = await asyncio.gather(*map(server.dispatcher.bring, [*gone, level]))
    assert brought == [False] * len(gone) + [True]


async def test_a_task_that_is_cancelled_in_between() -> None:
    """Its task is cancelled, and the pass ends before the task runs again."""
    server = _server()
    tasks = [asyncio.create_task(server.dispatcher.bring(_behind(server))) for _ in range(9)]
    await loop_turns()
    for number, task in enumerate(tasks):
        asyncio.get_running_loop().call_soon(task.cancel if number % 3 == 0 else str)
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) or one for one in ended] == [True] * 9
    assert await server.dispatcher.bring(_behind(server))


async def test_a_conflated_client_that_does_not_read_leaves() -> None:
    """What it holds back is bounded, and does not go into an outbox that is full."""
    server = _server()
    outbox = Outbox(20)
    selection = Selection(options=parse_options("conflation=10s"))
    live = LiveSubscription(outbox, "s", server.topic, Subscription(compile_filter("1=1")), selection)
    live.positions = {0: Position(0, -1)}
    assert live.conflated is not None
    outbox.put(b"x" * 400)
    assert not await server.dispatcher.bring(live)
    assert outbox.unsent_bytes == 400


async def test_a_fault_ends_all_that_catch_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """None waits for ever, and those that come later are not concerned."""
    server = _server()

    def failing(*given: object) -> int:
        raise ValueError("a fault")

    with monkeypatch.context() as patched:
        patched.setattr(catching_up, "put_change", failing)
        coming = [server.dispatcher.bring(_behind(server)) for _ in range(3)]
        ended = await asyncio.gather(*coming, return_exceptions=True)
    assert [str(error) for error in ended] == ["a fault"] * 3
    assert await server.dispatcher.bring(_behind(server))


async def test_more_than_a_pass_takes() -> None:
    """The others come with the next ones."""
    server = _server()
    begun = [_behind(server) for _ in range(catching_up.MEMBERS_MAX + 50)]
    assert all(await asyncio.gather(*map(server.dispatcher.bring, begun)))
    await settled()
    assert server.dispatcher.live == len(begun)
