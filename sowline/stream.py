"""One query or subscription as its caller sees it: an iterator of messages that knows its bookmark. No I/O."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypedDict

from sowline.bookmark import NOW, Positions, format_bookmark, lay_over, named_place, parse_bookmark
from sowline.errors import SowlineError
from sowline.message import Message, Received

WAITING_MAX = 10_000
"""Messages that wait for the caller before the client stops reading from its connection."""


class Reading(TypedDict, total=False):
    """What a query or subscription may be asked for beside its topic; docs/client.md describes each."""

    filter: str
    options: str
    bookmark: str
    batch_size: int
    order_by: str
    top_n: int
    skip_n: int
    sow_keys: Sequence[str]


@dataclass(frozen=True)
class Ask:
    """What a stream asked the server for."""

    command: str
    topic: str
    filter: str = ""
    options: str = ""
    bookmark: str = ""
    batch_size: int = 10
    order_by: str = ""
    top_n: int | None = None
    skip_n: int | None = None
    sow_keys: Sequence[str] = ()

    @property
    def is_view(self) -> bool:
        """Whether what comes is a page of a sorted set, or groups: not the changes of records by themselves."""
        return self.skip_n is not None or "projection=" in self.options

    @property
    def has_no_group(self) -> bool:
        """Whether nothing but changes comes: from now on, or after a bookmark that the caller holds a view at."""
        return not self.command.startswith("sow") or named_place(self.bookmark or NOW) != NOW

    def request(self, id: str) -> dict[str, Any]:
        """Return the command as it goes on the wire."""
        fields = {
            "command": self.command,
            "command_id": id,
            "topic": self.topic,
            "filter": self.filter,
            "options": self.options,
            "bookmark": self.bookmark,
            "batch_size": self.batch_size,
            "order_by": self.order_by,
            "top_n": self.top_n,
            "skip_n": self.skip_n,
            "sow_keys": list(self.sow_keys),
            "ack_type": "processed,completed",
        }
        return {name: value for name, value in fields.items() if value not in ("", None, [])}


class Stream:
    """Messages of one query or subscription, in order; `async for` over it, or `await next_batch()`."""

    def __init__(self, id: str, ask: Ask) -> None:
        self.id = id
        self._ask = ask
        self._waiting: deque[Message] = deque()
        self._unfinished: list[Message] = []
        self._amid_a_step = False
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._positions: dict[str, Positions] = {}
        self._whole = False
        self._given = False
        self._started = asyncio.Event()
        self._error: SowlineError | None = None
        self._ended = False

    # what the client's reader calls

    async def receive(self, received: Received) -> None:
        """Take a message from the connection; waits while the caller has too many of them unread."""
        if received.command == "ack":
            self._receive_ack(received)
        else:
            self._unfinished += received.messages()
            if not received.more:
                self._waiting.extend(self._unfinished)
                self._unfinished.clear()
        self._news.set()
        if len(self._waiting) >= WAITING_MAX and not self._ended:
            self._room.clear()
        await self._room.wait()

    def _receive_ack(self, ack: Received) -> None:
        if ack.status == "failure":
            self.fail(SowlineError(ack.reason or "failure", ack.message))
        elif ack.ack_type == "processed":
            self._started.set()
            if self._ask.has_no_group and not self._whole:
                self._positions = _parse(ack.bookmark)
                self._whole = True
        elif ack.ack_type == "completed" and self._ask.command == "sow":
            self._ended = True

    def fail(self, error: SowlineError) -> None:
        """End the stream: the caller gets what was received before, then the error."""
        self._error = error
        self._news.set()
        self._started.set()

    def close(self) -> None:
        """End the stream: nobody will read what is waiting, so the client's reader need not wait for room."""
        self._ended = True
        self._waiting.clear()
        self._room.set()
        self._news.set()
        self._started.set()

    def is_to_ask_again(self, received: Received) -> bool:
        """Tell whether the service refuses what it will do in a moment: it is loading, or behind our bookmark."""
        passing = ("not ready", "behind") if self._whole else ("not ready",)
        return received.status == "failure" and received.reason in passing

    def resumed(self) -> Ask | None:
        """Forget what the caller has not been given, and return how to go on; None where that can't be."""
        if self._ended or self._error is not None:
            return None
        if self._ask.command == "sow" and self._given:
            self.fail(
                SowlineError("disconnected", "the connection was lost while the query ran; run it again")
            )
            return None
        self._drop_what_waits()
        self._room.set()
        return self.going_on()

    def _drop_what_waits(self) -> None:
        """Drop what the caller was not given, but for the rest of a step of which it was given a part."""
        kept: deque[Message] = deque()
        while self._amid_a_step and self._waiting:
            kept.append(self._waiting.popleft())
            if not kept[-1].more:
                break
        self._unfinished.clear()
        self._waiting = kept

    def going_on(self) -> Ask:
        """Return what to ask for so that the caller gets what comes next."""
        if self._ask.command == "sow" or not self._whole:
            return self._ask
        command = self._ask.command
        if not self._ask.is_view:
            command = command.removeprefix("sow_and_")
        positions = self._positions
        for message in self._waiting:
            positions = lay_over(positions, _parse(message.bookmark))
        return replace(self._ask, command=command, bookmark=format_bookmark(positions))

    # what the caller uses

    async def started(self) -> None:
        """Wait until the server has taken the command; raises what it was refused for."""
        await self._started.wait()
        if self._error is not None:
            raise self._error

    @property
    def bookmark(self) -> str | None:
        """Where to come back from: after the last message given to the caller. None until a group has ended."""
        return format_bookmark(self._positions) if self._whole else None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """Return the next message; raises what the server refused the stream for."""
        await self._wait()
        return self._give(1)[0]

    async def next_batch(self, limit: int = 1000) -> list[Message]:
        """Wait for messages and return those that are there; an empty list at the end of a query."""
        try:
            await self._wait()
        except StopAsyncIteration:
            return []
        return self._give(min(limit, len(self._waiting)))

    async def _wait(self) -> None:
        while not self._waiting:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()

    def _give(self, count: int) -> list[Message]:
        messages = [self._waiting.popleft() for _ in range(count)]
        self._given = True
        self._amid_a_step = messages[-1].more
        if len(self._waiting) <= WAITING_MAX // 2:
            self._room.set()
        for message in messages:
            if message.command != "sow":
                self._note(message)
        return messages

    def _note(self, message: Message) -> None:
        """Stand where the message says that its reader stands."""
        if message.command == "group_end":
            self._positions = _parse(message.bookmark)
            self._whole = True
        elif message.bookmark is not None and message.command != "group_begin":
            self._positions = lay_over(self._positions, _parse(message.bookmark))


def _parse(bookmark: str | None) -> dict[str, Positions]:
    return {} if bookmark is None or named_place(bookmark) else parse_bookmark(bookmark)
