"""The blocking client: the bookmark of an iterator, whose messages are taken in batches."""

import asyncio
import gc
import json
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from typing import Any, cast

import pytest

from sowline.client.client import Client, Messages
from sowline.client.stream import Stream
from sowline.subscriptions.ask import Ask
from sowline.subscriptions.lifecycle import ConnectionMade
from sowline.wire.client_message import read_frame
from tests.held_connection import Connection
from tests.waiting import wait_for

ACCEPTED = {"command": "ack", "command_id": "1", "status": "success", "ack_type": "processed"}


class Unconnected(Client):
    """A client without a connection: what it calls runs at once."""

    def __init__(self) -> None:
        self._is_closed = True

    def _run(self, function: Callable[..., Coroutine[Any, Any, Any]], *given: object, **named: object) -> Any:
        return asyncio.run(function(*given, **named))


def messages_of(command: str, *frames: dict[str, Any]) -> Messages:
    """Return the iterator over what a service has sent."""
    stream = Stream("1", Ask(command, "orders"))
    stream.handle(ConnectionMade())
    for received in read_frame(json.dumps(frames).encode()):
        stream.receive(received)
    return Messages(Unconnected(), stream)


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


def test_what_an_interrupted_wait_has_taken_is_not_behind_the_bookmark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C ends the wait just when messages come: who saves the bookmark then gets them at the next start."""
    messages = messages_of("subscribe", {**ACCEPTED, "bookmark": "orders:0@4"}, change(5), change(6))

    def interrupted(
        self: Unconnected,
        function: Callable[..., Coroutine[Any, Any, Any]],
        *given: object,
        **named: object,
    ) -> Any:
        asyncio.run(function(*given, **named))
        raise KeyboardInterrupt

    monkeypatch.setattr(Unconnected, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(messages)
    assert messages.bookmark == "orders:0@4"


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
