"""Local views over a client whose connection is played by the test."""

import asyncio
import contextlib
import json
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import reduce
from hashlib import blake2b
from operator import xor
from types import FrameType
from typing import Any

import pytest

from sowline.client.async_client import AsyncClient
from sowline.client.connection import ServiceConnection, Subscriptions
from sowline.client.local_view import AsyncLocalView, LocalView
from sowline.client.record_view import Callbacks
from sowline.config.credentials import Credentials
from sowline.errors import SowlineError
from sowline.runtime.loop_thread import LoopThread
from sowline.wire.client_message import read_frame
from tests import interrupts
from tests.interrupts import Interrupted
from tests.waiting import as_soon_as, let_pass, loop_turns, wait_for

Json = dict[str, Any]


class PlayedConnection(ServiceConnection):
    """A connection without a service: it notes what is sent."""

    def __init__(self, carried: Subscriptions) -> None:
        super().__init__("", Credentials(), lambda: None, carried)
        self.sent: list[Json] = []
        self._connected.set()

    async def send(self, request: Json) -> None:
        """Note a request."""
        self.sent.append(request)


class Played(AsyncClient):
    """A client that notes what it sends, and receives what the test gives it."""

    def __init__(self) -> None:
        super().__init__()
        self._streams.connection = connection = PlayedConnection(self._streams)
        self.sent = connection.sent

    @property
    def open_ids(self) -> list[str]:
        """The ids of the subscriptions that are open."""
        return list(self._streams.by_id)

    async def hear(self, *messages: Json) -> None:
        """Let messages arrive, and all that waits for them take them in."""
        for received in read_frame(json.dumps(list(messages)).encode()):
            await self._streams.receive(received)
        await settled()

    async def lose_connection(self) -> list[Json]:
        """Let the connection be made again; return what is asked for then."""
        self._streams.lost()
        requests = list(self._streams.resume(is_void=False))
        await settled()
        return requests


class Never:
    """A condition that is never true; it knows how often it was looked at."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_waited_for = threading.Event()

    def __call__(self, view: object) -> bool:
        """Be false."""
        self.asked += 1
        self.is_waited_for.set()
        return False


async def settled() -> None:
    """Let everything run that can."""
    await loop_turns(20)


def taken(command_id: str = "1", bookmark: str = "orders:0@1") -> Json:
    """The ack of a command."""
    about = {"command_id": command_id, "sub_id": "1", "bookmark": bookmark}
    return {"command": "ack", "ack_type": "processed", "status": "success"} | about


def refused(reason: str, **fields: Any) -> Json:
    """The refusal of a command."""
    return {"command": "ack", "ack_type": "processed", "status": "failure", "reason": reason} | fields


def group(at: int = 1, mark: str = "", **held: Any) -> list[Json]:
    """A group of records, by their keys without the first letter."""
    records = [{"sow_key": key[1:], "data": record} for key, record in held.items()]
    ends = {"query_id": "1", "bookmark": f"orders:0@{at}"}
    return [
        {"command": "group_begin", **ends, **({mark: True} if mark else {})},
        {"command": "sow", "query_id": "1", "records": records},
        {"command": "group_end", **ends},
    ]


def live(command: str, key: str, at: int, **fields: Any) -> Json:
    """A live message."""
    about = {"sids": ["1"], "sow_key": key, "bookmark": f"orders:0@{at}"}
    return {"command": command, **about, "data": {}} | fields


async def entered(client: Played, view: AsyncLocalView, *messages: Json) -> AsyncLocalView:
    """Enter a view, which is sent these messages."""
    entering = asyncio.create_task(view.__aenter__())
    await settled()
    await client.hear(taken(), *messages)
    return await entering


async def test_entering_waits_for_the_whole_group() -> None:
    """Before that, the view is not there; it is told what has changed, what leaves, and of expired bookmarks."""
    client = Played()
    view = client.local_view("orders", filter="/a = 1", order_by="/a", batch_size=50)
    entering = asyncio.create_task(view.__aenter__())
    await settled()
    begin, sow, end = group(k1={"a": 1})
    await client.hear(taken(), begin, sow)
    assert (entering.done(), len(view)) == (False, 0)
    await client.hear(end)
    assert await entering is view
    assert (view, view.bookmark, view.error) == ({"1": {"a": 1}}, "orders:0@1", None)
    (request,) = client.sent
    asked = ("sow_and_delta_subscribe", "/a = 1", "oof,reset", "/a", 50)
    assert (
        tuple(request[name] for name in ("command", "filter", "options", "order_by", "batch_size")) == asked
    )
    await view.close()


async def test_changes_are_followed_until_the_end() -> None:
    """Callers that wait are woken; leaving the view ends the subscription."""
    client = Played()
    view = await entered(client, client.local_view("orders", delta=False), *group(k1={}))
    assert client.sent[0]["command"] == "sow_and_subscribe"
    waiting = asyncio.create_task(view.wait_for(lambda view: "2" in view and view["2"]["a"] == 2))
    await client.hear(live("publish", "2", 2, data={"a": 1}), live("oof", "1", 3, reason="match"))
    assert (view, waiting.done()) == ({"2": {"a": 1}}, False)
    await client.hear(live("publish", "2", 4, data={"a": 2}))
    await waiting
    never = Never()
    with pytest.raises(TimeoutError, match=r"waited 0.01 s"):
        await view.wait_for(never, timeout=0.01)
    await client.hear(live("publish", "2", 5, data={"a": 2}))
    assert never.asked == 1
    await view.__aexit__(None, None, None)
    left = {"command": "unsubscribe", "command_id": "1.leave", "sub_id": "1", "ack_type": "processed"}
    assert client.sent[-1] == left
    assert (view, view.error and view.error.reason) == ({"2": {"a": 2}}, "disconnected")
    with pytest.raises(SowlineError, match="closed"):
        await view.wait_for(lambda view: False)
    with pytest.raises(RuntimeError, match="once"):
        await view.__aenter__()


async def test_a_refusal_is_raised_on_entering() -> None:
    """And nothing is left of the subscription."""
    client = Played()
    view = client.local_view("orders", filter="nonsense")
    entering = asyncio.create_task(view.__aenter__())
    await settled()
    await client.hear(refused("bad filter", command_id="1"))
    with pytest.raises(SowlineError) as error:
        await entering
    assert (error.value.reason, client.open_ids) == ("bad filter", [])


async def test_a_failure_within_the_group_is_raised_on_entering() -> None:
    """The subscription had begun already: it is ended."""
    client = Played()
    with pytest.raises(SowlineError) as error:
        await entered(
            client, client.local_view("orders"), group()[0], refused("gap", command_id="1", sub_id="1")
        )
    assert (error.value.reason, client.open_ids) == ("gap", [])


async def test_a_permanent_failure_is_raised_to_each_waiter() -> None:
    """The view stays readable."""
    client = Played()
    view = await entered(client, client.local_view("orders"), *group(k1={"a": 1}))
    waiting = asyncio.create_task(view.wait_for(lambda view: False))
    await settled()
    await client.hear(live("publish", "2", 2), refused("gap", command_id="1", sub_id="1"))
    with pytest.raises(SowlineError) as error:
        await waiting
    assert error.value is view.error
    assert (view.error.reason, view) == ("gap", {"1": {"a": 1}, "2": {}})
    await view.close()
    assert view.error.reason == "gap"


async def test_a_message_that_can_not_be_applied_ends_the_view() -> None:
    """It shows what it did before, and says why."""
    client = Played()
    view = await entered(client, client.local_view("orders"), *group(k1={"a": 1}))
    await client.hear(live("publish", "1", 2) | {"sow_key": None}, live("oof", "1", 3))
    assert (view.error and view.error.reason, view) == ("no sow", {"1": {"a": 1}})
    await view.close()


async def test_a_lost_connection_goes_unnoticed() -> None:
    """Lost within the first group, that group begins again; lost later, only the changes since are requested."""
    client, calls = Played(), list[Any]()
    view = client.local_view("orders", on_insert=lambda *call: calls.append(call))
    entering = asyncio.create_task(view.__aenter__())
    await settled()
    await client.hear(taken(), *group(k1={"a": 1}, k2={})[:2])
    assert await client.lose_connection() == client.sent
    await client.hear(taken(), *group(5, k1={"a": 2}))
    await entering
    (request,) = await client.lose_connection()
    assert (request["command"], request["bookmark"]) == ("delta_subscribe", "orders:0@5")
    await client.hear(taken(bookmark="orders:0@5"), *group(9, "reset", k1={"a": 2}, k3={}))
    assert (view, view.bookmark, calls) == (
        {"1": {"a": 2}, "3": {}},
        "orders:0@9",
        [("1", {"a": 2}), ("3", {})],
    )
    await view.close()


async def test_a_saved_copy_is_gone_on_from() -> None:
    """It is there at once, and only what has changed since is sent; or all, where that is no longer known."""
    client = Played()
    one = await entered(client, client.local_view("orders"), *group(k1={"a": 1.50}, k2={}))
    bookmark, records = one.saved()
    await one.close()
    client, calls = Played(), list[Any]()
    view = client.local_view(
        "orders",
        bookmark=bookmark,
        records=records,
        on_update=lambda key, now, before: calls.append((now, before)),
    )
    entering = asyncio.create_task(view.__aenter__())
    await settled()
    await client.hear(taken(bookmark="orders:0@1,1@-1"))
    await entering
    assert (client.sent[0]["bookmark"], view.bookmark) == ("orders:0@1", "orders:0@1,1@-1")
    assert view == one
    await client.hear(live("publish", "1", 2, data={"b": 1}, delta=True), live("oof", "2", 3))
    assert (view.bookmark, calls) == ("orders:0@3,1@-1", [({"a": 1.5, "b": 1}, {"a": 1.5})])
    assert view.saved().records == {"1": b'{"a":1.5,"b":1}'}
    await client.hear(*group(9, "reset", k1={"b": 1, "a": 1.5}, k4={}))
    assert (len(calls), list(view), view.bookmark) == (1, ["1", "4"], "orders:0@9")
    await view.close()


@pytest.mark.parametrize(
    ("topic", "asked", "reason"),
    [
        ("^orders", {}, "regex topic not supported"),
        ("orders", {"options": "no_sowkey"}, "invalid options"),
        ("orders", {"options": "format=native"}, "invalid options"),
        ("orders", {"options": "nonsense"}, "invalid options"),
        ("orders", {"order_by": ","}, "invalid order by"),
        ("orders", {"bookmark": "orders:0@1"}, "invalid bookmark"),
        ("orders", {"records": {}}, "invalid bookmark"),
        ("orders", {"bookmark": "orders:0@1", "records": {"1": b"1"}}, "not an object"),
    ],
)
def test_what_a_view_can_not_hold_is_refused(topic: str, asked: Json, reason: str) -> None:
    """Before anything is asked for."""
    with pytest.raises(SowlineError) as error:
        AsyncClient().local_view(topic, **asked)
    assert error.value.reason == reason


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ({"top_n": 5}, (5, 0)),
        ({"top_n": 5, "skip_n": 2}, (5, 2)),
        ({"skip_n": 2}, (None, 2)),
        ({}, (None, None)),
        ({"options": "bookmark_not_found=fail, select=[-/a]"}, (None, None)),
    ],
)
async def test_what_a_view_asks_for(asked: Json, sent: tuple[Any, ...]) -> None:
    """A limit asks for a page, which stays true; the caller's options come last."""
    client = Played()
    view = client.local_view("orders", **asked)
    entering = asyncio.create_task(view.__aenter__())
    await settled()
    (request,) = client.sent
    entering.cancel()
    assert (request.get("top_n"), request.get("skip_n")) == sent
    assert request["options"] == "oof,reset" + ("," if "options" in asked else "") + asked.get("options", "")


async def test_a_view_is_replaced_in_one_step() -> None:
    """Once `replace` returns it shows the new records, in their order; callbacks are told of what differs."""
    client, calls = Played(), list[Any]()
    view = client.local_view(
        "orders", filter="/b = 1", order_by="/a", on_remove=lambda key, *_: calls.append((key, list(view)))
    )
    await entered(client, view, *group(k1={"a": 1, "b": 2}, k2={"a": 2, "b": 1}))
    replacing = asyncio.create_task(view.replace(filter="/b = 2", order_by="/b", options="timestamp"))
    await settled()
    request = client.sent[-1]
    assert (request["filter"], request["options"]) == ("/b = 2", "replace,oof,reset,timestamp")
    begin, sow, end = group(7, "replace", k3={"a": 0, "b": 0})
    await client.hear(live("publish", "9", 5, data={"a": 0}), taken("1.1"))
    await client.hear(live("oof", "9", 5, reason="match", more=True), begin, sow)
    assert (replacing.done(), list(view)) == (False, ["9", "1", "2"])
    await client.hear(end)
    await replacing
    assert (list(view), view.bookmark, calls) == (["3", "2", "1"], "orders:0@7", [("9", ["3", "2", "1"])])
    await view.close()


async def test_a_view_whose_replacement_is_refused_goes_on() -> None:
    """The refusal is raised; what can't be is refused before it is sent."""
    client = Played()
    view = await entered(client, client.local_view("orders", filter="/b = 1", top_n=3), *group(k1={}))
    replacing = asyncio.create_task(view.replace(filter="nonsense", top_n=7))
    await settled()
    assert (client.sent[-1]["top_n"], client.sent[-1]["skip_n"]) == (7, 0)
    await client.hear(refused("bad filter", command_id="1.1"), live("publish", "2", 5))
    with pytest.raises(SowlineError) as error:
        await replacing
    assert (error.value.reason, list(view), view.error) == ("bad filter", ["1", "2"], None)
    for wrong in ({"options": "no_sowkey"}, {"order_by": ","}):
        with pytest.raises(SowlineError):
            await view.replace(**wrong)  # type: ignore[arg-type]
    with pytest.raises(SowlineError, match="entered"):
        await client.local_view("orders").replace(filter="/a = 1")
    await view.close()


async def test_a_connection_lost_while_a_view_is_replaced() -> None:
    """It ends with the new records, wherever the connection was lost; no half group is ever shown."""
    for point in range(4):
        client, calls = Played(), list[Any]()
        view = client.local_view("orders", on_insert=lambda *one, calls=calls: calls.append(one))
        await entered(client, view, *group(k1={}, k2={}))
        replacing = asyncio.create_task(view.replace(filter="/b = 2"))
        await settled()
        messages = [taken("1.1"), live("oof", "1", 5, more=True), *group(7, "replace", k3={})]
        await client.hear(*messages[:point])
        (request,) = await client.lose_connection()
        assert ("filter" in request, "bookmark" in request) == (point > 0, point == 0)
        assert list(view) == ["1", "2"]
        if point == 0:
            await client.hear(taken(), *messages)
        else:
            await client.hear(taken(), *group(8, k2={}, k3={}))
        await replacing
        assert (list(view), calls[2:]) == (["2", "3"], [("3", {})])
        await view.close()


async def test_closing_the_client_ends_its_views() -> None:
    """Callers that wait get the error."""
    client = Played()
    view = await entered(client, client.local_view("orders"), *group(k1={}))
    waiting = asyncio.create_task(view.wait_for(lambda view: False))
    await settled()
    await client.close()
    with pytest.raises(SowlineError) as error:
        await waiting
    assert (error.value.reason, view) == ("disconnected", {"1": {}})
    await view.close()


async def test_whatever_a_condition_raises_is_raised() -> None:
    """In the caller that waits, and in no other."""
    client = Played()
    view = await entered(client, client.local_view("orders"), *group(k1={}))
    waiting = asyncio.create_task(view.wait_for(lambda view: "2" in view and 1 / len(view["2"])))
    await client.hear(live("publish", "2", 2))
    with pytest.raises(ZeroDivisionError):
        await waiting

    def too_late(view: object) -> bool:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await view.wait_for(too_late)
    await client.hear(live("publish", "2", 3))
    assert view.error is None
    await view.close()


# for threads


@pytest.fixture(autouse=True)
def _interrupting() -> Iterator[None]:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGUSR1, signal.SIGVTALRM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Threaded:
    """A view for threads, of a client that lives in a loop of its own."""

    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop
        self.client = Played()
        self.view = LocalView(loop.run, self.client, "orders", Callbacks(), None, delta=True)

    def hear(self, *messages: Json) -> None:
        """Let messages arrive."""
        self._loop.run(self.client.hear, *messages)

    def hear_once_asked(self, requests: int, *messages: Json) -> None:
        """Let messages arrive as soon as the client has sent so many requests."""

        async def answer() -> None:
            await as_soon_as(lambda: len(self.client.sent) >= requests)
            await self.client.hear(*messages)

        self._loop.start(answer)

    def enter(self) -> LocalView:
        """Enter the view, which then shows one record."""
        self.hear_once_asked(1, taken(), *group(k1={"a": 1}))
        return self.view.__enter__()


@pytest.fixture
def threaded() -> Iterator[Threaded]:
    """A view that was not entered yet."""
    loop = LoopThread("tested")
    made = Threaded(loop)
    yield made
    made.view.close()
    loop.stop()


def test_a_view_for_threads(threaded: Threaded) -> None:
    """It is entered, waited for, replaced and left; what it shows stays."""
    view = threaded.enter()
    assert view == {"1": {"a": 1}}
    threaded.hear(live("publish", "1", 2, data={"a": 2}))
    view.wait_for(lambda view: view["1"]["a"] == 2, timeout=5)
    never = Never()
    for seconds in (0, 0.01):
        with pytest.raises(TimeoutError, match=f"waited {seconds} s"):
            view.wait_for(never, seconds)
    with pytest.raises(KeyError, match="9"):
        view.wait_for(lambda view: view["9"])
    threaded.hear_once_asked(2, taken("1.1"), live("oof", "1", 2, more=True), *group(3, "replace", k2={}))
    view.replace(filter="/b = 1")
    assert (list(view), view.bookmark, never.asked) == (["2"], "orders:0@3", 2)
    with pytest.raises(RuntimeError, match="once"):
        view.__enter__()
    assert view.error is None
    view.__exit__(None, None, None)
    assert (list(view), view.error and view.error.reason) == (["2"], "disconnected")
    with pytest.raises(SowlineError, match="closed"):
        view.wait_for(lambda view: False)
    view.wait_for(lambda view: "2" in view)


def interrupt_once_waiting(view: LocalView, ended: threading.Event) -> None:
    """Take a signal in another thread than the one that waits; if that goes on waiting, end it after a while."""
    waiting = False
    while not waiting and not ended.wait(0.01):
        waiting = bool(view._waiting)
    let_pass(0.05)
    signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
    if not ended.wait(5):
        view._fail(SowlineError("internal", "the signal was missed"))


@contextlib.contextmanager
def interrupted(view: LocalView) -> Iterator[None]:
    """What is done within is interrupted as soon as it waits for the view."""
    ended = threading.Event()
    thread = threading.Thread(target=interrupt_once_waiting, args=(view, ended))
    thread.start()
    try:
        with pytest.raises(Interrupted):
            yield
    finally:
        ended.set()
        thread.join()
    assert view.error is None or view.error.reason == "disconnected"


def test_interrupted_on_entering(threaded: Threaded) -> None:
    """A signal that another thread is given ends the wait for the first group; the view is left."""
    threaded.hear_once_asked(1, taken(), *group(k1={})[:2])
    with interrupted(threaded.view):
        threaded.view.__enter__()
    assert (threaded.client.open_ids, threaded.view.error is not None) == ([], True)


@pytest.mark.usefixtures("uncollected")
def test_an_interrupted_entry_leaves_no_subscription() -> None:
    """Between whichever two steps it is interrupted: nobody would take its messages, and the client would stop."""
    steps, has_thread = 0, False
    while not has_thread:
        loop = LoopThread("tested")
        made = Threaded(loop)
        made.hear_once_asked(1, taken())
        assert interrupts.interrupted(made.view.__enter__, steps)
        has_thread = made.view._thread is not None
        wait_for(
            lambda made=made: not made.client.open_ids, f"the view to end that was interrupted at {steps}"
        )
        loop.stop()
        steps += 7
    assert steps > 100


@pytest.mark.parametrize(
    "wait",
    [lambda view: view.wait_for(lambda _: False), lambda view: view.replace(filter="/b = 1")],
    ids=["wait_for", "replace"],
)
def test_interrupted_while_waiting(threaded: Threaded, wait: Callable[[LocalView], None]) -> None:
    """A signal that another thread is given ends the wait; the view goes on."""
    view = threaded.enter()
    threaded.hear_once_asked(2, taken("1.1"))
    with interrupted(view):
        wait(view)
    assert view._waiting == []
    if len(threaded.client.sent) == 1:
        threaded.hear(live("publish", "2", 2))
    else:
        threaded.hear(*group(3, "replace", k2={}))
    view.wait_for(lambda view: "2" in view, timeout=5)


def wait_again_and_again(view: LocalView) -> None:
    """Wait for what is so."""
    while True:
        view.wait_for(lambda view: "1" in view)


@pytest.mark.usefixtures("uncollected")
def test_interrupted_at_any_moment(threaded: Threaded) -> None:
    """Wherever a signal meets somebody who waits, the view goes on."""
    view = threaded.enter()
    try:
        for number in range(150):
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0001)
            with pytest.raises(Interrupted):
                wait_again_and_again(view)
            if number % 10 == 0:
                threaded.hear(live("publish", "1", number + 2, data={"n": number}, delta=True))
                view.wait_for(lambda view, number=number: view["1"].get("n") == number, timeout=5)  # type: ignore[misc]
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


# proofs and ends


def answer(records: int, hash: str, at: int) -> Json:
    """What a service says of a view."""
    about = {"command_id": "1.proof", "sids": ["1"], "bookmark": f"orders:0@{at}"}
    return {"command": "progress", "records": records, "hash": hash, **about}


def digest(*keys: str) -> str:
    """The hash of SOW keys."""
    digests = (int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big") for key in keys)
    return f"{reduce(xor, digests, 0):016x}"


@pytest.mark.parametrize(
    ("counted", "is_right"),
    [((2, digest("1", "2")), True), ((2, digest("1", "3")), False), ((1, digest("1", "2")), False)],
)
async def test_a_view_is_verified(counted: tuple[int, str], is_right: bool) -> None:
    """At the place where the service has counted, whatever comes after that."""
    client = Played()
    view = await entered(client, client.local_view("orders"), *group(k1={"a": 1}))
    verifying = asyncio.create_task(view.verify())
    await settled()
    assert client.sent[-1] == {"command": "heartbeat", "command_id": "1.proof", "sub_id": "1"}
    await client.hear(live("publish", "2", 2), answer(*counted, 2), live("publish", "3", 3))
    assert (await verifying, len(view), view.bookmark) == (is_right, 3, "orders:0@3")
    await view.close()


async def test_a_view_that_can_not_be_verified() -> None:
    """Says why, and goes on."""
    client = Played()
    view = await entered(client, client.local_view("orders"), *group(k1={"a": 1}))
    verifying = asyncio.create_task(view.verify())
    await settled()
    await client.hear(refused("not supported", command_id="1.proof"))
    with pytest.raises(SowlineError) as error:
        await verifying
    assert (error.value.reason, view.error) == ("not supported", None)
    with pytest.raises(TimeoutError):
        await view.verify(timeout=0.01)
    await view.close()


async def test_a_view_may_come_to_an_end() -> None:
    """It shows what there was, and says that no more comes."""
    client = Played()
    view = await entered(client, client.local_view("orders", up_to="now"), *group(k1={"a": 1}))
    completed = {"command": "ack", "ack_type": "completed", "status": "success", "command_id": "1"}
    await client.hear(live("publish", "2", 2), completed)
    await settled()
    assert (view.error is not None and view.error.reason, len(view)) == ("disconnected", 2)
    await view.close()


async def test_a_view_may_begin_at_a_time() -> None:
    """The records of then come in a group, so none are given to it."""
    client = Played()
    client.local_view("orders", bookmark=datetime(2026, 11, 21, tzinfo=UTC))
    with pytest.raises(SowlineError, match="one of them"):
        client.local_view("orders", bookmark="20261121T000000Z", records={})
