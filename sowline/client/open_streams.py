"""The open queries and subscriptions of a client. Each message goes to the streams that it belongs to."""

import asyncio
import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any, Unpack

from sowline.client.connection import ServiceConnection
from sowline.client.stream import Stream, stream_id
from sowline.errors import SowlineError
from sowline.subscriptions.ask import Ask, Selecting
from sowline.subscriptions.lifecycle import Again, AskLater, ConnectionMade, Event, Fail, Signal, State
from sowline.wire.client_message import Received


class OpenStreams:
    """Streams by their ids, over one connection. After a lost connection, each stream resumes over the next one."""

    def __init__(self) -> None:
        self.by_id: dict[str, Stream] = {}
        self.connection: ServiceConnection
        """The connection of the streams; set before the first of them is opened."""
        self._ids = (str(number) for number in itertools.count(1))

    # what the client calls

    async def open(self, ask: Ask) -> Stream:
        """Start a query or subscription and return its stream once the server has taken it."""
        await self.connection.wait_until_open()
        stream = Stream(next(self._ids), ask)
        self.by_id[stream.id] = stream
        self._let_reader_go_on()
        try:
            if self.connection.is_open:
                await self._command(stream, ConnectionMade())
            await stream.wait_started()
        except BaseException:
            # The server may have accepted it: a caller that gives up would leave a subscription that no one reads
            # (test_who_gives_up_opening_unsubscribes).
            await self.end(stream)
            raise
        return stream

    async def replace(self, stream: Stream, **reading: Unpack[Selecting]) -> None:
        """Change the request of a subscription; return once the server has accepted it."""
        replacement = stream.replace(**reading)
        self._let_reader_go_on()
        await self._send(stream)
        await replacement.wait_settled()

    async def pause(self, stream: Stream) -> None:
        """Let the service send nothing to a subscription until it is resumed."""
        await self._command(stream, Signal.PAUSE)

    async def unpause(self, stream: Stream) -> None:
        """Resume a subscription from the position at which it was paused."""
        await self._command(stream, Signal.UNPAUSE)

    async def prove(self, stream: Stream) -> None:
        """Ask for the number of records and the checksum of what a subscriber should hold."""
        self._let_reader_go_on()
        await self._command(stream, Signal.PROVE)

    async def end(self, stream: Stream) -> None:
        """Unsubscribe, if the stream is still open; without a connection there is nothing to unsubscribe from."""
        self.by_id.pop(stream.id, None)
        stream.close()
        await self._send(stream)

    def _let_reader_go_on(self) -> None:
        """Let the reader reach an answer that is expected, although callers have many messages to read."""
        for stream in self.by_id.values():
            stream.let_reader_go_on()

    async def _command(self, stream: Stream, event: Event) -> None:
        stream.handle(event)
        await self._send(stream)

    async def _send(self, stream: Stream) -> None:
        """Send a stream's requests; a caller that gives up only ends its own wait."""
        # The stream takes a request for sent. Cancelled with its caller, a replacement that still waits for room in
        # the connection would hold back all later ones (test_a_replacement_whose_caller_gives_up_is_sent).
        sending = self.connection.start(self._send_all(stream))
        await asyncio.wait([sending])
        if not sending.cancelled():
            sending.result()

    async def _send_all(self, stream: Stream) -> None:
        for request in self._requests(stream):
            await self.connection.send(request)

    def _requests(self, stream: Stream) -> Iterator[dict[str, Any]]:
        """Yield the requests that a stream has to send, in order; one that waits for a pause is sent after it."""
        while stream.outgoing:
            action = stream.outgoing.popleft()
            if isinstance(action, AskLater):
                self.connection.start(self._ask_again(stream, action.number))
            else:
                yield stream.request(action)

    async def _ask_again(self, stream: Stream, number: int) -> None:
        await self.connection.wait_to_repeat()
        await self._command(stream, Again(number))

    # what the connection calls

    async def receive(self, received: Received) -> None:
        """Give a message to the streams that it belongs to."""
        for id in received.streams:
            stream = self.by_id.get(stream_id(id))
            if stream is None:
                continue
            stream.receive(received)
            if stream.machine.is_over:
                # Its messages stay readable. Kept here, the streams of a client that asks all day would add up
                # (test_streams_that_have_ended_are_forgotten).
                del self.by_id[stream.id]
            if stream.outgoing:
                # Not awaited: the service reads no commands while its messages are unread, and this reader reads
                # them.
                self.connection.start(self._send_all(stream))
            await stream.wait_for_room(partial(self._is_awaited_behind, stream))

    def _is_awaited_behind(self, stream: Stream) -> bool:
        return any(other.machine.is_owed for other in self.by_id.values() if other is not stream)

    def lost(self) -> None:
        """Note that the connection is lost; another one will be made."""
        for stream in self.by_id.values():
            stream.handle(Signal.LOST)

    def resume(self, *, is_void: bool) -> Iterator[dict[str, Any]]:
        """Yield the requests that resume all streams; each stream drops messages that its caller has not received."""
        # Not a loop over the streams: callers open and end streams while the requests are sent.
        while stream := next((one for one in self.by_id.values() if one.machine.state is State.UNSENT), None):
            stream.handle(ConnectionMade(is_void))
            stream.let_reader_go_on()
            yield from self._requests(stream)

    def fail(self, error: SowlineError) -> None:
        """End all streams: their callers get what was received, then the error."""
        for stream in self.by_id.values():
            stream.handle(Fail(error.reason, error.message))
