"""A stream whose connection is played by the test."""

import json
from typing import Any

from sowline.client.stream import Stream
from sowline.subscriptions.ask import Ask
from sowline.subscriptions.lifecycle import (
    ConnectionMade,
    ReplaceBy,
    Send,
    SendAsk,
    Signal,
)
from sowline.wire.client_message import read_frame

OPEN = Ask("sow_and_subscribe", "orders", "/a = 1", "oof", top_n=5)


async def give(stream: Stream, *messages: dict[str, Any]) -> None:
    """Let messages arrive from the connection."""
    for received in read_frame(json.dumps(list(messages)).encode()):
        stream.receive(received)
        await stream.wait_for_room()


def opened(ask: Ask) -> Stream:
    """Return a stream whose request is sent."""
    stream = Stream("1", ask)
    stream.handle(ConnectionMade())
    stream.outgoing.clear()
    return stream


def resumed(stream: Stream) -> Ask | None:
    """Let the connection be made again; return what is asked for then."""
    stream.handle(Signal.LOST)
    stream.handle(ConnectionMade())
    return next((action.ask for action in stream.outgoing if isinstance(action, SendAsk)), None)


def next_request(stream: Stream) -> dict[str, Any] | None:
    """Return what is to be sent next, but for the request that resumes."""
    actions = [stream.outgoing.popleft() for _ in range(len(stream.outgoing))]
    requests = [stream.request(action) for action in actions if isinstance(action, ReplaceBy | Send)]
    assert len(requests) <= 1
    return requests[0] if requests else None


def change(offset: int, partition: int = 0, command: str = "publish") -> dict[str, Any]:
    """Return a live message."""
    return {"command": command, "sids": ["1"], "bookmark": f"orders:{partition}@{offset}", "data": {}}


def group(bookmark: str, count: int = 0) -> list[dict[str, Any]]:
    """Return a whole group of so many records."""
    record = {"command": "sow", "records": [{"sow_key": "1", "data": {}}]}
    return [
        {"command": "group_begin", "bookmark": bookmark},
        *[record] * count,
        {"command": "group_end", "bookmark": bookmark, "records": count},
    ]


def processed(bookmark: str = "") -> dict[str, Any]:
    """Return the ack of a command."""
    return {"command": "ack", "ack_type": "processed", "status": "success", "bookmark": bookmark}


COMPLETED = {"command": "ack", "ack_type": "completed", "status": "success"}
FAILED = {
    "command": "ack",
    "ack_type": "processed",
    "status": "failure",
    "reason": "bad filter",
    "message": "m",
}


async def take(stream: Stream, count: int) -> list[str]:
    """Return the commands of the next messages."""
    return [(await anext(stream)).command for _ in range(count)]


def taken(number: int = 1) -> dict[str, Any]:
    """Return the ack of a replacement."""
    return processed("orders:0@5") | {"command_id": f"1.{number}", "sub_id": "1"}


def refused(number: int = 1, reason: str = "bad filter", **fields: Any) -> dict[str, Any]:
    """Return the refusal of a replacement."""
    return FAILED | {"command_id": f"1.{number}", "reason": reason} | fields


async def subscribed(ask: Ask = OPEN) -> Stream:
    """A subscription whose first group was given to its caller."""
    stream = opened(ask)
    await give(stream, processed("orders:0@1"), *group("orders:0@1"))
    await take(stream, 2)
    return stream
