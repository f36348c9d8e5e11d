"""One query or subscription from its caller's point of view: an iterator of messages with a bookmark. No I/O."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, Self, Unpack

import msgspec

from sowline.client.ask import Ask, Selecting
from sowline.client.position_tracker import PositionTracker
from sowline.errors import SowlineError
from sowline.model.select import Select
from sowline.wire.client_message import Message, Received
from sowline.wire.options import Options, parse_options, with_pause

PAUSE, RESUME, PROOF = "pause", "resume", "proof"
"""The suffix of the ids of commands about a subscription."""

WAITING_MAX = 10_000
"""Messages that wait for the caller before the client stops reading from its connection."""


class StreamReplacement:
    """A pending replacement of a subscription's request, until the server has accepted or refused it."""

    def __init__(self, command_id: str, changes: Selecting) -> None:
        self.command_id = command_id
        self.sent = False
        self._changes = changes
        self._error: SowlineError | None = None
        self._settled = asyncio.Event()

    def ask(self, before: Ask) -> Ask:
        """Return the new request: parameters that are not given stay as they are."""
        changes: dict[str, Any] = {"bookmark": "", **self._changes}
        return replace(before, **changes)

    def settle(self, error: SowlineError | None = None) -> None:
        """Report the outcome to the callers that wait."""
        self._error = error
        self._settled.set()

    async def settled(self) -> None:
        """Wait until the server has accepted it; raise its refusal."""
        await self._settled.wait()
        if self._error is not None:
            raise self._error


class ShownGroup(NamedTuple):
    """The request whose whole group the caller has received, and the number of replacements before it."""

    replacements: int
    ask: Ask


class Stream:
    """Messages of one query or subscription, in order; `async for` over it, or `await next_batch()`.

    If the connection is lost, a subscription resumes after the last message that its caller received. A query that
    has given messages fails with `disconnected`; one that has given none is sent again.

    A subscription can be replaced (`replace`). If the connection is lost before the server has answered, the old
    subscription resumes and is replaced then. If it is lost before the caller received the new group, the new
    subscription starts with a whole group. It also starts with a whole group if the connection is lost within a group
    that replaces everything the caller holds, because there is no position to continue from.
    """

    def __init__(self, id: str, ask: Ask) -> None:
        self.id = id
        self._ask = ask
        self._waiting: deque[Message] = deque()
        self._unfinished: list[Message] = []
        self._in_step = False
        self._news = asyncio.Event()
        self._reader_may_go_on = asyncio.Event()
        self._reader_may_go_on.set()
        self._position = PositionTracker()
        self._whole = False
        self._is_void = False
        self._begins_afresh = False
        self._given = False
        self._started = asyncio.Event()
        self._taken = False
        self._replacements: deque[StreamReplacement] = deque()
        self._replacements_asked = 0
        self._groups_of_before = 0
        self.replacements = 0
        """The number of replacements by the server."""
        self.shown: ShownGroup | None = None
        self._error: SowlineError | None = None
        self._ended = False
        self._end = ""
        self.is_paused = _options_of(ask.options).pause
        """Whether the server is to tell nothing for now."""
        self.wants_proof = False
        """Whether a checksum of the caller's view was requested, and has not arrived yet."""
        self._is_answered = False
        """Whether the whole answer has arrived: the group, or that there is none."""

    # what the client's reader calls

    async def receive(self, received: Received, is_awaited: Callable[[], bool] = lambda: False) -> None:
        """Take a message from the connection; wait while the caller has too many unread messages.

        Do not wait if a message after it `is_awaited`, because the same caller may be waiting for it.
        """
        if self._error is not None:
            return
        if received.command == "ack":
            self._receive_ack(received)
        else:
            self._unfinished += self._messages(received)
            self.wants_proof = self.wants_proof and not (received.command == "progress" and received.hash)
            if not received.more:
                self._waiting.extend(self._unfinished)
                self._unfinished.clear()
            self._is_answered = self._is_answered or received.command == "group_end"
        self._news.set()
        is_full = len(self._waiting) >= WAITING_MAX
        if is_full and not self._ended and not self._replacements and not is_awaited():
            self._reader_may_go_on.clear()
        await self._reader_may_go_on.wait()

    @property
    def is_owed(self) -> bool:
        """Whether an answer is expected that its caller may await before it reads from other streams."""
        if self._error is not None or self._ended:
            return False
        return not self._is_answered or bool(self._replacements) or self.wants_proof

    def let_reader_go_on(self) -> None:
        """Let the client's reader continue: the message that it waits for may follow those of this stream."""
        self._reader_may_go_on.set()

    def _messages(self, received: Received) -> Iterator[Message]:
        """Return the caller's part of a message, which may have more fields for other subscriptions."""
        select = _select_of(self._ask.options) if len(received.sids) > 1 else None
        for message in received.messages():
            if message.command == "group_begin" and self._begins_afresh:
                self._begins_afresh = False
                yield msgspec.structs.replace(message, reset=True)
            else:
                yield message if select is None else _selected(message, select)

    def _receive_ack(self, ack: Received) -> None:
        part = _part_of(ack)
        if part == PROOF and self.wants_proof:
            self.wants_proof = False
            self._waiting.append(Message("progress", reason=ack.reason, hash=""))
        if part not in (PROOF, PAUSE, RESUME):
            self._receive_own_ack(ack)

    def _receive_own_ack(self, ack: Received) -> None:
        replacement = self._replacements[0] if self._replacements else None
        error = SowlineError(ack.reason or "failure", ack.message) if ack.status == "failure" else None
        if replacement is not None and ack.command_id == replacement.command_id:
            if error is None and ack.ack_type == "processed":
                self._replace(replacement)
            elif error is not None and ack.sub_id:
                self.fail(error)
            elif error is not None:
                self._replacements.popleft().settle(error)
        elif error is not None:
            self.fail(error)
        elif ack.ack_type == "processed":
            self._taken = True
            self._started.set()
            self._end = ack.up_to or self._end
            self._is_answered = self._ask.has_no_group or self._whole
            if self._ask.has_no_group and not self._whole and not self._is_void:
                self._position = PositionTracker(ack.bookmark)
                self._become_whole()
        elif ack.ack_type == "completed" and (self._ask.command == "sow" or self._ask.has_end):
            self._ended = True

    def _replace(self, replacement: StreamReplacement) -> None:
        """Continue as the request that the server has accepted. Waiting messages belong to the previous one."""
        self._ask = replacement.ask(self._ask)
        self.is_paused = _options_of(self._ask.options).pause
        self.replacements += 1
        if not self._ask.has_no_group:
            self._whole = self._is_answered = False
            self._groups_of_before = sum(message.command == "group_end" for message in self._waiting)
        elif not self._is_void:
            self._become_whole()
        self._replacements.popleft().settle()

    def _become_whole(self) -> None:
        self._whole, self._is_void = True, False
        self.shown = ShownGroup(self.replacements, self._ask)

    def fail(self, error: SowlineError) -> None:
        """End the stream: the caller gets the messages received before, then the error."""
        self._error = error
        self._wake_all(error)

    def close(self) -> None:
        """End the stream: its waiting messages will not be read, so the client's reader need not wait for space."""
        self._ended = True
        self._waiting.clear()
        self._wake_all(SowlineError("disconnected", "the subscription was ended before it was replaced"))

    def _wake_all(self, error: SowlineError) -> None:
        while self._replacements:
            self._replacements.popleft().settle(error)
        self._reader_may_go_on.set()
        self._news.set()
        self._started.set()

    def is_to_ask_again(self, received: Received) -> bool:
        """Return whether a refusal is temporary: the service is loading or behind our bookmark, or lacks a shard."""
        if _part_of(received) in (PROOF, PAUSE, RESUME):
            return False  # the subscription goes on all the same
        passing = ("not ready", "behind") if self._whole else ("not ready",)
        if self._ask.command != "sow":
            # Unlike a query, a subscription continues from what it has received.
            passing = (*passing, "shard unavailable")
        return received.status == "failure" and received.reason in passing

    def again(self, refused: Received) -> dict[str, Any]:
        """Return the refused request, to send it again."""
        replacement = self._replacements[0] if self._replacements else None
        if replacement is not None and refused.command_id == replacement.command_id:
            return replacement.ask(self._ask).replacement_request(self.id, replacement.command_id)
        return self.going_on().request(self.id)

    def request_about(self, what: str) -> dict[str, Any]:
        """Return the request that pauses, resumes, or asks for a checksum."""
        command = "heartbeat" if what == PROOF else what
        return {"command": command, "command_id": f"{self.id}.{what}", "sub_id": self.id}

    def end_request(self) -> dict[str, Any]:
        """Return the request that ends the query or subscription."""
        name = "query_id" if self._ask.command == "sow" else "sub_id"
        return {"command": "unsubscribe", "command_id": self.id, name: self.id}

    def next_request(self) -> dict[str, Any] | None:
        """Return the request for the next replacement, once, if the server has the subscription it is for."""
        if not self._taken or not self._replacements or self._replacements[0].sent:
            return None
        replacement = self._replacements[0]
        replacement.sent = True
        return replacement.ask(self._ask).replacement_request(self.id, replacement.command_id)

    def resumed(self, *, is_void: bool = False) -> Ask | None:
        """Drop the messages that the caller has not received, and return the request that resumes; None if none can.

        If what the caller holds `is_void`, because its rights have changed, a subscription starts again with a group.
        """
        if self._ended or self._error is not None:
            return None
        if self._ask.command == "sow" and self._given:
            self.fail(
                SowlineError("disconnected", "the connection was lost while the query ran; run it again")
            )
            return None
        self._drop_what_waits()
        self._taken = self._is_answered = False
        for replacement in self._replacements:
            replacement.sent = False
        self._reader_may_go_on.set()
        if is_void and self._ask.command != "sow" and (self._whole or self._ask.bookmark):
            self._whole, self._is_void, self._in_step = False, True, False
            self._waiting.clear()
        return self.going_on()

    def _drop_what_waits(self) -> None:
        """Drop the messages that the caller has not received, except for the rest of a step that it has begun to
        receive.
        """
        kept: deque[Message] = deque()
        while self._in_step and self._waiting:
            kept.append(self._waiting.popleft())
            if not kept[-1].more:
                break
        self._unfinished.clear()
        self._waiting = kept
        self._groups_of_before = 0

    def going_on(self) -> Ask:
        """Return the request that continues after the caller's last message."""
        ask = self._ask
        if self._is_void:
            self._begins_afresh = True
            ask = ask.afresh(self._end)
        if ask.command != "sow" and self.is_paused != _options_of(ask.options).pause:
            ask = replace(ask, options=with_pause(ask.options, self.is_paused))
        if ask.command == "sow" or not self._whole:
            return ask
        command = ask.command
        if not self._ask.is_view:
            command = command.removeprefix("sow_and_")
        position = self._position.copy()
        for message in self._waiting:
            position.note(message)
        return replace(ask, command=command).going_on(position.bookmark, self._end)

    # what the caller uses

    async def started(self) -> None:
        """Wait until the server has accepted the command; raise its refusal."""
        await self._started.wait()
        if self._error is not None:
            raise self._error

    def replace(self, **changes: Unpack[Selecting]) -> StreamReplacement:
        """Note the new request; replacements are sent and answered one after the other."""
        if unknown := changes.keys() - Selecting.__annotations__.keys():
            raise TypeError(f"replacing a subscription can't change {min(unknown)}; open a new subscription")
        if self._ask.command == "sow":
            raise SowlineError("not supported", "a query can't be replaced, only a subscription")
        if self._error is not None:
            raise self._error
        self._replacements_asked += 1
        replacement = StreamReplacement(f"{self.id}.{self._replacements_asked}", changes)
        if self._ended:
            replacement.settle(SowlineError("disconnected", "expected a subscription that has not ended"))
        else:
            self._replacements.append(replacement)
            # The answer comes after the waiting messages, and the caller that reads those may be waiting for it.
            self._reader_may_go_on.set()
        return replacement

    @property
    def ask(self) -> Ask:
        """The state of the subscription on the server."""
        return self._ask

    @property
    def bookmark(self) -> str | None:
        """The bookmark to resume from, after the last message that the caller got. None until a group has ended."""
        return self._position.bookmark if self._whole else None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """Return the next message; raise the reason if the server refused the stream."""
        await self._wait()
        return self._give(1)[0]

    async def next_batch(self, limit: int = 1000) -> list[Message]:
        """Wait for messages and return those that have arrived, up to the next `group_end`.

        An empty list is the end of the stream: of a query, of a subscription with an end, or after `close`.
        """
        try:
            await self._wait()
        except StopAsyncIteration:
            return []
        return self._give(min(limit, len(self._waiting)))

    async def _wait(self) -> None:
        while True:
            self._pass_silent()
            if self._waiting:
                return
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()

    def _pass_silent(self) -> None:
        """Move past messages that the caller does not get."""
        while self._waiting and self._waiting[0].is_silent:
            self._position.note(self._waiting.popleft())

    def _give(self, count: int) -> list[Message]:
        messages: list[Message] = []
        while self._waiting and len(messages) < count:
            message = self._waiting.popleft()
            messages.append(message)
            self._position.note(message)
            if message.reset:
                self._whole, self._is_void = False, True
            if message.command == "group_end":
                self._note_group()
                break
            self._pass_silent()
        self._given = True
        self._in_step = messages[-1].more
        if len(self._waiting) <= WAITING_MAX // 2:
            self._reader_may_go_on.set()
        return messages

    def _note_group(self) -> None:
        if self._groups_of_before:
            self._groups_of_before -= 1
        else:
            self._become_whole()


def _part_of(ack: Received) -> str:
    """Return what a command of a stream was about: a checksum, a pause or its end; empty for the stream itself."""
    return ack.command_id.partition(".")[2]


def stream_id(command_id: str) -> str:
    """Return the id of the stream that sent the command."""
    return command_id.partition(".")[0]


def _select_of(options: str) -> Select | None:
    return _options_of(options).select


@lru_cache(maxsize=256)
def _options_of(options: str) -> Options:
    try:
        return parse_options(options)
    except SowlineError:  # options of a later server
        return Options()


def _selected(message: Message, select: Select) -> Message:
    """Return the message with the selected fields only. Removing a field that is not held is harmless."""
    return msgspec.structs.replace(message, body=select.apply(message.body)) if message.body else message
