"""The blocking client: the bookmark of an iterator, whose messages are taken in batches."""

import asyncio
import gc
import json
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sowline.client.client import Client
from sowline.client.messages import IteratedStream, Messages
from sowline.client.stream import Stream
from sowline.subscriptions.ask import Ask
from sowline.subscriptions.lifecycle import ConnectionMade
from sowline.wire.client_message import Message, read_frame
from tests.held_connection import Connection
from tests.interrupts import interrupted
from tests.waiting import wait_for

ACCEPTED = {"command": "ack", "command_id": "1", "status": "success", "ack_type": "processed"}


def run(function: Callable[..., Coroutine[Any, Any, Any]], *given: object, **named: object) -> Any:
    """Run at once what a client without a connection calls."""
    return asyncio.run(function(*given, **named))


def messages_of(command: str, *frames: dict[str, Any], run: Callable[..., Any] = run) -> Messages:
    """Return the iterator over what a service has sent."""
    stream = Stream("1", Ask(command, "orders"))
    stream.handle(ConnectionMade())
    for received in read_frame(json.dumps(frames).encode()):
        stream.receive(received)
    opening = IteratedStream(cast("Any", SimpleNamespace()))
    opening.stream = stream
    return Messages(run, opening, lambda _: None)


def change(offset: int, partition: int = 0, **fields: Any) -> dict[str, Any]:
    """Return the message of a change."""
    bookmark = f"orders:{partition}@{offset}"
    return {"command": "publish", "sids": ["1"], "bookmark": bookmark, "data": {}, **fields}


def test_the_bookmark_is_that_of_the_last_message_returned() -> None:
    """Who saves it with each message, and is killed, gets the rest of a batch at the next start."""
    messages = messages_of(
        "subscribe",
        {**ACCEPTED, "bookmark": "orders:0@4,1@9"},
        change(5),
        change(10, partition=1),
        change(6),
    )
    found = [(next(messages).bookmark, messages.bookmark) for _ in range(3)]
    assert found == [
        ("orders:0@5", "orders:0@5,1@9"),
        ("orders:1@10", "orders:0@5,1@10"),
        ("orders:0@6", "orders:0@6,1@10"),
    ]


def test_the_bookmark_after_the_end_is_that_of_the_last_message_returned() -> None:
    """Who leaves the iteration within a batch, and then saves the bookmark, gets the rest at the next start."""
    messages = messages_of(
        "subscribe", {**ACCEPTED, "bookmark": "orders:0@4"}, change(5), change(6), change(7)
    )
    with closing(messages):
        next(messages)
    assert messages.bookmark == "orders:0@5"
    assert list(messages) == []


def test_what_an_interrupted_wait_has_taken_is_not_behind_the_bookmark() -> None:
    """Ctrl-C ends the wait just when messages come: who saves the bookmark then gets them at the next start."""

    def interrupt(function: Callable[..., Any], *given: object, **named: object) -> Any:
        run(function, *given, **named)
        if function.__name__ == "next_batch":
            raise KeyboardInterrupt

    frames = {**ACCEPTED, "bookmark": "orders:0@4"}, change(5), change(6)
    messages = messages_of("subscribe", *frames, run=interrupt)
    with pytest.raises(KeyboardInterrupt):
        next(messages)
    assert messages.bookmark == "orders:0@4"
    assert list(messages) == [], "the iteration would go on without the batch that was taken"


def test_an_interrupted_wait_that_has_taken_nothing_repeats_nothing() -> None:
    """The bookmark is the one after the last batch, whose messages were all returned."""

    def interrupt(function: Callable[..., Any], *given: object, **named: object) -> Any:
        if function.__name__ == "next_batch" and is_interrupted:
            raise KeyboardInterrupt
        return run(function, *given, **named)

    is_interrupted = False
    frames = {**ACCEPTED, "bookmark": "orders:0@4"}, change(5), change(6)
    messages = messages_of("subscribe", *frames, run=interrupt)
    assert [next(messages).bookmark for _ in range(2)] == ["orders:0@5", "orders:0@6"]
    is_interrupted = True
    with pytest.raises(KeyboardInterrupt):
        next(messages)
    assert messages.bookmark == "orders:0@6"


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("returned", [0, 1])
def test_a_message_that_was_not_returned_is_not_behind_the_bookmark(returned: int) -> None:
    """Between whichever two steps `next` is interrupted, the bookmark is that of the last message it returned."""
    found: list[str | None] = []
    going_on: list[Message | None] = []
    is_interrupted = True
    while is_interrupted:
        frames = {**ACCEPTED, "bookmark": "orders:0@4"}, change(5), change(6), change(7)
        messages = messages_of("subscribe", *frames, run=_run_untraced)
        for _ in range(returned):
            next(messages)
        is_interrupted = interrupted(partial(next, messages), len(found))
        found.append(messages.bookmark)
        going_on.append(next(messages, None))
    assert len(found) > 20
    # At its last step, it returns the message.
    assert set(found[:-2]) == {f"orders:0@{4 + returned}"}
    assert found[-1] == f"orders:0@{5 + returned}"
    # Interrupted before its first step, it goes on with the next message; else it has ended.
    assert {one.bookmark for one in going_on[:-2] if one is not None} <= {f"orders:0@{5 + returned}"}


def _run_untraced(function: Callable[..., Any], *given: object, **named: object) -> Any:
    """Run without being interrupted: the loop is in another thread."""
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        return run(function, *given, **named)
    finally:
        sys.settrace(trace)


def test_no_bookmark_within_a_group() -> None:
    """Nothing resumes from a part of it."""
    group: list[dict[str, Any]] = [
        {"command": "group_begin", "query_id": "1", "topic": "orders"},
        {"command": "sow", "query_id": "1", "topic": "orders", "sow_key": "1", "data": {}},
        {"command": "group_end", "query_id": "1", "topic": "orders", "bookmark": "orders:0@7"},
    ]
    messages = messages_of("sow_and_subscribe", ACCEPTED, *group)
    found = [(next(messages).command, messages.bookmark) for _ in group]
    assert found == [("group_begin", None), ("sow", None), ("group_end", "orders:0@7")]


class Served(Connection):
    """A connection over which each subscription is accepted, and gets one change."""

    collects = False
    """Whether the loop collects garbage while it sends."""

    async def send(self, text: str) -> None:
        """Take a request."""
        if self.collects:
            gc.collect()
        await super().send(text)
        request = self.sent[-1]
        if request["command"] == "sow":
            self.give(**ACCEPTED | {"command_id": request["command_id"]})
        if request["command"] == "subscribe":
            self.give(**ACCEPTED | {"command_id": request["command_id"]}, bookmark="orders:0@4")
            self.give(**change(5) | {"sids": [request["command_id"]]})


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Client, Served]]:
    """A client, and its connection."""
    connection = Served()

    async def connect(url: str, **options: object) -> Served:
        return connection

    monkeypatch.setattr("sowline.client.connection.connect", connect)
    with Client("http://x") as client:
        yield client, connection


def test_leaving_the_iteration_ends_the_stream(served: tuple[Client, Served]) -> None:
    """Also if the program does not name the iterator: it is gone with the loop, without the garbage collector."""
    client, connection = served
    gc.disable()
    try:
        for message in client.subscribe("orders"):
            assert message.bookmark == "orders:0@5"
            break
        closed = client.subscribe("orders")
        next(closed)
        closed.close()
        assert list(closed) == []
        wait_for(lambda: len(connection.sent) == 4, "both ends to be sent")
    finally:
        gc.enable()
    assert [request["command"] for request in connection.sent] == ["subscribe", "unsubscribe"] * 2


def test_an_iterator_that_the_loop_collects(served: tuple[Client, Served]) -> None:
    """The loop can't wait for itself: the client would never answer again."""
    client, connection = served
    cycle: list[object] = [client.subscribe("orders")]
    cycle.append(cycle)
    next(cast("Messages", cycle[0]))
    del cycle
    connection.collects = True
    next(client.subscribe("orders"))
    wait_for(lambda: len(connection.sent) == 4, "both ends to be sent")
    assert [request["command"] for request in connection.sent] == ["subscribe"] * 2 + ["unsubscribe"] * 2


def test_an_iterator_that_was_not_begun_ends_its_stream(served: tuple[Client, Served]) -> None:
    """Closed or dropped before its first message: nobody would take its messages, and the client would stop."""
    client, connection = served
    client.subscribe("orders").close()
    client.subscribe("orders")
    records = client.records("orders")
    cast("Any", records).close()
    client.records("orders")
    wait_for(lambda: len(connection.sent) == 8, "all ends to be sent")
    asked = ["subscribe", "unsubscribe"] * 2 + ["sow", "unsubscribe"] * 2
    assert [request["command"] for request in connection.sent] == asked


@pytest.mark.usefixtures("uncollected")
def test_an_interrupted_call_leaves_no_stream(served: tuple[Client, Served]) -> None:
    """Between whichever two steps it is interrupted, before or after the service has accepted the request."""
    client, connection = served
    steps = 0
    kept: list[Messages] = []  # interrupted in its finalizer, an iterator would not end its stream
    while interrupted(lambda: kept.append(client.subscribe("orders")), steps):
        kept.clear()
        vars(client).update(_lock=threading.Lock())  # an interrupted `with` may have kept it
        steps += 1
    assert steps > 100
    kept.clear()

    def sent(command: str) -> int:
        return sum(request["command"] == command for request in connection.sent)

    wait_for(lambda: sent("subscribe") == sent("unsubscribe"), "each subscription to end")
    assert sent("subscribe") > 10
