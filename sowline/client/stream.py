"""One query or subscription from its caller's point of view: an iterator of messages with a bookmark. No I/O.

`ClientMachine` leads it through its lifecycle. A stream translates the service's messages and the caller's calls into
the machine's events, and wakes the tasks that wait.

The client's reader calls `receive` for each message of the connection, then `wait_for_room`. After each call of
`receive`, `handle`, `replace` or `close`, the connection takes what is in `outgoing`, in order. It sends what
`request` makes of an action. An `AskLater` becomes an `Again` event after a pause. After `Signal.LOST`, the
connection hands the event `ConnectionMade` to `handle` when there is a new one.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Any, Self, Unpack

import msgspec

from sowline.errors import SowlineError
from sowline.model.printable import printable
from sowline.model.select import Select
from sowline.subscriptions.ask import Ask, Selecting
from sowline.subscriptions.client_machine import LEAVE, PROVE, ClientMachine
from sowline.subscriptions.lifecycle import (
    LEGAL,
    Accepted,
    Answer,
    Arrived,
    AskLater,
    Event,
    Give,
    NotProven,
    NotReplaced,
    Over,
    Refused,
    Replace,
    ReplaceBy,
    Replaced,
    Send,
    SendAsk,
    Settled,
    Signal,
    Started,
    State,
    Take,
)
from sowline.subscriptions.position_tracker import PositionTracker
from sowline.subscriptions.taken import ServedRequest
from sowline.wire.client_message import Message, Received

PAUSE, RESUME, PROOF = "pause", "resume", "proof"
"""Suffixes after the stream's id in the ids of commands, such as `sub-1.pause`. A command to leave has `LEAVE`, and a
replacement its number. The id of the request itself is the stream's id alone."""

WAITING_MAX = 10_000
"""Messages that wait for the caller before the client stops reading from its connection."""

REFUSED_SECONDS = 5.0
"""How long a service may refuse a request for now, as while it loads, before this is logged."""

Outgoing = SendAsk | ReplaceBy | Send | AskLater
"""An action that a stream leaves to its connection."""

_LOST = Signal.LOST

log = logging.getLogger("sowline")


class StreamReplacement:
    """A pending replacement of a subscription's request, until the server has accepted or refused it."""

    def __init__(self) -> None:
        self._error: SowlineError | None = None
        self._settled = asyncio.Event()

    def settle(self, error: SowlineError | None = None) -> None:
        """Report the outcome to the callers that wait."""
        self._error = error
        self._settled.set()

    async def wait_settled(self) -> None:
        """Wait until the server has accepted it; raise its refusal."""
        await self._settled.wait()
        if self._error is not None:
            raise self._error


class Stream:
    """Messages of one query or subscription, in order; `async for` over it, or `await next_batch()`.

    `ClientMachine` decides how it continues after a lost connection and after a replacement.
    """

    def __init__(self, id: str, ask: Ask) -> None:
        self.id = id
        self.machine = ClientMachine(ask, record=log.isEnabledFor(logging.DEBUG))
        self.outgoing: deque[Outgoing] = deque()
        """Actions for the connection, in order."""
        self._replacements: deque[StreamReplacement] = deque()
        self._news = asyncio.Event()
        self._reader_may_go_on = asyncio.Event()
        self._reader_may_go_on.set()
        self._started = asyncio.Event()
        self._refused_since: float | None = None
        """When the service first refused, for now, what it has not accepted since; infinite once that is logged."""

    def handle(self, event: Event) -> list[Message]:
        """Let the machine take an event, and carry out its actions; return the messages that it gives."""
        given: list[Message] = []
        # Once there is a new connection, the machine makes these actions again. Kept, a replacement would reach
        # the service before the subscription, and everything would be sent twice.
        if event is _LOST:
            self.outgoing.clear()
        for action in self.machine.handle(event):
            match action:
                case Give():
                    given = action.messages
                case Started():
                    self._started.set()
                case Settled():
                    self._replacements.popleft().settle(action.error)
                case Over():
                    self._come_to_end(action.error)
                case SendAsk() | ReplaceBy() | Send() | AskLater():
                    self.outgoing.append(action)
        if isinstance(event, Refused) and not self.machine.is_over:
            self._note_refusal(event)
        elif isinstance(event, Accepted):
            self._refused_since = None
        return given

    def _note_refusal(self, refused: Refused) -> None:
        # Without this, a query of a topic that waits for a leader of Kafka would wait without a word
        # (test_a_request_that_is_refused_for_long_is_logged).
        now = time.monotonic()
        self._refused_since = since = now if self._refused_since is None else self._refused_since
        if now - since >= REFUSED_SECONDS:
            self._refused_since = inf
            log.warning("%s: %s; trying again", refused.reason, printable(refused.message))

    def _come_to_end(self, error: SowlineError | None) -> None:
        if error is not None:
            log.debug("stream %s has failed, %s: %r", self.id, error, self.machine)
        self._reader_may_go_on.set()
        self._started.set()
        self._news.set()

    # what the client's reader calls

    def receive(self, received: Received) -> None:
        """Take a message from the connection."""
        event: Event | None = None
        command = received.command
        if command == "ack":
            event = _answer_of(received)
        elif command in LEGAL:
            event = Arrived(command, self._messages(received), received.more)
        if event is not None:
            self.handle(event)
            self._news.set()

    async def wait_for_room(self, is_awaited: Callable[[], bool] = lambda: False) -> None:
        """Wait from when the caller has `WAITING_MAX` unread messages until it has half of them.

        Do not wait if a message after them `is_awaited`, because the same caller may be waiting for it.
        """
        machine = self.machine
        is_full = len(machine.taken.inbox) >= WAITING_MAX
        if is_full and not (machine.is_over or machine.is_being_replaced or is_awaited()):
            self._reader_may_go_on.clear()
        await self._reader_may_go_on.wait()

    def let_reader_go_on(self) -> None:
        """Let the client's reader continue: the message that it waits for may follow those of this stream."""
        self._reader_may_go_on.set()

    def _messages(self, received: Received) -> tuple[Message, ...]:
        """Return the caller's part of a message, which may have more fields for other subscriptions."""
        select = self.machine.ask.select if len(received.sids) > 1 else None
        if select is None:
            return received.messages()
        return tuple(_selected(message, select) for message in received.messages())

    def request(self, action: SendAsk | ReplaceBy | Send) -> dict[str, Any]:
        """Return the command that an action sends."""
        match action:
            case SendAsk():
                return action.ask.request(self.id)
            case ReplaceBy():
                return action.ask.replacement_request(self.id, f"{self.id}.{action.number}")
            case Send(what=what) if what in (PAUSE, RESUME):
                return {"command": what, "command_id": f"{self.id}.{what}", "sub_id": self.id}
            case Send(what=what) if what == PROVE:
                return {"command": "heartbeat", "command_id": f"{self.id}.{PROOF}", "sub_id": self.id}
            case Send(what=what):
                assert what == LEAVE, f"expected a command about a subscription, got {what}"
                name = "query_id" if self.ask.is_query else "sub_id"
                left = f"{self.id}.{LEAVE}"
                return {"command": "unsubscribe", "command_id": left, name: self.id, "ack_type": "processed"}

    # what the caller uses

    async def wait_started(self) -> None:
        """Wait until the server has accepted the command; raise its refusal."""
        await self._started.wait()
        if self.machine.error is not None:
            raise self.machine.error

    def replace(self, **changes: Unpack[Selecting]) -> StreamReplacement:
        """Note the new request; replacements are sent and answered one after the other."""
        if unknown := changes.keys() - Selecting.__annotations__.keys():
            raise TypeError(
                f"expected only {', '.join(sorted(Selecting.__annotations__))} in a replacement, got"
                f" {min(unknown)}; open a new subscription"
            )
        if self.ask.is_query:
            raise SowlineError("not supported", "expected a subscription to replace, got a query")
        # Raises if the stream has ended: nothing would settle the replacement then.
        self.handle(Replace(dict(changes)))
        replacement = StreamReplacement()
        self._replacements.append(replacement)
        # The answer follows the waiting messages, and the caller that reads those may be waiting for it
        # (test_who_waits_for_a_replacement_does_not_keep_its_answer_away).
        self._reader_may_go_on.set()
        return replacement

    def close(self) -> None:
        """End the stream: its waiting messages will not be read, so the client's reader need not wait for space."""
        self.handle(Signal.LEAVE)

    @property
    def ask(self) -> Ask:
        """The request that the service serves: the last one that it has accepted."""
        return self.machine.ask

    @property
    def bookmark(self) -> str | None:
        """The bookmark to resume from, after the last message that the caller got. None until a group has ended."""
        return self.machine.bookmark

    @property
    def before_batch(self) -> PositionTracker | None:
        """The position before the last batch; None if nothing could resume from it."""
        return self.machine.taken.before_batch

    @property
    def shown(self) -> ServedRequest | None:
        """The newest request whose message group the caller has received to its end; None before that."""
        return self.machine.taken.shown

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """Return the next message; raise the reason if the server refused the stream."""
        if not (given := await self.next_batch(1)):
            raise StopAsyncIteration
        return given[0]

    async def next_batch(self, limit: int = 1000) -> list[Message]:
        """Wait for messages and return those that have arrived, up to the next `group_end`.

        An empty list is the end of the stream: of a query, of a subscription with an end, or after `close`.
        """
        while not (given := self.handle(Take(max(limit, 1)))):
            if self.machine.error is not None:
                raise self.machine.error
            if self.machine.state is State.ENDED:
                break
            self._news.clear()
            await self._news.wait()
        # Half of them: just below the limit, the reader would be woken for each message.
        if len(self.machine.taken.inbox) <= WAITING_MAX // 2:
            self._reader_may_go_on.set()
        return given


def _answer_of(ack: Received) -> Answer | Signal | None:
    """Return the meaning of an acknowledgement; None if it means nothing for the lifecycle."""
    about = ack.command_id.partition(".")[2]  # see PAUSE, RESUME, PROOF
    if about == LEAVE:
        return Signal.LEFT
    is_failure = ack.status == "failure"
    reason = ack.reason or "failure"
    if about == PROOF:
        return NotProven(reason) if is_failure else None
    if about and not about.isdigit():
        return None
    number = int(about or 0)
    if is_failure and number:
        # A refusal that names the subscription has also ended it.
        return NotReplaced(number, reason, ack.message, ends=bool(ack.sub_id))
    if is_failure:
        return Refused(reason, ack.message)
    if ack.ack_type == "processed":
        return Replaced(number) if number else Accepted(ack.bookmark, ack.up_to)
    return Signal.COMPLETED if ack.ack_type == "completed" else None


def stream_id(command_id: str) -> str:
    """Return the id of the stream that sent the command."""
    return command_id.partition(".")[0]


def _selected(message: Message, select: Select) -> Message:
    """Return the message with the selected fields only.

    The message may still remove a field that the caller never got, which changes nothing for the caller.
    """
    return msgspec.structs.replace(message, body=select.apply(message.body)) if message.body else message
